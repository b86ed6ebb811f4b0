// The worker's side of a run: passes its events on, decides between steps what is next, and keeps its snapshots.
import { Checkpoint, type RunSource } from "./checkpoint.js";
import type { Example } from "./data-types.js";
import type { BestEvaluation } from "./evaluation-types.js";
import { OptionError } from "./option-error.js";
import type { CallbackAnswers, CallbackPoint, FillMaskQuestion, RunOptions } from "./protocol.js";
import { nameOf, type Snapshot } from "./run-folder.js";
import { Reading, type Reader } from "./open-reading.js";
import type { Sources } from "./sources.js";
import type { MaskGuesses, TrainingEvent } from "./types.js";

/** What the wasm module is told to do next. */
type Command = { readonly kind: "continue" | "pause" | "stop" } | Question;

/** What is to be answered. */
type Question =
  | ({ readonly kind: "fillMask" } & FillMaskQuestion)
  | { readonly kind: "examples"; readonly count: number }
  | { readonly kind: "snapshot" };

/** Whoever can answer for a run that is over. */
interface Answerer {
  fillMask(question: FillMaskQuestion): Promise<unknown>;
}

interface Asked {
  readonly question: Question;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

const DEFAULT_SECONDS = 15;

export class Conductor {
  #sources: Sources;
  readonly #options: RunOptions;
  readonly #post: (event: TrainingEvent) => void;
  readonly #asked: Asked[] = [];
  /** Being answered. */
  #current: Asked | undefined;
  #paused = false;
  #stopped = false;
  #aborted = false;
  /** Was anything asked since the last command? */
  #hasNews = false;
  #wake: () => void = () => {};

  readonly #readings: Reading[] = [];
  #name = "";
  #checkpoint: Checkpoint | undefined;
  #milliseconds = DEFAULT_SECONDS * 1000;
  /** The last snapshot. */
  #snapshot: Snapshot | undefined;
  #snapshotAt = performance.now();
  #snapshotWanted = false;
  /** Of those that are written, the best. */
  #best: BestEvaluation | undefined;
  /** An evaluation whose snapshot is to be taken, and one whose snapshot failed. */
  #bestWanted: BestEvaluation | undefined;
  #bestFailed: BestEvaluation | undefined;
  /** Steps done when a snapshot was last asked for. */
  #askedAt = -1;
  #writing: Promise<void> | undefined;
  /** Told when the last snapshot is written. */
  #done: TrainingEvent | undefined;
  #totalSteps = 0;
  #lastLoss: number | undefined;

  readonly #callBack: ((point: CallbackPoint) => void) | undefined;
  /** What the callbacks asked last answered. */
  #callbackAnswer: CallbackAnswers | undefined;

  /** `callBack` has the page call its callbacks, where there are any; their answer is to be told to `calledBack`. */
  constructor(sources: Sources, options: RunOptions, post: (event: TrainingEvent) => void, callBack: ((point: CallbackPoint) => void) | undefined) {
    this.#sources = sources;
    this.#callBack = callBack;
    this.#options = options;
    this.#post = post;
  }

  get aborted(): boolean {
    return this.#aborted;
  }

  get best(): BestEvaluation | undefined {
    return this.#best;
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#tellNews();
  }

  stop(): void {
    this.#stopped = true;
    this.#tellNews();
  }

  abort(): void {
    this.#aborted = true;
    this.stop();
  }

  calledBack(answer: CallbackAnswers): void {
    this.#callbackAnswer = answer;
    this.#tellNews();
  }

  /** Takes a snapshot as soon as it can: the page may be gone any moment. */
  save(): void {
    this.#snapshotWanted = true;
    this.#tellNews();
  }

  async fillMask(question: FillMaskQuestion): Promise<MaskGuesses> {
    return this.#ask({ kind: "fillMask", ...question });
  }

  async examples(count: number): Promise<Example[]> {
    return this.#ask({ kind: "examples", count });
  }

