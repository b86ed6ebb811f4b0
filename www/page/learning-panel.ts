// 4 Learning: how far it is, how well it does, and the buttons that hold it.
import type { SavedRun } from "wgpu-bert";
import { curves } from "./curves.js";
import { find, make, makeButton, replaceContent } from "./dom.js";
import { ago, duration, integer, percent, unsureness } from "./format.js";
import { changes, history } from "./history.js";
import { canGoOn, saved } from "./saved.js";
import { type Phase, type Progress, isBusy, last, notice, options, phase, text } from "./state.js";
import { goOn, goSlower } from "./training.js";

export function learningPanel(): void {
  curves();
  find("pause").addEventListener("click", pauseOrResume);
  find("stop").addEventListener("click", stop);
  find("go-on").addEventListener("click", () => {
    const run = resumable();
    if (run) void goOn(run.name);
  });
  last.watch((now) => {
    keepPace(now);
    showNumbers();
    showProgress();
  });
  phase.watch((now) => {
    if (now.kind !== "training") recent = [];
    showProgress();
    showButtons(now);
    showTrouble();
  });
  notice.watch(showTrouble);
  saved.watch(() => {
    showProgress();
    showButtons(phase.value);
    if (phase.value.kind === "failed") showTrouble();
  });
  history.watch(showLog);
  changes.watch(showLog);
}

function pauseOrResume(): void {
  const now = phase.value;
  if (now.kind === "training") {
    now.run.pause();
    phase.set({ ...now, kind: "paused" });
  } else if (now.kind === "paused") {
    now.run.resume();
    phase.set({ ...now, kind: "training" });
  }
}

function stop(): void {
  const now = phase.value;
  if (!("run" in now)) return;
  now.run.stop();
  phase.set({ kind: "stopping", name: now.name, run: now.run });
}

/** The saved run that the button goes on with: the one on the page, or else the latest, if it is not at its end. */
function resumable(): SavedRun | undefined {
  const now = phase.value;
  const run = now.kind === "none" ? saved.value[0] : saved.value.find(({ name }) => name === now.name);
  return run && canGoOn(run) ? run : undefined;
}

function showNumbers(): void {
  const loss = last.value?.lmExampleLoss;
  find("loss").textContent = loss === undefined ? "-.--" : loss.toFixed(2);
  find("loss").classList.toggle("none", loss === undefined);
  const { unigramLoss } = history.value;
  const comparison = unigramLoss === undefined ? "" : ` Knowing only how frequent words are: ${unigramLoss.toFixed(2)}.`;
  find("loss-words").textContent = loss === undefined ? "The loss tells how unsure it is. It falls as it learns." : `Loss: it is ${unsureness(loss)}.${comparison}`;
}

function showProgress(): void {
  const now = phase.value;
  const at = last.value;
  const bar = find<HTMLProgressElement>("steps");
  if (now.kind === "preparing") {
    bar.max = 1;
    if (now.share === undefined) bar.removeAttribute("value");
    else bar.value = now.share;
  } else {
    [bar.max, bar.value] = at ? [at.totalSteps, at.step] : [1, 0];
  }
  find("step-words").textContent = describe(now);

  const isGoing = now.kind === "training" && at !== undefined;
  const left = isGoing ? secondsLeft() : undefined;
  const facts = isGoing ? [`${integer(at.tokensPerSecond)} tokens/s`, ...(left === undefined ? [] : [`${duration(left)} left`])] : [];
  find("rate").textContent = facts.join(" · ");
  // A hidden tab shows no more than this.
  document.title = isGoing ? `${percent(at.step / at.totalSteps)} · wgpu-bert` : "wgpu-bert";
}

/** Tells of the last steps without a pause among them, from which the pace follows. */
let recent: Progress[] = [];
const RECENT = 30;

function keepPace(at: Progress | undefined): void {
  const before = recent.at(-1);
  if (!at || phase.value.kind !== "training" || (before && at.step <= before.step)) recent = [];
  else recent = [...recent, at].slice(-RECENT);
}

