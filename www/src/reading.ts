import { unlessAborted } from "./abort.js";
import { ask, listen, nextNumber } from "./client.js";
import { OptionError } from "./option-error.js";
import type { ReadingOptions } from "./data-types.js";

/**
 * What `read` resolves to, which has the worker read a text under a number. `onProgress` is told how far that is. When the
 * signal comes, reading ends, and what came of it all the same is handed to `dispose`.
 */
export async function reading<T>(
  signal: AbortSignal | undefined,
  onProgress: ReadingOptions["onProgress"],
  read: (number: number) => Promise<T>,
  dispose: (made: T) => void,
): Promise<T> {
  if (onProgress !== undefined && typeof onProgress !== "function") throw new OptionError("onProgress: must be a function", "onProgress");
  const number = nextNumber();
  const unlisten = listen(number, {
    hear(event) {
      if (event.kind !== "reading") return;
      const { kind, ...progress } = event;
      onProgress?.(progress);
    },
    callBack() {},
  });
  const abort = (begun: Promise<T>): void => {
    begun.then(dispose, () => {});
    ask("stopReading", number).catch(() => {});
  };
  try {
    return await unlessAborted(signal, () => read(number), abort);
  } finally {
    unlisten();
  }
}
