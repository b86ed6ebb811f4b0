// Intermediate data where there is no private file system: in memory, and not more than fits.
import assert from "node:assert/strict";
import test from "node:test";
import { openScratch } from "../../dist/scratch.js";

const MEBIBYTE = 2 ** 20;

test("what was appended is read back, across blocks too", async () => {
  const scratch = await openScratch();
  const [file, other] = [scratch.take(), scratch.take()];
  const bytes = Uint8Array.from({ length: 700_001 }, (_, i) => (i * 31) % 251);
  for (let i = 0; i < 4; i++) {
    file.append(bytes);
    other.append(bytes.subarray(0, 10));
  }
  for (const [at, length] of [[0, 10], [700_000, 2], [MEBIBYTE - 3, 7], [5, 2 * MEBIBYTE], [4 * bytes.length - 1, 1]]) {
    const into = new Uint8Array(length);
    file.read(at, into);
    assert.ok(into.every((byte, i) => byte === bytes[(at + i) % bytes.length]), `${length} from ${at}`);
  }
  assert.throws(() => file.read(3 * MEBIBYTE, new Uint8Array(1)), /too short/);
});

test("more than fits is refused with the reason", async () => {
  const scratch = await openScratch();
  const [file, other] = [scratch.take(), scratch.take()];
  const bytes = new Uint8Array(64 * MEBIBYTE);
  for (let i = 0; i < 4; i++) (i % 2 ? file : other).append(bytes);
  assert.throws(() => file.append(bytes.subarray(0, 1)), /more than 256 MiB of memory \(there is no private file system here: .*Node\)/);
  await scratch.close();
});
