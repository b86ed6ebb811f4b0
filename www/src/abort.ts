import { OptionError } from "./option-error.js";

/**
 * What `begin` resolves to. When the signal comes, it rejects at once with the signal's reason, and calls `abort`; with a
 * signal that came already nothing begins.
 */
export async function unlessAborted<T>(signal: unknown, begin: () => Promise<T>, abort: (begun: Promise<T>) => void): Promise<T> {
  if (signal === undefined) return begin();
  if (!(signal instanceof AbortSignal)) throw new OptionError("signal: must be an AbortSignal", "signal");
  signal.throwIfAborted();
  const begun = begin();
  let listener = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    listener = () => {
      abort(begun);
      reject(signal.reason as Error);
    };
    signal.addEventListener("abort", listener);
  });
  try {
    return await Promise.race([begun, aborted]);
  } finally {
    signal.removeEventListener("abort", listener);
  }
}
