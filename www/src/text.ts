// Text from a page, as bytes.
import type { TextSource } from "./data-types.js";

export interface TextFile {
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The corpus that comes with the package, as a file that is fetched when it is used. */
async function bundledCorpus(): Promise<readonly TextFile[]> {
  // Bundlers look for exactly this expression.
  const address = new URL("./kjv-pentateuch.txt.gz", import.meta.url);
  try {
    const response = await fetch(address);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return [{ name: "bundled corpus", bytes: new Uint8Array(await response.arrayBuffer()) }];
  } catch (error) {
    const message = `the bundled corpus could not be fetched from ${address.href}: ${(error as Error).message}`;
    throw Object.assign(new Error(message), { name: "TextError" });
  }
}

/** Reads a text, by default the bundled corpus. */
export async function readText(source: TextSource | undefined): Promise<readonly TextFile[]> {
  return source === undefined ? bundledCorpus() : readFiles(source, "TextError");
}

/** Reads texts or files. A file may have been changed or removed since it was chosen: an error called `errorName`. */
export async function readFiles(source: TextSource, errorName: "TextError" | "ModelFileError"): Promise<readonly TextFile[]> {
  const parts = typeof source === "string" || source instanceof Blob ? [source] : source;
  return Promise.all(
    parts.map(async (part, index) => {
      const name = part instanceof File ? part.name : parts.length === 1 ? "text" : `text ${index + 1}`;
      if (typeof part === "string") return { name, bytes: new TextEncoder().encode(part) };
      try {
        return { name, bytes: new Uint8Array(await part.arrayBuffer()) };
      } catch (error) {
        const message = `${name}: the file could not be read: ${(error as Error).message} Choose it again`;
        throw Object.assign(new Error(message), { name: errorName });
      }
    }),
  );
}
