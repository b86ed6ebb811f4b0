// Types of evaluations: how well a model guesses on what it does not learn from.
import type { ReadingOptions, RecordSource, TextSource } from "./data-types.js";

/** What a model is evaluated on: one of the two. */
export type EvaluationSource = { readonly text: TextSource; readonly records?: undefined } | { readonly records: RecordSource; readonly text?: undefined };

/** Options of a model's `evaluate`, with what it is evaluated on. */
export type EvaluationOptions = EvaluationSource &
  ReadingOptions & {
    /** Examples computed at once: 32. */
    readonly batchSize?: number;
    /** Tokens of an example made of text: 128, or what the model has positions for. */
    readonly maxSeqLength?: number;
    /** The most tokens masked in an example made of text: 20. */
    readonly maxPredictionsPerSeq?: number;
    /** Decides how examples are made of text: 12345. */
    readonly seed?: number;
    /** As in a run. */
    readonly maxTokensInMemory?: number;
    /** Leave out damaged records, instead of ending at the first: false. */
    readonly skipBadRecords?: boolean;
  };

/** How well a model guesses: means over all examples. Losses are in nats. */
export interface Evaluation {
  /** Examples. */
  readonly instances: number;
  /** Masked tokens; those of words masked together may count less. */
  readonly predictions: number;
  /** Masked-LM and next-sentence loss together. */
  readonly loss: number;
  /** Masked-LM loss. */
  readonly lmExampleLoss: number;
  /** Of the masked tokens: among so many words, all alike, the model would be as unsure. */
  readonly perplexity: number;
  /** Share of the masked tokens guessed right. */
  readonly maskedLmAccuracy: number;
  /** Absent where the model has no next-sentence task. */
  readonly nextSentenceLoss?: number;
  /** Share of the next-sentence labels guessed right. */
  readonly nextSentenceAccuracy?: number;
}

/** The evaluation with the lowest loss of a run. */
export interface BestEvaluation {
  /** Steps done. */
  readonly step: number;
  /** Masked-LM and next-sentence loss together. */
  readonly loss: number;
}
