// The files of a model, as bytes.

export interface ModelFile {
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Reads files. One may have been changed or removed since it was chosen. */
export async function readModelFiles(source: Blob | readonly File[]): Promise<readonly ModelFile[]> {
  const files = source instanceof Blob ? [source] : source;
  return Promise.all(
    files.map(async (file) => {
      const name = file instanceof File ? file.name : "model";
      try {
        return { name, bytes: new Uint8Array(await file.arrayBuffer()) };
      } catch (error) {
        const message = `${name}: the file could not be read: ${(error as Error).message} Choose it again`;
        throw Object.assign(new Error(message), { name: "ModelFileError" });
      }
    }),
  );
}
