// What a run with the options on the page would take on this device: memory exactly as a run plans it, and time as
// measured there.
import { type RunPlan, measureStep, planRun } from "wgpu-bert";
import { debounce } from "./dom.js";
import { message } from "./format.js";
import { Observable } from "./observable.js";
import { type Options, countOperations, defaultsOf, toPretrainOptions } from "./options.js";
import { device, isBusy, options, phase, text } from "./state.js";

export type Plan =
  | { readonly kind: "none" }
  | ({ readonly kind: "made" } & RunPlan)
  | { readonly kind: "refused"; readonly message: string };

/** How long a step takes with some options. */
export interface Pace {
  readonly options: Options;
  readonly vocabSize: number;
  readonly secondsPerStep: number;
}

export const plan = new Observable<Plan>({ kind: "none" });
/** Measured last. */
export const pace = new Observable<Pace | undefined>(undefined);

/** On a processor a step of more operations than this takes too long to be tried. */
const TRIED_ON_PROCESSOR = 2e9;

/** The vocabulary's size: of the text, or else what it may be. */
export const vocabSizeNow = (): number => ("report" in text.value ? text.value.report.vocabSize : options.value.vocabSize);

export function watchPlan(): void {
  const makeSoon = debounce(50, () => void make());
  const measureSoon = debounce(500, () => void measure());
  for (const watched of [device, options, text]) watched.watch(makeSoon);
  for (const watched of [plan, phase]) watched.watch(measureSoon);
}

let latest = 0;

async function make(): Promise<void> {
  const mine = ++latest;
  if (device.value.kind !== "found") return plan.set({ kind: "none" });
  let made: Plan;
  try {
    made = { kind: "made", ...(await planRun(device.value.strategy, { ...toPretrainOptions(options.value), vocabSize: vocabSizeNow() })) };
  } catch (error) {
    made = { kind: "refused", message: message(error) };
  }
  if (mine === latest) plan.set(made);
}

let isMeasuring = false;

/** Times a step once there is a text, as long as nothing else computes. */
async function measure(): Promise<void> {
  if (isMeasuring || isBusy(phase.value) || device.value.kind !== "found" || text.value.kind !== "ready") return;
  if (plan.value.kind !== "made" || !plan.value.fits) return;
  const { strategy } = device.value;
  const vocabSize = vocabSizeNow();
  const isTooLong = strategy.adapter.kind === "software" && countOperations(options.value, vocabSize) > TRIED_ON_PROCESSOR;
  const tried = isTooLong ? defaultsOf("nano") : options.value;
  if (pace.value && stepOf(tried, vocabSize) === stepOf(pace.value.options, pace.value.vocabSize)) return;
  isMeasuring = true;
  try {
    const { secondsPerStep } = await measureStep(strategy, { ...toPretrainOptions(tried), vocabSize });
    // A run that started meanwhile had its share of the device.
    if (!isBusy(phase.value)) pace.set({ options: tried, vocabSize, secondsPerStep });
  } catch {
    // A device that cannot be timed says why when the run starts.
  } finally {
    isMeasuring = false;
  }
}

/** Tells whether steps are alike. */
function stepOf({ size, batchSize, maxSeqLength, maskedLmProb, optimizerType, useNextSentenceLabel }: Options, vocabSize: number): string {
  return JSON.stringify([size, batchSize, maxSeqLength, maskedLmProb, optimizerType, useNextSentenceLabel, vocabSize]);
}

/** Seconds of a whole run; `isMeasured` where a step of just such a run was timed, and not one of another size. */
export function expectedTime(of: Options, vocabSize: number): { readonly seconds: number; readonly isMeasured: boolean } | undefined {
  const known = pace.value;
  if (!known) return undefined;
  const isMeasured = stepOf(of, vocabSize) === stepOf(known.options, known.vocabSize);
  const ratio = isMeasured ? 1 : countOperations(of, vocabSize) / countOperations(known.options, known.vocabSize);
  return { seconds: of.steps * known.secondsPerStep * ratio, isMeasured };
}
