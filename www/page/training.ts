// The run on the page: how it starts and goes on, and what its events do to what the page knows.
import { type PretrainOptions, type SavedRun, type TrainingEvent, type TrainingRun, runBertPretrain } from "wgpu-bert";
import { bytes, integer, message, sentence } from "./format.js";
import { add, changed, emptyHistory, history, note } from "./history.js";
import { type Memory, recall, remember } from "./memory.js";
import { toRunName, unusedName } from "./names.js";
import { toPretrainOptions } from "./options.js";
import { canGoOn, refreshSaved, saved } from "./saved.js";
import { device, isBusy, last, notice, options, phase, question, setGuesser, text } from "./state.js";
import { showStorage } from "./storage.js";
import { restore } from "./text-intake.js";

/** Starts a run of the text and the options on the page. */
export async function start(): Promise<void> {
  if (text.value.kind !== "ready") return;
  const { given, vocabulary, report } = text.value;
  const words = `${given.source === undefined ? "sample" : given.name}-${options.value.size}`;
  const name = unusedName(toRunName(words), new Set(saved.value.map((run) => run.name)));
  const memory = { textName: given.name, report, options: options.value, question: question.value, history: emptyHistory() };
  const source = given.source === undefined ? {} : { text: given.source };
  await follow(name, { ...toPretrainOptions(options.value), ...source, vocabulary }, memory);
}

/**
 * Goes on with a saved run, perhaps with another learning rate. The run itself knows its text and options; the page may
 * remember what it showed of it.
 */
export async function goOn(name: string, learningRate?: number): Promise<void> {
  const known = await recall(name).catch(() => undefined);
  if (isBusy(phase.value)) return;
  const change = learningRate === undefined ? {} : { learningRate };
  const memory = known && { ...known, options: { ...known.options, ...change } };
  if (memory) {
    // Options of another vocabulary would have the text on the page read again.
    restore({ kind: "empty" });
    options.set(memory.options);
    restore({ kind: "saved", given: { name: memory.textName }, report: memory.report });
    question.set(memory.question);
  }
  await follow(name, change, memory);
}

/**
 * Half the learning rate, after a run whose loss is no longer a number: from its last snapshot, where every weight still
 * was one, or else from the start.
 */
export function goSlower(run: SavedRun | undefined): Promise<void> {
  const learningRate = options.value.learningRate / 2;
  if (run) return goOn(run.name, learningRate);
  options.set({ ...options.value, learningRate });
  return start();
}

/** Shows the curves of the run that can go on, as long as there is no other. */
export async function offerToGoOn(): Promise<void> {
  await refreshSaved();
  const [run] = saved.value;
  const memory = run && canGoOn(run) && (await recall(run.name));
  if (!memory || phase.value.kind !== "none") return;
  history.set(memory.history);
  last.set(memory.last);
}

async function follow(name: string, what: PretrainOptions, memory: Memory | undefined): Promise<void> {
  if (device.value.kind !== "found" || isBusy(phase.value)) return;
  history.set(memory?.history ?? emptyHistory());
  last.set(memory?.last);
  notice.set("");
  setGuesser(undefined);
  const run = runBertPretrain(device.value.strategy, { ...what, checkpoint: `opfs:${name}` });
  phase.set({ kind: "preparing", what: "Making examples from the text", name, run });
  try {
    for await (const event of run) {
      handle(event, run, name, memory);
      if (event.kind === "checkpoint") await keep(name, memory);
    }
    const { model, steps, stopped } = await run.finished;
    note(stopped ? `Stopped at step ${integer(steps)}` : `Finished after ${integer(steps)} steps`);
    setGuesser({ kind: "model", name, source: model });
    phase.set({ kind: "finished", name, stopped });
  } catch (error) {
    const words = message(error);
    note(words);
    setGuesser(undefined);
    if (error instanceof Error && error.name === "AbortError") return phase.set({ kind: "none" });
    phase.set({ kind: "failed", name, message: words, diverged: error instanceof Error && error.name === "DivergedError" });
  }
  await keep(name, memory);
}

function handle(event: TrainingEvent, run: TrainingRun, name: string, memory: Memory | undefined): void {
  switch (event.kind) {
    case "storage":
      void showStorage();
      break;
    case "reading":
      prepare(event.stage === "examples" ? "Making examples from the text" : "Reading the text", event.done / event.total);
      break;
    case "data":
      // The text's own stand beside the text already.
      for (const warning of event.warnings.filter((one) => !memory?.report.warnings.includes(one))) warn(warning);
      prepare("Opening the device");
      break;
    case "compiling":
      prepare(`Compiling shaders: ${integer(event.done)} of ${integer(event.total)}`, event.done / event.total);
      break;
    case "started": {
      history.value.uniformLoss = event.uniformLoss;
      history.value.unigramLoss = event.unigramLoss;
      const how = event.step > 0 ? `Goes on from step ${integer(event.step)}` : "Started";
      note(`${how} on ${event.adapter}, with ${bytes(event.bytes)} of its memory`);
      const before = phase.value;
      if (before.kind !== "stopping") phase.set({ kind: before.kind === "recovering" && before.wasPaused ? "paused" : "training", name, run });
      setGuesser({ kind: "run", name, source: run });
      break;
    }
    case "progress":
      add(history.value, event);
      if (memory) memory.last = event;
      last.set(event);
      changed();
      break;
    case "checkpoint":
      note(`Saved at step ${integer(event.step)}, ${bytes(event.bytes)}`, true, event.step);
      // What could not be saved is by now.
      notice.set("");
      break;
    case "notice":
      warn(sentence(event.message));
      break;
    case "device-lost":
      note(sentence(event.message), true);
      warn(`The device was lost. The run goes on by itself from step ${integer(event.step)}, on a new one.`);
      phase.set({ kind: "recovering", wasPaused: phase.value.kind === "paused", name, run });
      break;
    case "done":
      break;
  }
}

/** Tells how far the preparations are; a run that is to stop, or that recovers, has said so. */
function prepare(what: string, share?: number): void {
  const now = phase.value;
  if (now.kind === "preparing") phase.set({ kind: "preparing", what, name: now.name, run: now.run, ...(share !== undefined && { share }) });
}

function warn(words: string): void {
  if (words === notice.value) return;
  note(words);
  notice.set(words);
}

/** Remembers what is shown of a run, and lists the run. Where the browser has no room for that, training goes on. */
async function keep(name: string, memory: Memory | undefined): Promise<void> {
  try {
    if (memory) await remember(name, { ...memory, question: question.value });
    await refreshSaved();
  } catch (error) {
    warn(`The curves could not be saved with the run: ${message(error)}`);
  }
}

/** Tells of a tab that is hidden and seen again: training goes on meanwhile. */
export function watchVisibility(): void {
  let hiddenAt: number | undefined;
  document.addEventListener("visibilitychange", () => {
    if (phase.value.kind !== "training") return;
    const step = last.value?.step ?? 0;
    if (document.visibilityState === "hidden") {
      hiddenAt = step;
      note("The tab was hidden; training goes on");
    } else if (hiddenAt !== undefined) {
      note(`The tab is seen again: ${integer(step - hiddenAt)} steps were made meanwhile`);
      hiddenAt = undefined;
    }
  });
}
