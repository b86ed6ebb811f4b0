// What a page and its worker say to each other.
import type { DataOptions, DataReport, Example, ReadingOptions, RecordSource, TextSource, VocabularyOptions } from "./data-types.js";
import type { BestEvaluation, Evaluation, EvaluationOptions, EvaluationSource } from "./evaluation-types.js";
import type { StrategyErrorReason } from "./strategy-error.js";
import type { SelfTestOptions, SelfTestReport, Strategy, Survey } from "./strategy-types.js";
import type {
  Logs,
  MaskGuesses,
  ModelConfig,
  PretrainOptions,
  RunPlan,
  SavedRun,
  StepMeasurement,
  TrainingEvent,
} from "./types.js";

/** What of a run's options the wasm module reads itself. */
export type RunOptions = Omit<PretrainOptions, "text" | "records" | "evaluation" | "signal" | "customCallbacks">;

/** What a run learns from and what it is evaluated on, as they were given. Without a text or records a run learns from the bundled corpus. */
export interface Given {
  readonly text?: TextSource | undefined;
  readonly records?: RecordSource | undefined;
  readonly evaluationText?: TextSource | undefined;
  readonly evaluationRecords?: RecordSource | undefined;
}

/** Where in a run callbacks are to be called. */
export type CallbackPoint =
  | { readonly method: "onTrainBegin" | "onTrainEnd" }
  | { readonly method: "onEpochBegin"; readonly epoch: number }
  | { readonly method: "onBatchBegin"; readonly step: number }
  | { readonly method: "onBatchEnd"; readonly step: number; readonly logs: Logs }
  | { readonly method: "onEpochEnd"; readonly epoch: number; readonly logs: Logs };

/** What all callbacks answer together: does one want the run to end, or did one fail? */
export interface CallbackAnswers {
  readonly stopTraining: boolean;
  readonly failure?: string;
}

/** What of them decides a step. */
export type StepOptions = Omit<RunOptions, "checkpoint" | "checkpointSeconds" | "resume">;

/** What a model in the worker is to the page. */
export interface ModelHandle {
  readonly id: number;
  readonly config: ModelConfig;
}

/** What a run leaves in the worker. */
export interface RunEnd extends ModelHandle {
  readonly best?: BestEvaluation;
}

export type FillMaskQuestion = Readonly<{ text: string; topK: number }>;

/** What examples in the worker are to the page. */
export interface DataHandle {
  readonly id: number;
  readonly report: DataReport;
}

/** For each method of the worker its parameters and what it answers. Runs, readings of texts, models and examples go by numbers. */
export interface Methods {
  surveyAdapters(): Survey;
  getDistributionStrategy(request: string): Strategy;
  selfTest(strategy: Strategy["kind"] | undefined, options: SelfTestOptions): SelfTestReport;

  trainVocabulary(reading: number, text: TextSource | undefined, options: Omit<VocabularyOptions, keyof ReadingOptions>): string;
  createPretrainingData(reading: number, text: TextSource | undefined, options: Omit<DataOptions, keyof ReadingOptions>): DataHandle;
  /** Has one of the two above, or an evaluation, end early. */
  stopReading(reading: number): void;
  examplesOfData(data: number, count: number): Example[];
  toTFRecord(data: number): Blob;
  closeData(data: number): void;

  planRun(strategy: Strategy["kind"] | undefined, options: StepOptions): RunPlan;
  measureStep(strategy: Strategy["kind"] | undefined, options: StepOptions): StepMeasurement;

  runBertPretrain(
    run: number,
    strategy: Strategy["kind"] | undefined,
    given: Given,
    options: RunOptions,
    hasCallbacks: boolean,
  ): RunEnd;
  /** What the callbacks of a run answer that it asked for. */
  calledBack(run: number, answer: CallbackAnswers): void;
  pauseRun(run: number): void;
  resumeRun(run: number): void;
  stopRun(run: number): void;
  /** Stops it, and throws its model away. */
  abortRun(run: number): void;
  /** Saves it as soon as possible. */
  saveRun(run: number): void;
  /** `undefined` when the run is over. */
  fillMaskInRun(run: number, question: FillMaskQuestion): MaskGuesses | undefined;
  examplesInRun(run: number, count: number): Example[] | undefined;

  loadModel(source: Blob | readonly File[] | string): ModelHandle;
  fillMask(model: number, question: FillMaskQuestion): MaskGuesses;
  evaluate(reading: number, model: number, given: Given, options: Omit<EvaluationOptions, keyof EvaluationSource | keyof ReadingOptions>): Evaluation;
  exportHuggingFace(model: number): Uint8Array<ArrayBuffer>;
  closeModel(model: number): void;

  savedRuns(): SavedRun[];
  renameRun(name: string, to: string): void;
  deleteRun(name: string): void;
}

export type Method = keyof Methods;

export type Request = {
  [M in Method]: { readonly id: number; readonly method: M; readonly parameters: Parameters<Methods[M]> };
}[Method];

/** The fields of an error: a clone of an `Error` loses its class and all but its message. */
export interface Rejection {
  readonly name: string;
  readonly message: string;
  /** A `StrategyError` has these too. */
  readonly reason?: StrategyErrorReason;
  readonly advice?: string;
  /** An `OptionError` has this too. */
  readonly field?: string;
}

export type Response =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: Rejection }
  | { readonly run: number; readonly event: TrainingEvent }
  /** To be answered by `calledBack`. */
  | { readonly run: number; readonly callback: CallbackPoint }
  /** The wasm module is broken for good; no request is answered after this. */
  | { readonly panic: string };
