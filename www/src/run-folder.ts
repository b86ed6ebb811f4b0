// Saved runs in the browser's private file system (OPFS), a folder each:
//
//     wgpu-bert/<name>/run.json            what the run is: its options, vocabulary, and text's checksums
//                      text                the text's files, one behind the other
//                      0.state, 0.json     a snapshot, and its step and checksum
//                      1.state, 1.json     another one
//
// Snapshots are written to the two slots in turn. A slot counts when its checksum fits, so a tab that is closed while it
// writes leaves the other one.
import { OptionError } from "./option-error.js";
import { partsOf, type TextFile } from "./text.js";
import type { SavedRun } from "./types.js";

const ROOT = "wgpu-bert";
const VERSION = 1;
/** Milliseconds to wait for a run that is in use. */
const PATIENCE = 1000;

/** What a saved run is, whatever its step. */
export interface RunRecord {
  readonly version: number;
  readonly options: Readonly<Record<string, unknown>>;
  readonly vocabulary: string;
  /** The text's files; `null` for the bundled corpus. */
  readonly text: readonly { readonly name: string; readonly length: number; readonly sha256: string }[] | null;
}

export interface Snapshot {
  readonly step: number;
  /** Time spent training. */
  readonly elapsedSeconds: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Where it is given: the only option that may change when a run goes on. */
  readonly learningRate?: number;
}

/** What is known of a snapshot besides itself. */
interface Slot {
  readonly step: number;
  readonly elapsedSeconds: number;
  readonly learningRate?: number;
  readonly totalSteps: number;
  readonly lastLoss?: number;
  readonly savedAt: number;
  readonly length: number;
  readonly sha256: string;
}

const SLOTS = [0, 1] as const;
/** Texts are read and written in parts of this size. */
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

/** SHA-256 of a text; of a long one, whose parts browsers cannot take one after another, that of the parts' sums. */
export async function sumOf(file: TextFile): Promise<string> {
  const sums: string[] = [];
  for await (const part of partsOf(file, PART)) sums.push(await sha256(part));
  const [first = await sha256(new Uint8Array()), ...others] = sums;
  return others.length === 0 ? first : sha256(new TextEncoder().encode(sums.join()));
}

export class RunFolder {
  readonly name: string;
  readonly #folder: FileSystemDirectoryHandle;
  /** The slot to write next. */
  #next: 0 | 1 = 0;

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
  async begin(options: RunRecord["options"], vocabulary: string, text: readonly TextFile[] | undefined): Promise<void> {
    const described = text && (await Promise.all(text.map(async (file) => ({ name: file.name, length: file.content.size, sha256: await sumOf(file) }))));
    await this.#write("text", text ?? []);
    const record: RunRecord = { version: VERSION, options, vocabulary, text: described ?? null };
    await this.#write("run.json", [encode(record)]);
  }

  async text({ text }: RunRecord): Promise<readonly TextFile[] | undefined> {
    if (!text) return undefined;
    const all = await this.#file("text");
    let at = 0;
    return Promise.all(
      text.map(async ({ name, length, sha256: expected }) => {
        const file = { name, content: (all ?? new Blob()).slice(at, (at += length)) };
        if ((await sumOf(file)) !== expected) throw damaged(this.name, "its text");
        return file;
      }),
    );
  }

  /** The newest snapshot that is whole. */
  async newest(): Promise<Snapshot | undefined> {
    const slots = await this.#slots();
    for (const [index, { step, elapsedSeconds, learningRate, length, sha256: expected }] of slots) {
      const bytes = await this.#read(`${index}.state`);
      if (bytes?.length === length && (await sha256(bytes)) === expected) {
        this.#next = index === 0 ? 1 : 0;
        return { step, elapsedSeconds, bytes, ...(learningRate !== undefined && { learningRate }) };
      }
    }
    return undefined;
  }

  async write({ step, elapsedSeconds, bytes, learningRate }: Snapshot, more: { readonly totalSteps: number; readonly lastLoss: number | undefined }): Promise<void> {
    const index = this.#next;
    await this.#write(`${index}.state`, [bytes]);
    const { totalSteps, lastLoss } = more;
    const slot: Slot = {
      step,
      elapsedSeconds,
      ...(learningRate !== undefined && { learningRate }),
      totalSteps,
      ...(lastLoss !== undefined && { lastLoss }),
      savedAt: Date.now(),
      length: bytes.length,
      sha256: await sha256(bytes),
    };
    await this.#write(`${index}.json`, [encode(slot)]);
    this.#next = index === 0 ? 1 : 0;
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
    const [newest] = await this.#slots();
    if (!newest || !(await this.record())) return undefined;
    const { step, totalSteps, lastLoss, savedAt } = newest[1];
    let bytes = 0;
    for await (const entry of this.#folder.values()) {
      if (entry.kind === "file") bytes += (await (entry as FileSystemFileHandle).getFile()).size;
    }
    return { name: this.name, step, totalSteps, bytes, ...(lastLoss !== undefined && { lastLoss }), savedAt: new Date(savedAt) };
  }

  /** What is known of the snapshots, the newest first. */
  async #slots(): Promise<[0 | 1, Slot][]> {
    const slots: [0 | 1, Slot][] = [];
    for (const index of SLOTS) {
      const slot = (await this.#json(`${index}.json`)) as Slot | undefined;
      if (slot) slots.push([index, slot]);
    }
    return slots.sort(([, a], [, b]) => b.step - a.step);
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

  async #write(name: string, parts: readonly (Uint8Array<ArrayBuffer> | TextFile)[]): Promise<void> {
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
