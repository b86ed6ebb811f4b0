// Saved runs in the browser's private file system (OPFS), a folder each:
//
//     wgpu-bert/<name>/run.json            what the run is: its options, vocabulary, and checksums of what it learns from
//                      text                the text's files, one behind the other; likewise `records`,
//                                          `evaluationText` and `evaluationRecords`
//                      0.state, 0.json     a snapshot, and its step and checksum
//                      1.state, 1.json     another one
//                      best-0.state …      likewise, those whose model had the lowest loss in an evaluation
//
// Snapshots are written to two slots in turn. A slot counts when its checksum fits, so a tab that is closed while it
// writes leaves the other one.
import type { BestEvaluation } from "./evaluation-types.js";
import { OptionError } from "./option-error.js";
import { partsOf, type DataFile } from "./files.js";
import { SOURCES, type SourceName, type Sources } from "./sources.js";
import type { SavedRun } from "./types.js";

const ROOT = "wgpu-bert";
const VERSION = 1;
/** Milliseconds to wait for a run that is in use. */
const PATIENCE = 1000;

interface Described {
  readonly name: string;
  readonly length: number;
  readonly sha256: string;
}

/** What a saved run is, whatever its step; for each of its sources the files. */
export interface RunRecord extends Readonly<Partial<Record<SourceName, readonly Described[] | null>>> {
  readonly version: number;
  readonly options: Readonly<Record<string, unknown>>;
  readonly vocabulary: string;
}

export interface Snapshot {
  readonly step: number;
  /** Time spent training. */
  readonly elapsedSeconds: number;
  /** Was the evaluation made that is due after this step? */
  readonly evaluated?: boolean;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Where it is given: the only option that may change when a run goes on. */
  readonly learningRate?: number;
}

/** What is known of a snapshot besides itself. */
interface Slot {
  readonly step: number;
  readonly elapsedSeconds: number;
  readonly evaluated?: boolean;
  readonly learningRate?: number;
  readonly totalSteps: number;
  /** Of its evaluation, where it is one of the best. */
  readonly loss?: number;
  readonly lastLoss?: number;
  readonly savedAt: number;
  readonly length: number;
  readonly sha256: string;
}

const SLOTS = [0, 1] as const;
type Index = (typeof SLOTS)[number];
/** What stands before a slot's number. */
const [NEWEST, BEST] = ["", "best-"] as const;
type Series = typeof NEWEST | typeof BEST;
/** Files are read and written in parts of this size. */
const PART = 16 * 2 ** 20;

/** A name that every file system takes. */
export function checkName(name: unknown, field: string): string {
  const isSafe = typeof name === "string" && /^[\p{L}\p{N}_](?:[\p{L}\p{M}\p{N} ._-]{0,62}[\p{L}\p{M}\p{N}_-])?$/u.test(name);
  if (isSafe) return name;
  const expected = "1 to 64 letters, digits, spaces or any of . _ -, neither starting nor ending with a dot or a space";
  throw new OptionError(`${field}: a name has ${expected}`, field);
}

/** The name in `opfs:name`. */
export function nameOf(location: unknown, field: string): string {
  if (typeof location === "string" && location.startsWith("opfs:")) return checkName(location.slice("opfs:".length), field);
  throw new OptionError(`${field}: must be "opfs:" and a name`, field);
}

export async function sha256(bytes: BufferSource): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** SHA-256 of a file; of a long one, whose parts browsers cannot take one after another, that of the parts' sums. */
export async function sumOf(file: DataFile): Promise<string> {
  const sums: string[] = [];
  for await (const part of partsOf(file, PART)) sums.push(await sha256(part));
  const [first = await sha256(new Uint8Array()), ...others] = sums;
  return others.length === 0 ? first : sha256(new TextEncoder().encode(sums.join()));
}

export class RunFolder {
  readonly name: string;
  readonly #folder: FileSystemDirectoryHandle;
  /** The slots to write next. */
  readonly #next: Record<Series, Index> = { [NEWEST]: 0, [BEST]: 0 };

  private constructor(name: string, folder: FileSystemDirectoryHandle) {
    this.name = name;
    this.#folder = folder;
  }

