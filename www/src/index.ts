/**
 * Pre-trains BERT in the browser, on WebGPU.
 *
 * Everything that computes runs in a worker that the package starts itself, so the page stays responsive. It asks for
 * nothing but its own files: no cross-origin isolation, no special headers.
 *
 * @packageDocumentation
 */
import { unlessAborted } from "./abort.js";
import { checkOptions, checkSource, checkString, checkText, kindOf, notGiven } from "./check.js";
import { ask } from "./client.js";
import type { DataOptions, PretrainingData, TextSource, VocabularyOptions } from "./data-types.js";
import { WorkerModel } from "./model.js";
import { WorkerData } from "./pretraining-data.js";
import { reading } from "./reading.js";
import type { StepOptions } from "./protocol.js";
import { WorkerRun } from "./training-run.js";
import type { SelfTestOptions, SelfTestReport, Strategy, StrategyName, Survey } from "./strategy-types.js";
import type { Model, PretrainOptions, RunPlan, SavedRun, StepMeasurement, TrainingRun } from "./types.js";

export { OptionError } from "./option-error.js";
export { StrategyError } from "./strategy-error.js";
export type { StrategyErrorReason } from "./strategy-error.js";
export type * from "./data-types.js";
export type * from "./evaluation-types.js";
export type * from "./strategy-types.js";
export type * from "./types.js";

/** Tells what there is to compute on, and why there is nothing. */
export async function surveyAdapters(): Promise<Survey> {
  return ask("surveyAdapters");
}

/**
 * Finds out how to train on this machine. Every run needs the answer.
 *
 * ```js
 * const strategy = await getDistributionStrategy();
 * console.log(strategy.adapter.name, strategy.notice);
 * ```
 *
 * @throws {@link StrategyError} when there is nothing to train on; its `reason` and `advice` say why and what to do.
 */
export async function getDistributionStrategy(request: StrategyName = "auto"): Promise<Strategy> {
  return ask("getDistributionStrategy", checkString(request, "request"));
}

/**
 * Checks that the adapter computes what it should: losses, logits and every gradient of a small model, against
 * reference numbers. Some drivers do not, and training on them is useless.
 *
 * @throws {@link StrategyError} without a strategy, or when the adapter opens no device; {@link OptionError} that names
 * a wrong option.
 */
export async function selfTest(
  strategy: Strategy | null | undefined,
  options: SelfTestOptions = {},
): Promise<SelfTestReport> {
  return ask("selfTest", kindOf(strategy) ?? (await notGiven()), checkOptions(options));
}

/**
 * Trains a WordPiece vocabulary on a text, by default on the bundled corpus, and resolves to the content of a
 * `vocab.txt`.
 *
 * @throws {@link OptionError} that names a wrong option; an `Error` whose `name` is `TextError` when the text is at fault.
 */
export async function trainVocabulary(text?: TextSource, options: VocabularyOptions = {}): Promise<string> {
  const { signal, onProgress, ...rest } = checkOptions(options);
  return reading(signal, onProgress, (number) => ask("trainVocabulary", number, checkText(text), rest), () => {});
}

/**
 * Makes training examples of a text, by default of the bundled corpus.
 *
 * ```js
 * const vocabulary = await trainVocabulary(file);
 * const data = await createPretrainingData(file, { vocabulary, maxSeqLength: 64 });
 * console.log(data.report.instances, data.report.warnings, await data.examples(3));
 * const records = await data.toTFRecord();
 * data.close();
 * ```
 *
 * @throws as {@link trainVocabulary}.
 */
export async function createPretrainingData(text: TextSource | undefined, options: DataOptions): Promise<PretrainingData> {
  const { signal, onProgress, ...rest } = checkOptions(options);
  const create = async (number: number): Promise<PretrainingData> => new WorkerData(await ask("createPretrainingData", number, checkText(text), rest));
  return reading(signal, onProgress, create, (data) => data.close());
}

/**
 * Pre-trains a BERT: masked words, and whether a sentence follows another.
 *
 * ```js
 * const run = runBertPretrain(strategy, { text: file, config: "tiny", steps: 1000 });
 * for await (const event of run) {
 *   if (event.kind === "progress") console.log(event.step, event.loss);
 * }
 * const { model } = await run.finished;
 * const { masks } = await model.fillMask("the cat sat on the [MASK]");
 * ```
 *
 * Never throws. `finished`, and the iteration, reject with a {@link StrategyError} without a strategy, with an
 * {@link OptionError} that names a wrong option, and with an `Error` whose `name` is `TextError`, `RecordsError`,
 * `DeviceError` or `DivergedError` when the text, the records, the device or the loss fails.
 */
export function runBertPretrain(strategy: Strategy | null | undefined, options: PretrainOptions = {}): TrainingRun {
  return new WorkerRun(strategy, options);
}

/**
 * Plans a run as the run itself would, and tells what it takes. Nothing is allocated and no text is read: a vocabulary
 * that is to be trained is taken to be as large as it may get.
 *
 * ```js
 * const { fits, message, bytes } = await planRun(strategy, { config: "base", batchSize: 64 });
 * ```
 *
 * @throws {@link StrategyError} without a strategy; {@link OptionError} that names a wrong option. That a run does not fit
 * is no error.
 */
export async function planRun(strategy: Strategy | null | undefined, options: PretrainOptions = {}): Promise<RunPlan> {
  return ask("planRun", kindOf(strategy) ?? (await notGiven()), ofStep(options));
}

/**
 * Measures how long a step of a run takes on this device, by training on random numbers for about a second after the
 * kernels are compiled. What else the device does meanwhile, another run for instance, counts in.
 *
 * @throws as {@link planRun}, and {@link OptionError} for a batch that does not fit.
 */
export async function measureStep(strategy: Strategy | null | undefined, options: PretrainOptions = {}): Promise<StepMeasurement> {
  const kind = kindOf(strategy) ?? (await notGiven());
  const step = ofStep(options);
  return unlessAborted(options.signal, () => ask("measureStep", kind, step), () => {});
}

function ofStep(options: PretrainOptions): StepOptions {
  const { text, records, evaluation, skipBadRecords, signal, checkpoint, checkpointSeconds, resume, customCallbacks, ...step } = checkOptions(options);
  return step;
}

/**
 * Opens a model: the files of a Hugging Face folder, a zip archive of them, or a saved run as `opfs:name`; its model with
 * the lowest loss in an evaluation is `opfs:name/best`.
 *
 * @throws an `Error` whose `name` is `ModelFileError` and whose message names the file, and in it the key or the tensor
 * that is wrong; `SavedRunError` where there is no such run.
 */
export async function loadModel(source: Blob | readonly File[] | `opfs:${string}`): Promise<Model> {
  return new WorkerModel(await ask("loadModel", checkSource(source)));
}

/** The runs saved in this browser, those saved last first. */
export async function savedRuns(): Promise<SavedRun[]> {
  return ask("savedRuns");
}

/**
 * Gives a saved run another name.
 *
 * @throws {@link OptionError} when that name is taken, or no name; a `SavedRunError` when there is no such run, or it is
 * training.
 */
export async function renameRun(name: string, to: string): Promise<void> {
  return ask("renameRun", checkString(name, "name"), checkString(to, "to"));
}

/** Deletes a saved run, if there is one; a `SavedRunError` while it is training. */
export async function deleteRun(name: string): Promise<void> {
  return ask("deleteRun", checkString(name, "name"));
}
