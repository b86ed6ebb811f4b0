// Looks at files before they are taken for text.

const GZIP = [0x1f, 0x8b];
/** As many bytes as tell a text from something else. */
const HEAD = 4096;

/** Why these files are no text; nothing when they may be. */
export async function objectTo(files: readonly File[]): Promise<string | undefined> {
  for (const file of files) {
    if (file.size === 0) return `${file.name} is empty.`;
    let head: Uint8Array;
    try {
      head = new Uint8Array(await file.slice(0, HEAD).arrayBuffer());
    } catch {
      return `${file.name} cannot be read. Folders must be given as the files in them.`;
    }
    const isGzip = GZIP.every((byte, i) => head[i] === byte);
    if (!isGzip && head.includes(0)) return `${file.name} is no plain text. Save it as text (UTF-8) first.`;
  }
  return undefined;
}
