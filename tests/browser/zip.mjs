// Reads an archive whose files are not compressed.

/** The files of an archive, by name. */
export function readStoredZip(archive) {
  const end = archive.lastIndexOf(Buffer.from("PK\x05\x06"));
  const count = archive.readUInt16LE(end + 10);
  const files = new Map();
  let at = archive.readUInt32LE(end + 16);
  for (let i = 0; i < count; i++) {
    const [method, size] = [archive.readUInt16LE(at + 10), archive.readUInt32LE(at + 24)];
    if (method !== 0) throw new Error(`entry ${i} is compressed`);
    const [name, extra, comment] = [28, 30, 32].map((field) => archive.readUInt16LE(at + field));
    const local = archive.readUInt32LE(at + 42);
    const data = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
    files.set(archive.toString("utf8", at + 46, at + 46 + name), archive.subarray(data, data + size));
    at += 46 + name + extra + comment;
  }
  return files;
}