  /** Runs `use` while nobody else, in this tab or another, can change the run of that name. */
  static async locked<T>(name: string, use: () => Promise<T>): Promise<T> {
    if (!navigator.locks) throw noStorage();
    const inUse = Object.assign(new Error(`the run "${name}" is in use, here or in another tab`), { name: "SavedRunError" });
    // The worker of a page that was reloaded may take a moment to go.
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(inUse), PATIENCE);
    return navigator.locks.request(`${ROOT}/${name}`, { signal: patience.signal }, () => {
      clearTimeout(timer);
      return use();
    });
  }

  static async open(name: string): Promise<RunFolder | undefined> {
    try {
      return new RunFolder(name, await (await root()).getDirectoryHandle(name));
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  static async create(name: string): Promise<RunFolder> {
    return new RunFolder(name, await (await root()).getDirectoryHandle(name, { create: true }));
  }

  static async remove(name: string): Promise<void> {
    try {
      await (await root()).removeEntry(name, { recursive: true });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  static async list(): Promise<SavedRun[]> {
    const runs: SavedRun[] = [];
    for await (const [name, entry] of (await root()).entries()) {
      const saved = entry.kind === "directory" && (await new RunFolder(name, entry as FileSystemDirectoryHandle).#describe());
      if (saved) runs.push(saved);
    }
    return runs.sort((a, b) => b.savedAt.getTime() - a.savedAt.getTime());
  }

  async record(): Promise<RunRecord | undefined> {
    const record = (await this.#json("run.json")) as RunRecord | undefined;
    return record?.version === VERSION ? record : undefined;
  }

  /** Writes what the run is. The record comes last: without it the folder is no run. */
  async begin(options: RunRecord["options"], vocabulary: string, sources: Sources): Promise<void> {
    const described: { [S in SourceName]?: readonly Described[] } = {};
    for (const name of SOURCES) {
      const files = sources[name];
      if (!files) continue;
      described[name] = await Promise.all(files.map(async (file) => ({ name: file.name, length: file.content.size, sha256: await sumOf(file) })));
      await this.#write(name, files);
    }
    const record: RunRecord = { version: VERSION, options, vocabulary, ...described };
    await this.#write("run.json", [encode(record)]);
  }

  /** The files that the run learns from and is evaluated on. */
  async sources(record: RunRecord): Promise<Sources> {
    const sources: { [S in SourceName]?: readonly DataFile[] } = {};
    for (const name of SOURCES) {
      const described = record[name];
      if (!described) continue;
      const all = (await this.#file(name)) ?? new Blob();
      let at = 0;
      const whole = async ({ name: fileName, length, sha256: expected }: Described): Promise<DataFile> => {
        const file = { name: fileName, content: all.slice(at, (at += length)) };
        if ((await sumOf(file)) !== expected) throw damaged(this.name, name === "text" ? "its text" : `its ${name}`);
        return file;
      };
      sources[name] = await Promise.all(described.map(whole));
    }
    return sources;
  }

  /** The newest snapshot that is whole; a run that was broken off before the first has perhaps that of an evaluation. */
  async newest(): Promise<Snapshot | undefined> {
    return (await this.#whole(NEWEST)) ?? this.#whole(BEST);
  }

  /** The one whose model had the lowest loss in an evaluation. */
  best(): Promise<Snapshot | undefined> {
    return this.#whole(BEST);
  }

  /** What is known of it. */
  async bestEvaluation(): Promise<BestEvaluation | undefined> {
    const [best] = await this.#slots(BEST);
    return best && { step: best[1].step, loss: best[1].loss ?? Infinity };
  }

  /** The first snapshot of its slots that is whole. */
  async #whole(series: Series): Promise<Snapshot | undefined> {
    for (const [index, { step, elapsedSeconds, evaluated, learningRate, length, sha256: expected }] of await this.#slots(series)) {
      const bytes = await this.#read(`${series}${index}.state`);
      if (bytes?.length === length && (await sha256(bytes)) === expected) {
        this.#next[series] = index === 0 ? 1 : 0;
        return { step, elapsedSeconds, bytes, ...(evaluated !== undefined && { evaluated }), ...(learningRate !== undefined && { learningRate }) };
      }
    }
    return undefined;
  }

  /** With a `loss`, that of its evaluation, as one of the best. */
  async write(
    { step, elapsedSeconds, evaluated, bytes, learningRate }: Snapshot,
    more: { readonly totalSteps: number; readonly lastLoss: number | undefined },
    loss?: number,
  ): Promise<void> {
    const series = loss === undefined ? NEWEST : BEST;
    const index = this.#next[series];
    await this.#write(`${series}${index}.state`, [bytes]);
    const { totalSteps, lastLoss } = more;
    const slot: Slot = {
      step,
      elapsedSeconds,
      ...(evaluated !== undefined && { evaluated }),
      ...(loss !== undefined && { loss }),
      ...(learningRate !== undefined && { learningRate }),
      totalSteps,
      ...(lastLoss !== undefined && { lastLoss }),
      savedAt: Date.now(),
      length: bytes.length,
      sha256: await sha256(bytes),
    };
    await this.#write(`${series}${index}.json`, [encode(slot)]);
    this.#next[series] = index === 0 ? 1 : 0;
  }

  /** Copies the run: not all browsers can move a folder. */
  async copyTo(name: string): Promise<void> {
    const target = await RunFolder.create(name);
    const names: string[] = [];
    for await (const file of this.#folder.keys()) names.push(file);
    // The record last, so that a copy broken off is no run.
    for (const file of names.sort((a, b) => Number(a === "run.json") - Number(b === "run.json"))) {
      const content = await this.#file(file);
      if (content) await target.#write(file, [{ name: file, content }]);
    }
  }

  async #describe(): Promise<SavedRun | undefined> {
    const [newest] = [...(await this.#slots(NEWEST)), ...(await this.#slots(BEST))];
    if (!newest || !(await this.record())) return undefined;
    const { step, totalSteps, lastLoss, savedAt } = newest[1];
    let bytes = 0;
    for await (const entry of this.#folder.values()) {
      if (entry.kind === "file") bytes += (await (entry as FileSystemFileHandle).getFile()).size;
    }
    const best = await this.bestEvaluation();
    return { name: this.name, step, totalSteps, bytes, ...(lastLoss !== undefined && { lastLoss }), ...(best && { best }), savedAt: new Date(savedAt) };
  }

  /** What is known of the snapshots, the newest or the best first. */
  async #slots(series: Series): Promise<[Index, Slot][]> {
    const slots: [Index, Slot][] = [];
    for (const index of SLOTS) {
      const slot = (await this.#json(`${series}${index}.json`)) as Slot | undefined;
      if (slot) slots.push([index, slot]);
    }
    return slots.sort(([, a], [, b]) => (series === BEST ? (a.loss ?? Infinity) - (b.loss ?? Infinity) : b.step - a.step));
  }

  /** A file's value; `undefined` when it is not there, or not whole. */
  async #json(name: string): Promise<unknown> {
    const bytes = await this.#read(name);
    try {
      return bytes && JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      return undefined;
    }
  }

  async #read(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const file = await this.#file(name);
    return file && new Uint8Array(await file.arrayBuffer());
  }

  async #file(name: string): Promise<File | undefined> {
    try {
      return await (await this.#folder.getFileHandle(name)).getFile();
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async #write(name: string, parts: readonly (Uint8Array<ArrayBuffer> | DataFile)[]): Promise<void> {
    const file = await (await this.#folder.getFileHandle(name, { create: true })).createSyncAccessHandle();
    try {
      file.truncate(0);
      let at = 0;
      for (const whole of parts) {
        for await (const part of whole instanceof Uint8Array ? [whole] : partsOf(whole, PART)) {
          const written = file.write(part, { at });
          if (written < part.length) throw new DOMException("the file could not be written to its end", "QuotaExceededError");
          at += written;
        }
      }
      file.flush();
    } finally {
      file.close();
    }
  }
}

async function root(): Promise<FileSystemDirectoryHandle> {
  if (!navigator.storage?.getDirectory) throw noStorage();
  return (await navigator.storage.getDirectory()).getDirectoryHandle(ROOT, { create: true });
}

const encode = (value: unknown): Uint8Array<ArrayBuffer> => new TextEncoder().encode(JSON.stringify(value));

const isNotFound = (error: unknown): boolean => error instanceof DOMException && error.name === "NotFoundError";

const noStorage = (): Error =>
  Object.assign(new Error("runs can be saved only where there is navigator.storage, in browsers on trusted pages"), { name: "SavedRunError" });

export function damaged(name: string, what: string): Error {
  return Object.assign(new Error(`the saved run "${name}" is damaged: ${what} is not what was saved`), { name: "SavedRunError" });
}
