import type { DataReport, Example, ExampleOptions, ReadingProgress, RecordSource, RecordsReport, TextSource } from "./data-types.js";
import type { BestEvaluation, Evaluation, EvaluationOptions, EvaluationSource } from "./evaluation-types.js";

/** Sizes of a model; what is missing is as in BERT base. */
export interface BertConfigOptions {
  /** Width of every token's vector: 768. */
  readonly hiddenSize?: number;
  /** Transformer layers: 12. */
  readonly numHiddenLayers?: number;
  /** Attention heads in a layer; they share `hiddenSize` equally: 12. */
  readonly numAttentionHeads?: number;
  /** Width of the feed-forward layer inside each layer: 3072. */
  readonly intermediateSize?: number;
  /** As in a Hugging Face `config.json`: `gelu_new`, the tanh form. */
  readonly hiddenAct?: "gelu" | "gelu_new" | "relu" | "silu";
  /** Dropout after embeddings, attention and feed-forward layers: 0.1. */
  readonly hiddenDropoutProb?: number;
  /** Dropout of the attention probabilities: 0.1. */
  readonly attentionProbsDropoutProb?: number;
  /** The longest sequence: 512. */
  readonly maxPositionEmbeddings?: number;
  /** Standard deviation of the weights a run starts from: 0.02. */
  readonly initializerRange?: number;
}

/** A model's sizes. */
export interface ModelConfig extends Required<BertConfigOptions> {
  /** Entries of the vocabulary. */
  readonly vocabSize: number;
}

/**
 * What {@link runBertPretrain} can be asked. Names and meanings are those of TensorFlow's `run_pretraining` and
 * `create_pretraining_data` where they have them.
 *
 * Without `config` and `vocabulary` a very small model is trained, and every option not given has a value that suits it
 * and a small text. Otherwise the values told below apply.
 */
export interface PretrainOptions extends ExampleOptions {
  /** What to learn from: the bundled corpus, the first five books of the King James Bible. */
  readonly text?: TextSource;
  /**
   * Examples made already, instead of a text. They need the `vocabulary` they were made with, and take no options about
   * making examples; `maxSeqLength` and `maxPredictionsPerSeq`, if given, must be theirs.
   */
  readonly records?: RecordSource;
  /** Leave out and count damaged records, instead of ending at the first: false. */
  readonly skipBadRecords?: boolean;
  /**
   * Evaluates the model during training on examples that it does not learn from. A text becomes examples with the run's
   * options, but is gone through once. Training ends with the same bits as without.
   */
  readonly evaluation?: EvaluationSource;
  /** Evaluations in an epoch, the last at its end: 1. */
  readonly numEvalPerEpoch?: number;
  /** The content of a `vocab.txt`, a token a line. Otherwise a vocabulary is trained from the text. */
  readonly vocabulary?: string;
  /** The most entries of a vocabulary that is trained: 8192. */
  readonly vocabSize?: number;
  /** One of Google's sizes, `nano`, which is smaller than all of them, or sizes of your own: `tiny`. */
  readonly config?: "nano" | "tiny" | "mini" | "small" | "medium" | "base" | BertConfigOptions;

  /** Length of the run: 3000. */
  readonly steps?: number;
  /** Examples in a step: 32. */
  readonly batchSize?: number;
  /**
   * Equal parts that a batch is done in, one after another: the update is that of the whole batch, in less memory. As few
   * as fit the device.
   */
  readonly gradientAccumulationSteps?: number;
  /** Learning rate at the end of the warm-up: 5e-5. */
  readonly learningRate?: number;
  /** Learning rate at the end of the run: 0. */
  readonly endLr?: number;
  /** Steps in which the learning rate grows from 0: a tenth of all. */
  readonly warmupSteps?: number;
  /** `adamw`. */
  readonly optimizerType?: "adamw" | "lamb";
  /** Weight decay of all but biases and layer normalisations: 0.01. */
  readonly weightDecay?: number;
  /** How much of the first moments a step keeps: 0.9. */
  readonly beta1?: number;
  /** How much of the second moments a step keeps: 0.999. */
  readonly beta2?: number;
  /** Largest global norm of the gradients, 0 for no limit: 1 with `adamw`, 0 with `lamb`. */
  readonly clipNorm?: number;

