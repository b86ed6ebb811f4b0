import { unlessAborted } from "./abort.js";
import { checkCount, checkGiven, checkOptions, kindOf, notGiven } from "./check.js";
import { Callbacks } from "./callbacks.js";
import { ask, listen, nextNumber } from "./client.js";
import type { Example } from "./data-types.js";
import { WorkerModel, fillMaskQuestion } from "./model.js";
import { OptionError } from "./option-error.js";
import type { CallbackPoint, Given, RunOptions } from "./protocol.js";
import { askToPersist, tellStorage } from "./storage.js";
import type { Strategy } from "./strategy-types.js";
import type {
  FillMaskOptions,
  MaskGuesses,
  PretrainOptions,
  TrainingEvent,
  TrainingResult,
  TrainingRun,
} from "./types.js";

/** A run in the worker, as the page sees it. */
export class WorkerRun implements TrainingRun {
  readonly finished: Promise<TrainingResult>;
  readonly #id = nextNumber();
  /** Events that nobody has taken yet. */
  readonly #events: TrainingEvent[] = [];
  /** Wakes those who wait for the next event, or for the end. */
  #wake: (() => void)[] = [];
  #ended = false;

  constructor(strategy: Strategy | null | undefined, options: PretrainOptions) {
    this.finished = this.#train(strategy, options);
    const end = (): void => {
      this.#ended = true;
      this.#wakeAll();
    };
    // Whoever iterates hears of a failure there; without this the browser would report it as unhandled.
    this.finished.then(end, end);
  }

  pause(): void {
    this.#tell("pauseRun");
  }

  resume(): void {
    this.#tell("resumeRun");
  }

  stop(): void {
    this.#tell("stopRun");
  }

  async fillMask(text: string, options: FillMaskOptions = {}): Promise<MaskGuesses> {
    const guesses = await ask("fillMaskInRun", this.#id, fillMaskQuestion(text, options));
    return guesses ?? (await this.finished).model.fillMask(text, options);
  }

  async examples(count: number): Promise<Example[]> {
    const examples = await ask("examplesInRun", this.#id, checkCount(count, "count"));
    if (!examples) await this.finished;
    return examples ?? [];
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TrainingEvent, void, undefined> {
    for (;;) {
      const event = this.#events.shift();
      if (event) {
        yield event;
      } else if (this.#ended) {
        await this.finished;
        return;
      } else {
        await new Promise<void>((resolve) => this.#wake.push(resolve));
      }
    }
  }

  async #train(strategy: Strategy | null | undefined, options: PretrainOptions): Promise<TrainingResult> {
    const kind = kindOf(strategy) ?? (await notGiven());
    const { text, records, evaluation, signal, customCallbacks, ...rest } = checkOptions(options);
    const begin = async (): Promise<TrainingResult> => {
      const given = checkGiven({ text, records, evaluation } as Pick<PretrainOptions, "text" | "records" | "evaluation">);
      if (evaluation === undefined && rest.numEvalPerEpoch !== undefined) {
        throw new OptionError("numEvalPerEpoch: there is no evaluation; give one, too", "numEvalPerEpoch");
      }
      return this.#begin(kind, given, rest, new Callbacks(customCallbacks));
    };
    return unlessAborted(signal, begin, () => this.#tell("abortRun"));
  }

  async #begin(strategy: Strategy["kind"], given: Given, options: RunOptions, callbacks: Callbacks): Promise<TrainingResult> {
    let last: TrainingEvent | undefined;
    // Asks at the start of the run, which is a person's doing as a rule.
    const persisted = options.checkpoint === undefined ? undefined : askToPersist();
    let isOver = false;
    const push = (event: TrainingEvent): void => {
      this.#events.push(event);
      this.#wakeAll();
    };
    const hear = (event: TrainingEvent): void => {
      last = event;
      push(event);
      if (event.kind !== "started" || !persisted) return;
      // With an evaluation its best model besides.
      const slots = (event.step > 0 ? 1 : 2) + (given.evaluationText || given.evaluationRecords ? 1 : 0);
      void tellStorage(event.parameters, slots, persisted, (storage) => isOver || last?.kind === "done" || push(storage));
    };
    const callBack = (point: CallbackPoint): void => {
      // A worker that broke down needs no answer.
      void callbacks.call(point).then((answer) => ask("calledBack", this.#id, answer)).catch(() => {});
    };
    const unlisten = listen(this.#id, { hear, callBack });
    // A hidden page may be closed without another word.
    const save = (): void => {
      if (document.visibilityState === "hidden") this.#tell("saveRun");
    };
    if (typeof document !== "undefined") document.addEventListener("visibilitychange", save);
    try {
      const handle = await ask("runBertPretrain", this.#id, strategy, given, options, callbacks.areThere);
      if (last?.kind !== "done") throw new Error("wgpu-bert has a bug: a run ended without its last event");
      const { best } = handle;
      return { model: new WorkerModel(handle), steps: last.step, stopped: last.stopped, ...(best && { best }) };
    } catch (error) {
      throw callbacks.failure ? callbacks.failure.error : error;
    } finally {
      isOver = true;
      if (typeof document !== "undefined") document.removeEventListener("visibilitychange", save);
      unlisten();
    }
  }

  #tell(method: "pauseRun" | "resumeRun" | "stopRun" | "abortRun" | "saveRun"): void {
    // A run that is over has nothing to pause, and one whose worker broke down rejects already.
    if (!this.#ended) ask(method, this.#id).catch(() => {});
  }

  #wakeAll(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}
