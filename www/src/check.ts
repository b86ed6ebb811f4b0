// Arguments as callers without TypeScript give them. What passes here the worker can read.
import { ask } from "./client.js";
import type { RecordSource, TextSource } from "./data-types.js";
import { OptionError } from "./option-error.js";
import type { EvaluationSource } from "./evaluation-types.js";
import type { Given } from "./protocol.js";
import type { Strategy } from "./strategy-types.js";
import type { PretrainOptions } from "./types.js";

/** Options are an object: of anything else, a list say, none would be found, and all pass for not given. */
export function checkOptions<T extends object>(options: T, field = "options"): T {
  if (Object.prototype.toString.call(options) === "[object Object]") return options;
  throw new OptionError(`${field}: must be an object with options`, field);
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
export function checkText<T>(text: T, field = "text"): T {
  const parts: unknown = typeof text === "string" || text instanceof Blob ? [text] : text;
  if (parts === undefined) return text;
  if (!Array.isArray(parts)) throw new OptionError(`${field}: must be a string, a Blob, or an array of them`, field);
  if (parts.length === 0) throw new OptionError(`${field}: there is nothing in the array`, field);
  const wrong = parts.findIndex((part) => typeof part !== "string" && !(part instanceof Blob));
  if (wrong >= 0) throw new OptionError(`${field}[${wrong}]: must be a string or a Blob`, `${field}[${wrong}]`);
  return text;
}

/** What a run learns from and is evaluated on, without what is not given. */
export function checkGiven({ text, records, evaluation }: Pick<PretrainOptions, "text" | "records" | "evaluation">): Given {
  if (text !== undefined && records !== undefined) throw new OptionError("records: give either a text or records", "records");
  return { text: checkText(text), records: checkRecords(records, "records"), ...(evaluation !== undefined && checkEvaluation(evaluation)) };
}

function checkEvaluation(evaluation: EvaluationSource): Given {
  const { text, records, ...unknown } = checkOptions(evaluation, "evaluation");
  for (const name of Object.keys(unknown)) throw new OptionError(`evaluation.${name}: unknown option, expected text or records`, `evaluation.${name}`);
  return checkHeldOut(text, records, "evaluation");
}

/** What a model is evaluated on: one of the two. `field` names the option whose fields they are, if they are. */
export function checkHeldOut(text: TextSource | undefined, records: RecordSource | undefined, field?: string): Given {
  if ((text === undefined) === (records === undefined)) throw new OptionError(`${field ?? "options"}: give either a text or records`, field ?? "options");
  const prefix = field === undefined ? "" : `${field}.`;
  return { evaluationText: checkText(text, `${prefix}text`), evaluationRecords: checkRecords(records, `${prefix}records`) };
}

function checkRecords(records: RecordSource | undefined, field: string): RecordSource | undefined {
  if (records === undefined || records instanceof Blob) return records;
  if (!Array.isArray(records)) throw new OptionError(`${field}: must be a Blob, or an array of them`, field);
  if (records.length === 0) throw new OptionError(`${field}: there is nothing in the array`, field);
  const wrong = records.findIndex((part) => !(part instanceof Blob));
  if (wrong >= 0) throw new OptionError(`${field}[${wrong}]: must be a Blob`, `${field}[${wrong}]`);
  return records;
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