function secondsLeft(): number | undefined {
  const [first, now] = [recent[0], recent.at(-1)];
  if (!first || !now || now.step === first.step) return undefined;
  return ((now.totalSteps - now.step) * (now.elapsedSeconds - first.elapsedSeconds)) / (now.step - first.step);
}

function describe(now: Phase): string {
  const at = last.value;
  const step = at ? `step ${integer(at.step)} of ${integer(at.totalSteps)}` : "the first step";
  switch (now.kind) {
    case "none": {
      const run = resumable();
      if (!run) return "Not started";
      return `${run.name} was saved at step ${integer(run.step)} of ${integer(run.totalSteps)}, ${ago(run.savedAt)}`;
    }
    case "preparing":
      return now.what;
    case "training":
      return at ? `Step ${integer(at.step)} of ${integer(at.totalSteps)}` : "Computing the first steps";
    case "paused":
      return `Paused at ${step}`;
    case "recovering":
      return `The device was lost at ${step}; opening another`;
    case "stopping":
      return "Stopping after the steps under way";
    case "finished":
      return now.stopped ? `Stopped at ${step}` : `Finished: ${at ? integer(at.totalSteps) : "all"} steps`;
    case "failed":
      return at ? `Ended at ${step}` : "Did not start";
  }
}

function showButtons(now: Phase): void {
  const [pause, stop, go] = [find<HTMLButtonElement>("pause"), find<HTMLButtonElement>("stop"), find<HTMLButtonElement>("go-on")];
  pause.disabled = now.kind !== "training" && now.kind !== "paused";
  pause.textContent = now.kind === "paused" ? `Go on from step ${integer(last.value?.step ?? 0)}` : "Pause";
  stop.disabled = !isBusy(now) || now.kind === "stopping";
  // The same steps would lead to where the loss is no number again.
  const run = isBusy(now) || (now.kind === "failed" && now.diverged) ? undefined : resumable();
  go.hidden = !run;
  if (run) go.textContent = `Go on from step ${integer(run.step)}`;
}

/** What went wrong, and what can be done about it. */
function showTrouble(): void {
  const now = phase.value;
  const words = now.kind !== "failed" ? notice.value : now.diverged ? whyDiverged() : now.message;
  const parts: Node[] = words ? [make("p", { className: "warning" }, words)] : [];
  if (now.kind === "failed" && now.diverged) parts.push(...waysOn());
  replaceContent(find("trouble"), parts);
}

const whyDiverged = (): string =>
  `The loss is no longer a number, so nothing more can be learned from it. A learning rate of ${options.value.learningRate} is too high for this model.`;

function waysOn(): HTMLElement[] {
  const run = saved.value.find(({ name }) => "name" in phase.value && name === phase.value.name);
  const back = makeButton(`Go back to step ${integer(run?.step ?? 0)} with half the learning rate`, () => void goSlower(run), { className: "primary" });
  const again = makeButton("Start again with half the learning rate", () => void goSlower(undefined));
  return [make("div", { className: "buttons" }, ...(run ? [back] : []), ...(text.value.kind === "ready" ? [again] : []))];
}

/** The history whose happenings the log shows, and those. */
let logged = history.value;
let shown = logged.happenings;

/** Lists what happened, and has screen readers read what is new. */
function showLog(): void {
  const { happenings } = history.value;
  if (logged === history.value && shown === happenings) return;
  const newest = happenings.at(-1);
  const isNews = logged === history.value && newest !== undefined && !newest.isRoutine;
  [logged, shown] = [history.value, happenings];
  find("log").replaceChildren(...happenings.map(({ step, text }) => make("li", {}, make("span", {}, integer(step)), ` ${text}`)));
  find("latest").textContent = newest?.text ?? "nothing yet";
  if (isNews) find("news").textContent = newest.text;
}
