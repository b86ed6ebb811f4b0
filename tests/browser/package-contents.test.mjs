// What is in the package, and whether those who resolve it agree.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { pack, withFolder } from "./packed.mjs";

const ROOT = new URL("../../", import.meta.url);
const MANIFEST = JSON.parse(readFileSync(new URL("package.json", ROOT), "utf8"));

/** What a program that an npm package brings has to say; rejects when it has complaints. */
async function check(program, ...args) {
  const path = fileURLToPath(new URL(`node_modules/${program}`, ROOT));
  try {
    return (await promisify(execFile)(process.execPath, [path, ...args])).stdout;
  } catch (error) {
    throw new Error(`${program}: ${error.stdout}${error.stderr}`);
  }
}

test("the package holds what its users need, and nothing else", () =>
  withFolder((folder) => {
    const { files } = pack(folder);
    const expected = /^(package\.json|README\.md|LICENSE-(APACHE|MIT)|dist\/(node\/)?([\w-]+\.(js|d\.ts|wasm)|kjv-pentateuch\.txt\.gz))$/;
    assert.deepEqual(files.filter((path) => !expected.test(path)), []);
    const targets = Object.values(MANIFEST.exports["."]).map((path) => path.slice("./".length));
    const needed = [...targets, "dist/worker.js", "dist/node/worker.js", "dist/wgpu_bert_bg.wasm", "dist/kjv-pentateuch.txt.gz"];
    for (const path of [...needed, "README.md", "LICENSE-MIT", "LICENSE-APACHE"]) assert.ok(files.includes(path), path);
    assert.equal(MANIFEST.private, undefined);
    assert.equal(MANIFEST.dependencies, undefined);
  }));

test("publint and arethetypeswrong find nothing", { timeout: 120_000 }, () =>
  withFolder(async (folder) => {
    const { tarball } = pack(folder);
    assert.match(await check("publint/src/cli.js", tarball, "--strict"), /All good/);
    await check("@arethetypeswrong/cli/dist/index.js", tarball, "--profile", "esm-only");
  }));
