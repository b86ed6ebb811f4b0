// Arguments as callers without TypeScript give them. What passes here the worker can read.
import { ask } from "./client.js";
import { OptionError } from "./option-error.js";
import type { Strategy } from "./types.js";

/** Options are an object: of anything else, a list say, none would be found, and all pass for not given. */
export function checkOptions<T extends object>(options: T): T {
  if (Object.prototype.toString.call(options) === "[object Object]") return options;
  throw new OptionError("options: must be an object with options", "options");
}

export function checkString<T extends string>(value: T, field: string): T {
  if (typeof value === "string") return value;
  throw new OptionError(`${field}: must be a string`, field);
}

/** How many are wanted: no more than the wasm module can count. */
export function checkCount(count: number, field: string): number {
  if (Number.isInteger(count) && count >= 1) return Math.min(count, 2 ** 31 - 1);
  throw new OptionError(`${field}: ${String(count)} must be a whole number of at least 1`, field);
}

/** `undefined` stands for the bundled corpus. */
export function checkText<T>(text: T): T {
  const parts: unknown = typeof text === "string" || text instanceof Blob ? [text] : text;
  if (parts === undefined) return text;
  if (!Array.isArray(parts)) throw new OptionError("text: must be a string, a Blob, or an array of them", "text");
  if (parts.length === 0) throw new OptionError("text: there is nothing in the array", "text");
  const wrong = parts.findIndex((part) => typeof part !== "string" && !(part instanceof Blob));
  if (wrong >= 0) throw new OptionError(`text[${wrong}]: must be a string or a Blob`, `text[${wrong}]`);
  return text;
}

/** Where a model is: its files, an archive of them, or `opfs:` and a name, which the worker checks. */
export function checkSource<T>(source: T): T {
  if (typeof source === "string" || source instanceof Blob) return source;
  if (Array.isArray(source) && source.length > 0 && source.every((file) => file instanceof File)) return source;
  throw new OptionError(`source: must be a Blob, an array of Files, or "opfs:" and a name`, "source");
}

/** What of a strategy the worker needs. Whether there is one is the first question, before options are looked at. */
export function kindOf(strategy: Strategy | null | undefined): Strategy["kind"] | undefined {
  const kind: unknown = strategy?.kind;
  return typeof kind === "string" ? (kind as Strategy["kind"]) : undefined;
}

/** The error that no strategy was given. */
export async function notGiven(): Promise<never> {
  await ask("getDistributionStrategy", "off");
  throw new Error("wgpu-bert has a bug: `off` is no error");
}