  /** Where the output bias starts: `zeros`, or `unigram`, the log frequency of each token. */
  readonly outputBiasInit?: "zeros" | "unigram";
  /** Steps of an epoch: all. It paces callbacks and evaluations and nothing else; the last one may be shorter. */
  readonly stepsPerEpoch?: number;
  /** Steps between two `progress` events: 10. An epoch's end makes them fewer. */
  readonly stepsPerLoop?: number;
  /** Computes the layers' activations again for the backward pass instead of keeping them, with the same numbers: less memory, up to a third more to compute: false. */
  readonly recompute?: boolean;
  /**
   * `fp16` stores activations in half the memory, with a copy of the weights besides those in 32 bits. The adapter must
   * have the feature `shader-f16`, or the run fails before its first step. The loss is scaled, so that small gradients are
   * not lost; the scale is always dynamic here: a step whose gradients are not finite is left out and halves it. By
   * default `fp32`.
   */
  readonly dtype?: "fp32" | "fp16";
  /**
   * Which kernels compute. By default those that suit the adapter; on a GPU the first run measures for a second which of
   * them multiply matrices fastest, and the browser keeps the result.
   */
  readonly kernels?: "register" | "tile" | "texture" | "workgroup";

  /**
   * Saves the run in the browser under a name. A run of that name with the same text and options goes on where it was,
   * and ends with the same bits as if it had never stopped; where nothing but the name is given, the saved text and
   * options apply, except for a `learningRate` that is given beside it. A run with other options is refused with an {@link OptionError} that says what differs.
   */
  readonly checkpoint?: `opfs:${string}`;
  /**
   * Seconds between two snapshots of a saved run: 15. One more is taken when the page is hidden.
   */
  readonly checkpointSeconds?: number;
  /** Go on with the saved run of that name: true. Otherwise it is replaced. */
  readonly resume?: boolean;

  /** Called at certain points of the run, which waits for them. */
  readonly customCallbacks?: readonly Callback[];
  /** Ends the run: `finished` and the iteration reject with its reason. */
  readonly signal?: AbortSignal;
}

/** Measurements of a loop of steps, and of the evaluation after it where there was one. */
export type Logs = Extract<TrainingEvent, { kind: "progress" }> & { readonly evaluation?: Evaluation };

/** `stopTraining` ends the run after the loop under way. What a callback throws ends it at once, and `finished` rejects with it. */
export type CallbackAnswer = void | CallbackWish | Promise<void | CallbackWish>;

export interface CallbackWish {
  readonly stopTraining?: boolean;
}

/**
 * What a caller adds to a run at the points where TensorFlow's trainer calls Keras callbacks. A loop is up to
 * `stepsPerLoop` steps within an epoch; epochs count from 1, steps from 0.
 *
 * ```text
 * onTrainBegin
 *   onEpochBegin(1)
 *     onBatchBegin(0)  onBatchEnd(9)      a loop of 10 steps
 *     onBatchBegin(10) onBatchEnd(13)     the epoch of 14 steps cuts the next one short
 *   onEpochEnd(1)
 *   onEpochBegin(2) …
 * onTrainEnd
 * ```
 *
 * They are called on the page, one callback after another, and awaited; they may ask the run meanwhile (`fillMask`). A run
 * that has callbacks waits for the device at the end of every loop. One that goes on within an epoch does not begin it
 * again, and one that is stopped within an epoch does not end it.
 */
export interface Callback {
  /** Everything is set up. */
  onTrainBegin?(): CallbackAnswer;
  /** The first step of an epoch follows. */
  onEpochBegin?(epoch: number): CallbackAnswer;
  /** A loop follows that begins with this step. */
  onBatchBegin?(step: number): CallbackAnswer;
  /** A loop is done that ended with this step. */
  onBatchEnd?(step: number, logs: Logs): CallbackAnswer;
  /** The last step of an epoch is done; the measurements are of its last loop. */
  onEpochEnd?(epoch: number, logs: Logs): CallbackAnswer;
  /** The run is over, finished or stopped. */
  onTrainEnd?(): CallbackAnswer;
}

