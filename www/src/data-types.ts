// Types of texts, and of the examples made of them.

/**
 * Text to learn from: one sentence a line, a blank line between documents. Files may be compressed with gzip, which
 * their first bytes give away. Browsers read them by parts, so they may be larger than memory; they must stay as they are
 * meanwhile.
 */
export type TextSource = string | Blob | readonly (string | Blob)[];

/**
 * Training examples to learn from: TFRecord files of TensorFlow's or this program's `create_pretraining_data`, plain or
 * gzip. Browsers read them by parts for as long as they are used; they must stay as they are meanwhile.
 */
export type RecordSource = Blob | readonly Blob[];

/** How far the reading of a text or of records is. */
export interface ReadingProgress {
  /**
   * Words are counted for a vocabulary; text becomes tokens; sentences become examples; records are looked through; a model
   * is evaluated.
   */
  readonly stage: "vocabulary" | "tokens" | "examples" | "records" | "evaluation";
  /** Bytes of the files as they are; sentences where they become examples; examples where a model is evaluated. */
  readonly done: number;
  readonly total: number;
}

/** Options of whatever reads a text. */
export interface ReadingOptions {
  /** Told now and then how far it is. */
  readonly onProgress?: (progress: ReadingProgress) => void;
  /** Gives up: the promise rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** Options of {@link trainVocabulary}. */
export interface VocabularyOptions extends ReadingOptions {
  /** The most entries: 8192. A small text makes fewer. */
  readonly vocabSize?: number;
  /** Lower-case the text and strip accents: true. */
  readonly doLowerCase?: boolean;
}

/**
 * How examples are made of a text. Names and meanings are those of TensorFlow's `create_pretraining_data` where it has
 * them.
 */
export interface ExampleOptions {
  /** Lower-case the text and strip accents: true. */
  readonly doLowerCase?: boolean;
  /** Tokens of an example: 128. */
  readonly maxSeqLength?: number;
  /** The most tokens masked in an example: 20. */
  readonly maxPredictionsPerSeq?: number;
  /** Share of the tokens that are masked: 0.15. */
  readonly maskedLmProb?: number;
  /** Share of the examples made shorter than they could be: 0.1. */
  readonly shortSeqProb?: number;
  /** How often the text is gone through, each time with other masks: 10. */
  readonly dupeFactor?: number;
  /**
   * Start an example with every sentence and fill it up, its first segment having from so many to so many tokens. By
   * default segments are whole sentences.
   */
  readonly firstSegmentTokens?: readonly [number, number];
  /** Mask whole words, not single pieces: false. */
  readonly doWholeWordMask?: boolean;
  /** Train the next-sentence task too: true. The text must have two documents then. */
  readonly useNextSentenceLabel?: boolean;
  /** Decides examples, their order, initial weights and dropout: 12345. The same seed gives the same run. */
  readonly seed?: number;
  /**
   * Examples with more tokens than this, padding aside, lie in the browser's private file system and come in random order;
   * up to so many stay in memory, some 6 bytes a token, in TensorFlow's order: 8388608. Where there is no such file system,
   * as in private windows and in Node, up to 256 MiB of them are held in memory, and a text that takes more is refused.
   */
  readonly maxTokensInMemory?: number;
}

/** Options of {@link createPretrainingData}. */
export interface DataOptions extends ExampleOptions, ReadingOptions {
  /** The content of a `vocab.txt`, a token a line; {@link trainVocabulary} makes one. */
  readonly vocabulary: string;
}

/** What a text amounts to. */
export interface DataReport {
  readonly documents: number;
  readonly sentences: number;
  readonly tokens: number;
  /** Share of the tokens that the vocabulary cannot spell. */
  readonly unknownShare: number;
  /** Training examples made of the text. */
  readonly instances: number;
  /** Share of them whose second segment does not follow the first. */
  readonly randomNextShare: number;
  readonly vocabSize: number;
  /** What a person should know before training on this, a sentence each. */
  readonly warnings: readonly string[];
}

/** What files of records amount to. */
export interface RecordsReport {
  readonly instances: number;
  /** Tokens of an example, padding included. */
  readonly maxSeqLength: number;
  /** Places for masked tokens in an example. */
  readonly maxPredictionsPerSeq: number;
  /** Share of the examples whose second segment does not follow the first. */
  readonly randomNextShare: number;
  /** Damaged records left out. */
  readonly skipped: number;
  /** What a person should know before training on this, a sentence each. */
  readonly warnings: readonly string[];
}

/** A training example, without padding. */
export interface Example {
  readonly tokens: readonly ExampleToken[];
}

export interface ExampleToken {
  /** The true token. `##` marks a word's continuation. */
  readonly token: string;
  /** Is it to be guessed? The model sees `[MASK]` there, or now and then another token, or the token itself. */
  readonly hidden: boolean;
  /** The likeliest token there, where a model was asked. */
  readonly guess?: string;
}

/** Training examples. They live in the worker; {@link PretrainingData.close} frees them. */
export interface PretrainingData {
  readonly report: DataReport;
  /** The first `count` examples, or all if there are fewer. */
  examples(count: number): Promise<Example[]>;
  /** A TFRecord file of them, which TensorFlow's `run_pretraining` reads. */
  toTFRecord(): Promise<Blob>;
  /** Frees the examples; they cannot be used after that. */
  close(): void;
}
