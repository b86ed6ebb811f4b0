// Text or records from a page, as the wasm module reads them.
import type { ReadingProgress } from "./data-types.js";
import { readerOf, textError, type DataFile } from "./files.js";
import { host, type ReadAt } from "./host.js";
import { openScratch } from "./scratch.js";

/** Whoever has something read. */
export interface Reader {
  tell(progress: ReadingProgress): void;
  /** Is it still wanted? */
  goesOn(): boolean;
}

/** Milliseconds between two reports. */
const PAUSE = 100;

/** The corpus that comes with the package, as a file that is fetched when it is used. */
async function bundledCorpus(): Promise<readonly DataFile[]> {
  // Bundlers look for exactly this expression.
  const address = new URL("./kjv-pentateuch.txt.gz", import.meta.url);
  try {
    const response = await fetch(address);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return [{ name: "bundled corpus", content: await response.blob() }];
  } catch (error) {
    throw textError(`the bundled corpus could not be fetched from ${address.href}: ${(error as Error).message}`);
  }
}

interface HostFile {
  readonly number: number;
  readonly name: string;
  readonly bytes: number;
}

interface Workspace {
  readonly number: number;
  readonly name: string;
  readonly available: number | undefined;
}

/** A text or records that the wasm module reads, and its room for what does not stay in memory. To be closed. */
export class Reading {
  readonly #kind: "text" | "records";
  readonly #files: readonly HostFile[];
  readonly #workspace: Workspace;
  readonly #reader: Reader;
  #stage = "";
  #toldAt = 0;

  private constructor(kind: "text" | "records", files: readonly HostFile[], workspace: Workspace, reader: Reader) {
    this.#kind = kind;
    this.#files = files;
    this.#workspace = workspace;
    this.#reader = reader;
  }

  /** Opens a text, by default the bundled corpus. `reader` is told now and then how far it is. */
  static async text(text: readonly DataFile[] | undefined, reader: Reader): Promise<Reading> {
    return Reading.#open("text", text ?? (await bundledCorpus()), reader);
  }

  /** Opens records, likewise. */
  static async records(files: readonly DataFile[], reader: Reader): Promise<Reading> {
    return Reading.#open("records", files, reader);
  }

  static async #open(kind: "text" | "records", opened: readonly DataFile[], reader: Reader): Promise<Reading> {
    const readers: { name: string; bytes: number; read: ReadAt }[] = [];
    for (const file of opened) readers.push({ name: file.name, bytes: file.content.size, read: await readerOf(file) });
    const scratch = await openScratch();
    const files = readers.map(({ name, bytes, read }) => ({ number: host.addFile(read), name, bytes }));
    return new Reading(kind, files, { number: host.addWorkspace(scratch), name: scratch.name, available: scratch.available }, reader);
  }

  /** The text is read; records are read as long as they are used. */
  textIsRead(): void {
    if (this.#kind === "text") this.#closeFiles();
  }

  #closeFiles(): void {
    for (const { number } of this.#files) host.removeFile(number);
  }

  /** The examples are used no more. */
  async close(): Promise<void> {
    this.#closeFiles();
    await host.removeWorkspace(this.#workspace.number);
  }

  // From here on: what the wasm module calls.

  holdsRecords(): boolean {
    return this.#kind === "records";
  }

  files(): readonly HostFile[] {
    return this.#files;
  }

  workspace(): Workspace {
    return this.#workspace;
  }

  progress(stage: ReadingProgress["stage"], done: number, total: number): boolean {
    const now = performance.now();
    if (stage !== this.#stage || now - this.#toldAt >= PAUSE) {
      [this.#stage, this.#toldAt] = [stage, now];
      this.#reader.tell({ stage, done, total });
    }
    return this.#reader.goesOn();
  }
}