/** What a run takes on a device: what {@link planRun} resolves to. */
export interface RunPlan {
  /** Numbers that are trained. */
  readonly parameters: number;
  /** Memory of the device that the run takes; where it does not fit, what weights, gradients and moments alone take. */
  readonly bytes: number;
  /** Kernels that run in a step, or for a part of it and the update; 0 where it does not fit. */
  readonly dispatches: number;
  /** Parts that a batch is done in; 1 where it does not fit. */
  readonly gradientAccumulationSteps: number;
  /** Does it fit the adapter's limits? */
  readonly fits: boolean;
  /** Why it does not fit, in words. */
  readonly message?: string;
  /** The largest batch that fits, where this one does not; absent where none does. */
  readonly largestBatchSize?: number;
}

/** What {@link measureStep} resolves to. */
export interface StepMeasurement {
  readonly secondsPerStep: number;
}

/** What a run tells while it trains. Losses are in nats; those of a step are means over the steps since the last event. */
export type TrainingEvent =
  /** The text is being read, or records are. */
  | ({ readonly kind: "reading" } & ReadingProgress)
  /** The text is read and made into examples. */
  | ({ readonly kind: "data"; readonly purpose: "training" | "evaluation" } & DataReport)
  /** The records are looked through. */
  | ({ readonly kind: "records"; readonly purpose: "training" | "evaluation" } & RecordsReport)
  /**
   * Kernels are being compiled, which can take seconds each with some drivers. Told from 0 on, before `started`; again
   * where a run goes on on a new device.
   */
  | { readonly kind: "compiling"; readonly done: number; readonly total: number }
  /** Everything is set up; the first step follows. */
  | {
      readonly kind: "started";
      /** The adapter's name. */
      readonly adapter: string;
      /**
       * The kernels of matrix products, and why these: `tile (measured fastest)`, or `(by class)` where the adapter's kind
       * decides, or `(asked for)`.
       */
      readonly kernels: string;
      /** Numbers that are trained. */
      readonly parameters: number;
      /** Memory of the device that the run takes. */
      readonly bytes: number;
      /** Kernels that run in a step, or for a part of it and the update. */
      readonly dispatches: number;
      /** Parts that a batch is done in. */
      readonly gradientAccumulationSteps: number;
      /** Steps done already: above 0 where a saved run goes on. */
      readonly step: number;
      readonly totalSteps: number;
      /** Masked-LM loss of a model that finds all words equally likely: ln V. */
      readonly uniformLoss: number;
      /** Masked-LM loss of a model that knows how frequent words are, and nothing else. */
      readonly unigramLoss: number;
    }
  /** Some steps are done. */
  | {
      readonly kind: "progress";
      /** Steps done. */
      readonly step: number;
      readonly totalSteps: number;
      /** Masked-LM and next-sentence loss together. */
      readonly loss: number;
      /** Masked-LM loss. */
      readonly lmExampleLoss: number;
      /** Share of the masked tokens guessed right. */
      readonly maskedLmAccuracy: number;
      /** Absent where the next-sentence task is not trained. */
      readonly nextSentenceLoss?: number;
      /** Share of the next-sentence labels guessed right. */
      readonly nextSentenceAccuracy?: number;
      /** Global norm of the gradients before clipping. */
      readonly gradNorm: number;
      /** Steps whose update was left out, as a loss or a gradient was not finite; absent where there are none. */
      readonly leftOut?: number;
      /** What the loss of the next step is multiplied by; absent without `fp16`. */
      readonly lossScale?: number;
      /** Learning rate of the next step. */
      readonly learningRate: number;
      /** Padding included. */
      readonly tokensPerSecond: number;
      /** Time spent training since the first step, before a reload too; pauses are left out. */
      readonly elapsedSeconds: number;
    }
  /** The model is being evaluated, as it was after `step` steps. */
  | { readonly kind: "evaluating"; readonly step: number; readonly done: number; readonly instances: number }
  /** The model was evaluated, as it was after `step` steps. */
  | ({ readonly kind: "evaluation"; readonly step: number } & Evaluation)
  /** The run was saved in the browser. */
  | {
      readonly kind: "checkpoint";
      /** Under this name. */
      readonly name: string;
      /** Steps done. */
      readonly step: number;
      readonly bytes: number;
      /** Had its model the lowest loss in an evaluation so far? Then it is kept besides the newest one. */
      readonly best: boolean;
    }
  /** What the browser grants a saved run, told after `started`, once a person has answered where the browser asks one. */
  | {
      readonly kind: "storage";
      /** Has it promised to keep saved runs? Otherwise it may clear them when the device runs short of space. */
      readonly persisted: boolean;
      /** Bytes that the run's snapshots will take. */
      readonly needed: number;
      /** Bytes that the browser says it has room for. A notice tells when that is too little. */
      readonly available: number;
    }
  /** Something a person should know, such as that the storage is full, or that nothing seems to be learned. The run goes on. */
  | { readonly kind: "notice"; readonly message: string }
  /** The device is gone: the driver was restarted, say. The run goes on by itself on a new one. */
  | {
      readonly kind: "device-lost";
      readonly message: string;
      /**
       * Where it goes on: steps done when the run last kept its state in memory, which every run does now and then. The
       * steps since then are done again, and not told again.
       */
      readonly step: number;
    }
  /** The run is over; `finished` resolves to its model. */
  | {
      readonly kind: "done";
      /** Steps done. */
      readonly step: number;
      /** Was it ended before its last step? */
      readonly stopped: boolean;
    };

