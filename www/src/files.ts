// Files from a page, which are read by parts.
import type { RecordSource, TextSource } from "./data-types.js";
import type { ReadAt } from "./host.js";

/** A file, or a text that is as good as one. */
export interface DataFile {
  readonly name: string;
  readonly content: Blob;
}

/** As much is read at once where it cannot be read by parts. */
const LIMIT = 256 * 2 ** 20;

/** The files of a text, or of records; `what` names those without a name. */
export function filesOf(source: TextSource | RecordSource, what: "text" | "records"): readonly DataFile[] {
  const parts = typeof source === "string" || source instanceof Blob ? [source] : source;
  return parts.map((part, index) => ({
    name: part instanceof File ? part.name : parts.length === 1 ? what : `${what} ${index + 1}`,
    content: typeof part === "string" ? new Blob([part]) : part,
  }));
}

/** How to read parts of a file at once, as only workers of browsers can; elsewhere all of it is read now. */
export async function readerOf({ name, content }: DataFile): Promise<ReadAt> {
  if (typeof FileReaderSync !== "undefined") {
    const files = new FileReaderSync();
    return (at, into) => {
      const part = new Uint8Array(files.readAsArrayBuffer(content.slice(at, at + into.length)));
      if (part.length < into.length) throw new Error("it is shorter than it was when it was chosen.");
      into.set(part);
    };
  }
  if (content.size > LIMIT) throw textError(`${name}: the file has ${Math.ceil(content.size / 2 ** 20)} MiB, and no more than ${LIMIT / 2 ** 20} MiB can be read here, where it must be in memory`);
  const bytes = new Uint8Array(await content.arrayBuffer());
  return (at, into) => into.set(bytes.subarray(at, at + into.length));
}

/** A file's content, a part at a time. */
export async function* partsOf({ name, content }: DataFile, size: number): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
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

export const textError = (message: string): Error => Object.assign(new Error(message), { name: "TextError" });
