// Reads files of tensors.
import { readFileSync } from "node:fs";

const TYPES = { F32: Float32Array, I32: Int32Array };

/** All tensors of a file by name, each with its `shape` and `data`. */
export function readSafetensors(path) {
  const bytes = readFileSync(path);
  const start = 8 + Number(bytes.readBigUInt64LE());
  const { __metadata__, ...tensors } = JSON.parse(bytes.subarray(8, start).toString());
  const read = ({ dtype, shape, data_offsets: [from, to] }) => {
    const { buffer } = new Uint8Array(bytes.subarray(start + from, start + to));
    return { shape, data: new TYPES[dtype](buffer) };
  };
  return Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, read(tensor)]));
}