/** Options of `fillMask`. */
export interface FillMaskOptions {
  /** Guesses for each mask: 5. */
  readonly topK?: number;
}

/** What a model guesses for a text. */
export interface MaskGuesses {
  /** For every `[MASK]`, from left to right, the likeliest tokens, the best first. `##` marks a word's continuation. */
  readonly masks: readonly (readonly { readonly token: string; readonly probability: number }[])[];
  /** Tokens left out because the text is longer than the model reads. */
  readonly cropped: number;
}

/** A trained model. It lives in the worker; {@link Model.close} frees it. */
export interface Model {
  readonly config: ModelConfig;
  /**
   * Guesses the words that stand for `[MASK]` in a text.
   *
   * @throws {@link OptionError} for a text without `[MASK]`.
   */
  fillMask(text: string, options?: FillMaskOptions): Promise<MaskGuesses>;
  /**
   * The files that Hugging Face's `BertForPreTraining` and `AutoTokenizer` read, in a zip archive: `config.json`,
   * `model.safetensors`, `vocab.txt`, `tokenizer_config.json` and `tokenizer.json`.
   */
  exportHuggingFace(): Promise<Blob>;
  /**
   * Losses and accuracies over all examples of a text or records.
   *
   * @throws as {@link trainVocabulary}; an `Error` whose `name` is `RecordsError` when records are at fault.
   */
  evaluate(options: EvaluationOptions): Promise<Evaluation>;
  /** Frees the model; it cannot be used after that. */
  close(): void;
}

/** What a run leaves. */
export interface TrainingResult {
  readonly model: Model;
  /** Steps done. */
  readonly steps: number;
  /** Was the run ended before its last step? */
  readonly stopped: boolean;
  /**
   * Of a saved run that is evaluated: after which step the loss was lowest. That model is `opfs:name/best` to
   * {@link loadModel}.
   */
  readonly best?: BestEvaluation;
}

/**
 * A run under way. Iterating over it gives its events as they come, each once; those that nobody has taken yet are kept.
 * When the run fails, the iteration throws what `finished` rejects with.
 */
export interface TrainingRun extends AsyncIterable<TrainingEvent> {
  /** Resolves when the run is over, and rejects when it fails. */
  readonly finished: Promise<TrainingResult>;
  /** Lets the device rest from the next step on. */
  pause(): void;
  /** Goes on after {@link TrainingRun.pause}. */
  resume(): void;
  /**
   * Ends the run before the next step; `finished` resolves to the model so far. While the text is being read there is none:
   * then `finished` rejects with an `Error` whose `name` is `AbortError`.
   */
  stop(): void;
  /** What the model guesses now, from the weights as they are. Answered between two steps, also while paused. */
  fillMask(text: string, options?: FillMaskOptions): Promise<MaskGuesses>;
  /**
   * The first `count` examples of the batch that the run is learning from now, with what the model guesses for every
   * hidden token. Answered between two steps, also while paused. There are at most as many as a batch has, and none once
   * the run is over.
   */
  examples(count: number): Promise<Example[]>;
}

/** A run in the browser's storage. */
export interface SavedRun {
  readonly name: string;
  /** Steps done. */
  readonly step: number;
  readonly totalSteps: number;
  /** Storage it takes. */
  readonly bytes: number;
  /** The masked-LM loss told last before it was saved. */
  readonly lastLoss?: number;
  /** Where it was evaluated: the best model there is of it, `opfs:name/best` to {@link loadModel}. */
  readonly best?: BestEvaluation;
  readonly savedAt: Date;
}
