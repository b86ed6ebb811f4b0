// A caller's callbacks during a run: called one after another, each awaited.
import { OptionError } from "./option-error.js";
import type { CallbackAnswers, CallbackPoint } from "./protocol.js";
import type { Callback, CallbackAnswer } from "./types.js";

export class Callbacks {
  readonly #callbacks: readonly Callback[];
  /** What one of them threw. */
  failure: { readonly error: unknown } | undefined;

  constructor(callbacks: unknown = []) {
    const areObjects = Array.isArray(callbacks) && callbacks.every((one) => typeof one === "object" && one !== null);
    if (!areObjects) throw new OptionError("customCallbacks: must be an array of objects", "customCallbacks");
    this.#callbacks = callbacks as readonly Callback[];
  }

  get areThere(): boolean {
    return this.#callbacks.length > 0;
  }

  /** Calls them all, whatever each answers; when one fails, no other. */
  async call(point: CallbackPoint): Promise<CallbackAnswers> {
    let stopTraining = false;
    try {
      for (const callback of this.#callbacks) {
        const answer = await callOne(callback, point);
        stopTraining ||= typeof answer === "object" && answer.stopTraining === true;
      }
      return { stopTraining };
    } catch (error) {
      this.failure = { error };
      return { stopTraining: true, failure: String(error) };
    }
  }
}

function callOne(callback: Callback, point: CallbackPoint): CallbackAnswer | undefined {
  switch (point.method) {
    case "onTrainBegin":
    case "onTrainEnd":
      return callback[point.method]?.();
    case "onEpochBegin":
      return callback.onEpochBegin?.(point.epoch);
    case "onBatchBegin":
      return callback.onBatchBegin?.(point.step);
    case "onBatchEnd":
      return callback.onBatchEnd?.(point.step, point.logs);
    case "onEpochEnd":
      return callback.onEpochEnd?.(point.epoch, point.logs);
  }
}
