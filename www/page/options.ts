// The options of a run that the page offers, what each size starts with, and how large models are.
import type { ExampleOptions, PretrainOptions } from "wgpu-bert";

export const SIZES = ["nano", "tiny", "mini", "small"] as const;
export type Size = (typeof SIZES)[number];

/** Those that stand behind "More", and the size. */
export interface Options {
  readonly size: Size;
  readonly steps: number;
  readonly batchSize: number;
  readonly learningRate: number;
  readonly warmupSteps: number;
  readonly maxSeqLength: number;
  readonly maskedLmProb: number;
  readonly vocabSize: number;
  readonly seed: number;
  readonly optimizerType: "adamw" | "lamb";
  readonly doLowerCase: boolean;
  readonly doWholeWordMask: boolean;
  readonly useNextSentenceLabel: boolean;
}

/** Hidden size, layers, heads and feed-forward size. All but nano are Google's miniature BERTs (arXiv:1908.08962). */
const SHAPES: Readonly<Record<Size, readonly [hidden: number, layers: number, heads: number, intermediate: number]>> = {
  nano: [32, 1, 2, 128],
  tiny: [128, 2, 2, 512],
  mini: [256, 4, 4, 1024],
  small: [512, 4, 8, 2048],
};

const COMMON = {
  batchSize: 64,
  maskedLmProb: 0.3,
  seed: 12_345,
  optimizerType: "adamw",
  doLowerCase: true,
  doWholeWordMask: false,
  useNextSentenceLabel: true,
} as const;

/** What suits a small text: nano learns within minutes on a processor, the others need a GPU. */
export function defaultsOf(size: Size): Options {
  if (size === "nano") {
    return { ...COMMON, size, steps: 4800, learningRate: 0.015, warmupSteps: 480, maxSeqLength: 16, vocabSize: 1024 };
  }
  const learningRate = { tiny: 1e-3, mini: 5e-4, small: 3e-4 }[size];
  return { ...COMMON, size, steps: 10_000, learningRate, warmupSteps: 1000, maxSeqLength: 64, vocabSize: 4096 };
}

/** The most positions of Google's models; nano has no more than its sequences. */
const POSITIONS = 512;

const positions = ({ size, maxSeqLength }: Options): number =>
  size === "nano" ? maxSeqLength : Math.max(POSITIONS, maxSeqLength);

/** What of the options decides how a text is made into examples. */
export function toExampleOptions(options: Options): ExampleOptions {
  const { size, maxSeqLength, maskedLmProb, doLowerCase, doWholeWordMask, useNextSentenceLabel, seed } = options;
  return {
    maxSeqLength,
    maskedLmProb,
    maxPredictionsPerSeq: countPredictions(options),
    doLowerCase,
    doWholeWordMask,
    useNextSentenceLabel,
    seed,
    dupeFactor: size === "nano" ? 50 : 20,
    firstSegmentTokens: [Math.min(3, maxSeqLength - 4), Math.max(3, Math.floor(maxSeqLength * 0.75))],
  };
}

/** The options as the package takes them, all but text and vocabulary. */
export function toPretrainOptions(options: Options): PretrainOptions {
  const { size, steps, batchSize, learningRate, warmupSteps, optimizerType } = options;
  const [hiddenSize, numHiddenLayers, numAttentionHeads, intermediateSize] = SHAPES[size];
  // A small text is soon known by heart; a narrow model is not able to.
  const dropout = size === "nano" ? 0 : 0.1;
  return {
    ...toExampleOptions(options),
    steps,
    batchSize,
    // Here it is the user who sees that a batch does not fit, and takes another.
    gradientAccumulationSteps: 1,
    learningRate,
    warmupSteps,
    optimizerType,
    config: {
      hiddenSize,
      numHiddenLayers,
      numAttentionHeads,
      intermediateSize,
      hiddenDropoutProb: dropout,
      attentionProbsDropoutProb: dropout,
      maxPositionEmbeddings: positions(options),
    },
    beta2: 0.98,
    outputBiasInit: "unigram",
    stepsPerLoop: 10,
  };
}

/** Hidden tokens of an example. */
const countPredictions = ({ maxSeqLength, maskedLmProb }: Options): number => Math.max(1, Math.ceil(maxSeqLength * maskedLmProb));

/** Trainable weights of a `BertForPreTraining` with a vocabulary of `vocabSize`. */
export function countWeights(options: Options, vocabSize = options.vocabSize): number {
  const [h, layers, , i] = SHAPES[options.size];
  const embeddings = (vocabSize + positions(options) + 2) * h + 2 * h;
  const layer = 4 * (h * h + h) + 2 * h + (h * i + i) + (i * h + h) + 2 * h;
  const heads = 2 * (h * h + h) + 2 * h + vocabSize + (2 * h + 2);
  return embeddings + layers * layer + heads;
}

/** Floating-point operations of a step, about: the backward pass takes twice those of the forward pass. */
export function countOperations(options: Options, vocabSize = options.vocabSize): number {
  const [h, layers, , i] = SHAPES[options.size];
  const tokens = options.batchSize * options.maxSeqLength;
  const predictions = options.batchSize * countPredictions(options);
  const layer = 4 * h * h + 2 * h * i + 2 * h * options.maxSeqLength;
  return 6 * (tokens * layers * layer + predictions * h * (h + vocabSize));
}
