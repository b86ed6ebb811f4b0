// 3 Device: what trains, how much memory it will take, and the button that starts.
import { type RunPlan, StrategyError, getDistributionStrategy } from "wgpu-bert";
import { find, make, makeButton, replaceContent } from "./dom.js";
import { bytes, integer, message, sentence } from "./format.js";
import { SIZES, defaultsOf } from "./options.js";
import { type Plan, plan } from "./plan.js";
import { device, isBusy, options, phase, text } from "./state.js";
import { start } from "./training.js";

/** Looks for something to train on. */
export async function look(): Promise<void> {
  device.set({ kind: "looking" });
  const before = options.value;
  try {
    const strategy = await getDistributionStrategy();
    // A GPU has the time for more; only while nothing was chosen yet.
    if (strategy.adapter.kind !== "software" && text.value.kind === "empty" && options.value === before) options.set(defaultsOf("tiny"));
    device.set({ kind: "found", strategy });
  } catch (error) {
    if (error instanceof StrategyError) device.set({ kind: "absent", error });
    else device.set({ kind: "failed", message: message(error) });
  }
}

export function devicePanel(): void {
  const button = find<HTMLButtonElement>("start");
  button.addEventListener("click", () => void start());
  const show = (): void => {
    const hint = whyNot();
    button.disabled = hint !== "";
    find("start-hint").textContent = hint;
  };
  device.watch(() => replaceContent(find("device-report"), describe()));
  plan.watch(showMemory);
  phase.watch(() => showMemory(plan.value));
  for (const watched of [device, text, options, plan, phase]) watched.watch(show);
}

function describe(): Node[] {
  const now = device.value;
  switch (now.kind) {
    case "looking":
      return [make("p", { className: "name" }, "Looking for a GPU"), make("p", { className: "hint" }, "The program is loading.")];
    case "found": {
      const { adapter, why, notice } = now.strategy;
      const name = make("p", { className: "name" }, `${adapter.name} · WebGPU`);
      // A notice says more than why.
      return [name, notice ? make("p", { className: "warning" }, notice) : make("p", { className: "hint" }, why)];
    }
    case "absent":
      return [];
    case "failed":
      return [make("p", { className: "warning" }, now.message), makeButton("Look again", () => void look())];
  }
}

/** What keeps a run from starting; nothing when it can. */
function whyNot(): string {
  if (isBusy(phase.value)) return "A run is under way.";
  if (device.value.kind !== "found") return device.value.kind === "looking" ? "It looks for a device." : "There is no device.";
  switch (text.value.kind) {
    case "empty":
    case "failed":
      return "It needs a text first.";
    case "saved":
      return "This is the text of a saved run. Another run needs a text first.";
    case "reading":
    case "vocabulary":
    case "counting":
      return "The text is being read.";
    case "ready":
      if (text.value.report.documents === 1 && options.value.useNextSentenceLabel) return "One document has no next sentences to tell apart.";
      if (plan.value.kind === "refused") return "This cannot be trained.";
      return plan.value.kind === "made" && !plan.value.fits ? "This does not fit." : "";
  }
}

/** The plan as a bar: what belongs to the model, and what a batch takes beside it. */
function showMemory(now: Plan): void {
  const [words, bar, remedies] = [find("memory-words"), find("memory-bar"), find("memory-remedies")];
  const doesNotFit = now.kind === "made" && !now.fits;
  find("memory-plan").classList.toggle("excess", doesNotFit);
  words.classList.toggle("warning", doesNotFit || now.kind === "refused");
  replaceContent(remedies, doesNotFit && !isBusy(phase.value) ? whatFits(now) : []);
  if (now.kind !== "made" || doesNotFit) {
    bar.style.setProperty("width", doesNotFit ? "100%" : "0");
    words.textContent = doesNotFit ? "It does not fit on this device." : now.kind === "refused" ? "This cannot be trained." : "\u00a0";
    words.title = "";
    find("memory-why").textContent = "message" in now && now.message ? sentence(now.message) : "";
    find("memory-key").hidden = true;
    return;
  }
  // Weights, gradients and two moments each, of 4 bytes.
  const model = Math.min(now.bytes, 16 * now.parameters);
  bar.style.setProperty("width", `${(100 * model) / now.bytes}%`);
  words.textContent = `Fits: ${bytes(now.bytes)} of the device's memory.`;
  words.title = `${integer(now.bytes)} bytes, ${integer(now.dispatches)} kernels a step`;
  find("memory-model").textContent = `${bytes(model)} model and optimizer`;
  find("memory-batch").textContent = `${bytes(now.bytes - model)} for a batch`;
  find("memory-key").hidden = false;
  find("memory-why").textContent = "";
}

/** Buttons that make it fit. */
function whatFits(now: RunPlan): HTMLElement[] {
  const before = options.value;
  if (now.largestBatchSize) {
    const batchSize = now.largestBatchSize;
    return [makeButton(`Take a batch of ${integer(batchSize)}`, () => options.set({ ...before, batchSize }))];
  }
  const smaller = SIZES[SIZES.indexOf(before.size) - 1];
  return smaller ? [makeButton(`Take the size ${smaller}`, () => options.set({ ...defaultsOf(smaller), useNextSentenceLabel: before.useNextSentenceLabel }))] : [];
}