  #ask<T>(question: Question): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ question, resolve: resolve as (value: unknown) => void, reject });
      this.#tellNews();
    });
  }

  #tellNews(): void {
    this.#hasNews = true;
    this.#wake();
  }

  /** The wasm module is done: resolves when the last snapshot is written and nothing else is left. */
  async close(): Promise<void> {
    for (const reading of this.#readings) await reading.close();
    await this.#writing;
  }

  /** The run is over: what it did not answer is answered by its model, or by why there is none. */
  end(model: Answerer | undefined, error?: unknown): void {
    if (this.#current) this.#asked.push(this.#current);
    for (const { question, resolve, reject } of this.#asked.splice(0)) {
      if (!model) reject(error);
      else if (question.kind === "fillMask") model.fillMask(question).then(resolve, reject);
      else resolve([]);
    }
    if (model && this.#done) this.#post(this.#done);
  }

  // From here on: what the wasm module calls.

  async prepare(): Promise<{ options: RunSource["options"]; vocabulary: string | undefined; hasCallbacks: boolean }> {
    const { checkpoint, checkpointSeconds = DEFAULT_SECONDS, resume = true, ...options } = this.#options;
    if (typeof checkpointSeconds !== "number" || !(checkpointSeconds >= 0)) {
      throw new OptionError("checkpointSeconds: must be a number of at least 0", "checkpointSeconds");
    }
    if (typeof resume !== "boolean") throw new OptionError("resume: must be true or false", "resume");
    this.#milliseconds = checkpointSeconds * 1000;
    const hasCallbacks = this.#callBack !== undefined;
    if (checkpoint === undefined) {
      return { options, vocabulary: undefined, hasCallbacks };
    }
    this.#name = nameOf(checkpoint, "checkpoint");
    this.#checkpoint = await Checkpoint.open(this.#name, resume, this.#sources, options);
    this.#snapshot = this.#checkpoint.snapshot;
    this.#askedAt = this.#snapshot?.step ?? -1;
    this.#sources = this.#checkpoint.source.sources;
    this.#best = this.#checkpoint.best;
    return { options: this.#checkpoint.source.options, vocabulary: this.#checkpoint.record?.vocabulary, hasCallbacks };
  }

  source(): Promise<Reading> {
    const { text, records } = this.#sources;
    return this.#open(text, records);
  }

  async evaluation(): Promise<Reading | undefined> {
    const { evaluationText: text, evaluationRecords: records } = this.#sources;
    return text || records ? this.#open(text, records) : undefined;
  }

  async #open(text: Sources["text"], records: Sources["records"]): Promise<Reading> {
    const reader: Reader = {
      tell: (progress) => this.tell({ kind: "reading", ...progress }),
      goesOn: () => !this.#stopped,
    };
    const reading = await (records ? Reading.records(records, reader) : Reading.text(text, reader));
    this.#readings.push(reading);
    return reading;
  }

  async begin(vocabulary: string): Promise<void> {
    for (const reading of this.#readings) reading.textIsRead();
    try {
      await this.#checkpoint?.begin(vocabulary);
    } catch (error) {
      this.#notSaved(error);
    }
  }

  kept(): Snapshot | undefined {
    return this.#snapshot;
  }

  tell(event: TrainingEvent): void {
    if (event.kind === "started") this.#totalSteps = event.totalSteps;
    if (event.kind === "progress") this.#lastLoss = event.lmExampleLoss;
    const isBest = event.kind === "evaluation" && event.loss < (this.#best?.loss ?? Infinity);
    if (isBest && this.#checkpoint) this.#bestWanted = { step: event.step, loss: event.loss };
    // A snapshot that failed by it is taken when the run comes by again.
    if (event.kind === "device-lost") {
      this.#askedAt = Math.min(this.#askedAt, this.#snapshot?.step ?? -1);
      this.#bestWanted ??= this.#bestFailed;
      this.#bestFailed = undefined;
    }
    if (event.kind === "done") this.#done = event;
    else if (!this.#aborted) this.#post(event);
  }

  next(step: number): Command {
    this.#hasNews = false;
    const isDue = this.#snapshotIsDue(step);
    const best = this.#bestWanted?.step === step ? this.#bestWanted : undefined;
    if (isDue || best) {
      if (isDue) this.#askedAt = step;
      if (best) this.#bestWanted = undefined;
      this.#current = {
        question: { kind: "snapshot" },
        resolve: (value) => this.#keep(value as Snapshot, isDue, best),
        reject: () => (this.#bestFailed = best),
      };
      return this.#current.question;
    }
    if (this.#stopped) return { kind: "stop" };
    this.#current = this.#asked.shift();
    if (this.#current) return this.#current.question;
    return { kind: this.#paused ? "pause" : "continue" };
  }

  callBack(point: CallbackPoint): void {
    this.#callbackAnswer = undefined;
    this.#callBack?.(point);
  }

  async nextInCallback(): Promise<Command> {
    for (;;) {
      this.#hasNews = false;
      this.#current = this.#asked.shift();
      if (this.#current) return this.#current.question;
      if (this.#aborted) return { kind: "stop" };
      const answer = this.#callbackAnswer;
      if (answer?.failure !== undefined) throw new Error(answer.failure);
      if (answer) return { kind: answer.stopTraining ? "stop" : "continue" };
      await this.resumed();
    }
  }

  async resumed(): Promise<void> {
    if (!this.#hasNews) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  answer(value: unknown): void {
    this.#current?.resolve(value);
    this.#current = undefined;
  }

  refuse(error: unknown): void {
    this.#current?.reject(error);
    this.#current = undefined;
  }

  /** After so many seconds, when the page asked for it, and before a saved run ends. */
  #snapshotIsDue(step: number): boolean {
    if (!this.#checkpoint || this.#aborted || step <= this.#askedAt) return false;
    const isLast = this.#stopped || step === this.#totalSteps;
    const isTime = performance.now() - this.#snapshotAt >= this.#milliseconds && !this.#writing && step > 0;
    return isLast || isTime || this.#snapshotWanted;
  }

  #keep(snapshot: Snapshot, isDue: boolean, best: BestEvaluation | undefined): void {
    if (isDue) {
      this.#snapshot = snapshot;
      this.#snapshotAt = performance.now();
      this.#snapshotWanted = false;
    }
    const more = { totalSteps: this.#totalSteps, lastLoss: this.#lastLoss };
    const write = async (): Promise<void> => {
      try {
        if (isDue) await this.#checkpoint?.write(snapshot, more);
        if (best && best.loss < (this.#best?.loss ?? Infinity)) {
          await this.#checkpoint?.write(snapshot, more, best.loss);
          this.#best = best;
        }
        this.tell({ kind: "checkpoint", name: this.#name, step: snapshot.step, bytes: snapshot.bytes.length, best: best !== undefined && best === this.#best });
      } catch (error) {
        this.#notSaved(error);
      }
    };
    const writing = (this.#writing ?? Promise.resolve()).then(write).finally(() => {
      if (this.#writing === writing) this.#writing = undefined;
    });
    this.#writing = writing;
  }

  /** That a run cannot be saved is no reason to end it. */
  #notSaved(error: unknown): void {
    const { name, message } = error as Error;
    const why = name === "QuotaExceededError" ? "the browser's storage is full. Deleting other saved runs makes room" : message;
    this.tell({ kind: "notice", message: `The run goes on but is not saved: ${why}. It is tried again with the next snapshot.` });
  }
}
