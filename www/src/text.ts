// Text from a page: files that are read by parts.
import type { ReadingProgress, TextSource } from "./data-types.js";
import { host, type ReadAt } from "./host.js";
import { openScratch } from "./scratch.js";

/** A file, or a text that is as good as one. */
export interface TextFile {
  readonly name: string;
  readonly content: Blob;
}

/** Whoever has a text read. */
export interface Reader {
  tell(progress: ReadingProgress): void;
  /** Is it still wanted? */
  goesOn(): boolean;
}

/** Milliseconds between two reports. */
const PAUSE = 100;
/** As much text is read at once where it cannot be read by parts. */
const LIMIT = 256 * 2 ** 20;

/** The corpus that comes with the package, as a file that is fetched when it is used. */
async function bundledCorpus(): Promise<readonly TextFile[]> {
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

/** The files of a text. */
export function filesOf(source: TextSource): readonly TextFile[] {
  const parts = typeof source === "string" || source instanceof Blob ? [source] : source;
  return parts.map((part, index) => ({
    name: part instanceof File ? part.name : parts.length === 1 ? "text" : `text ${index + 1}`,
    content: typeof part === "string" ? new Blob([part]) : part,
  }));
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

/** A text that the wasm module reads, and its room for what does not stay in memory. To be closed. */
export class Reading {
  readonly #files: readonly HostFile[];
  readonly #workspace: Workspace;
  readonly #reader: Reader;
  #stage = "";
  #toldAt = 0;

  private constructor(files: readonly HostFile[], workspace: Workspace, reader: Reader) {
    this.#files = files;
    this.#workspace = workspace;
    this.#reader = reader;
  }

  /** Opens a text, by default the bundled corpus. `reader` is told now and then how far it is. */
  static async open(text: readonly TextFile[] | undefined, reader: Reader): Promise<Reading> {
    const readers: { name: string; bytes: number; read: ReadAt }[] = [];
    for (const file of text ?? (await bundledCorpus())) readers.push({ name: file.name, bytes: file.content.size, read: await readerOf(file) });
    const scratch = await openScratch();
    const files = readers.map(({ name, bytes, read }) => ({ number: host.addFile(read), name, bytes }));
    return new Reading(files, { number: host.addWorkspace(scratch), name: scratch.name, available: scratch.available }, reader);
  }

  /** The text is read. */
  closeFiles(): void {
    for (const { number } of this.#files) host.removeFile(number);
  }

  /** The examples are used no more. */
  async close(): Promise<void> {
    this.closeFiles();
    await host.removeWorkspace(this.#workspace.number);
  }

  // From here on: what the wasm module calls.

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

/** How to read parts of a file at once, as only workers of browsers can; elsewhere all of it is read now. */
async function readerOf({ name, content }: TextFile): Promise<ReadAt> {
  if (typeof FileReaderSync !== "undefined") {
    const files = new FileReaderSync();
    return (at, into) => {
      const part = new Uint8Array(files.readAsArrayBuffer(content.slice(at, at + into.length)));
      if (part.length < into.length) throw new Error("it is shorter than it was when it was chosen.");
      into.set(part);
    };
  }
  if (content.size > LIMIT) throw textError(`${name}: the text has ${Math.ceil(content.size / 2 ** 20)} MiB, and no more than ${LIMIT / 2 ** 20} MiB can be read here, where it must be in memory`);
  const bytes = new Uint8Array(await content.arrayBuffer());
  return (at, into) => into.set(bytes.subarray(at, at + into.length));
}

/** A file's content, a part at a time. */
export async function* partsOf({ name, content }: TextFile, size: number): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
  for (let at = 0; at < content.size; at += size) {
    let part: ArrayBuffer;
    try {
      part = await content.slice(at, at + size).arrayBuffer();
    } catch (error) {
      // It may have been changed or removed since it was chosen.
      throw textError(`${name}: the file could not be read: ${(error as Error).message} Choose it again`);
    }
    yield new Uint8Array(part);
  }
}

const textError = (message: string): Error => Object.assign(new Error(message), { name: "TextError" });
