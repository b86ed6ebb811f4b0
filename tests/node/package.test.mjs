// The same package in Node, where WebGPU comes from the npm package `webgpu`: on SwiftShader, as in Chromium.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { findDrivers } from "../../scripts/drivers.mjs";
import { wgpuBert } from "../browser/native.mjs";
import { OPTIONS, nativeProgress } from "../browser/small-run.mjs";
import { readStoredZip } from "../browser/zip.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const GOLDEN = join(ROOT, "tests/data/golden");
const TIMEOUT = 300_000;

const [driver] = findDrivers().swiftshader;
if (!driver && process.platform === "linux") throw new Error("SwiftShader is missing; `node scripts/setup.mjs --test` installs it");
const only = (file) => ({ VK_DRIVER_FILES: file, VK_ICD_FILENAMES: file });
if (driver) Object.assign(process.env, only(driver));

const { OptionError, StrategyError, getDistributionStrategy, loadModel, runBertPretrain, savedRuns, selfTest, surveyAdapters, trainVocabulary } =
  await import("wgpu-bert");

/** Calls `use(folder)` with a folder that is gone afterwards. */
async function withFolder(use) {
  const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-node-"));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** How `getDistributionStrategy` rejects in a Node of its own. */
async function rejection(module, env = {}) {
  const code = `
    import { StrategyError, getDistributionStrategy } from ${JSON.stringify(module)};
    const error = await getDistributionStrategy().catch((error) => error);
    const { name, code, reason, advice, message } = error;
    console.log(JSON.stringify({ name, code, reason, advice, message, isStrategyError: error instanceof StrategyError }));`;
  const options = { cwd: ROOT, env: { ...process.env, ...env }, timeout: TIMEOUT };
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", code], options);
  return JSON.parse(stdout);
}

function assertStrategyError(rejected, reason, advice) {
  assert.equal(rejected.isStrategyError, true, JSON.stringify(rejected));
  assert.deepEqual([rejected.code, rejected.reason], ["DISTRIBUTION_STRATEGY_NOT_SPECIFIED", reason]);
  assert.match(rejected.message, /^Distribution strategy is not specified\. /);
  assert.match(rejected.advice, advice);
}

test("there is a strategy, on the software adapter", { timeout: TIMEOUT }, async (t) => {
  const { adapters, absences } = await surveyAdapters();
  assert.deepEqual([adapters[0].shortcoming, absences], [null, []]);
  const strategy = await getDistributionStrategy();
  assert.equal(strategy.kind, "one_device");
  assert.deepEqual(strategy.adapter, adapters[0]);
  t.diagnostic(strategy.adapter.name);
});

test("without an adapter there is the strategy error", { timeout: TIMEOUT }, async () => {
  assertStrategyError(await rejection("wgpu-bert", only(join(tmpdir(), "no-such-driver.json"))), "no_adapter", /driver/);
});

test("without the package webgpu there is the strategy error", { timeout: TIMEOUT }, () =>
  withFolder(async (folder) => {
    for (const path of ["package.json", "dist"]) cpSync(join(ROOT, path), join(folder, path), { recursive: true });
    const module = pathToFileURL(join(folder, "dist/node/index.js")).href;
    assertStrategyError(await rejection(module), "no_webgpu_api", /npm install webgpu/);
  }));

test("the golden cases", { timeout: TIMEOUT }, async (t) => {
  const strategy = await getDistributionStrategy();
  for (const name of [undefined, "tiny", "odd"]) {
    const read = (file) => [file, new Uint8Array(readFileSync(join(GOLDEN, name, file)))];
    const files = name && Object.fromEntries(readdirSync(join(GOLDEN, name)).map(read));
    const { ok, comparisons, worst, adapter } = await selfTest(strategy, files && { files });
    t.diagnostic(`${name ?? "bundled"}: ${comparisons} comparisons on ${adapter}`);
    assert.ok(comparisons >= 100);
    assert.ok(ok, JSON.stringify(worst));
  }
});

test("a run has the losses of the command line, and leaves a model", { timeout: TIMEOUT }, (t) =>
  withFolder(async (folder) => {
    const run = runBertPretrain(await getDistributionStrategy(), OPTIONS);
    const events = [];
    for await (const event of run) events.push(event);
    const { model } = await run.finished;
    const expected = await nativeProgress(model.config.vocabSize, folder);
    const losses = events.filter(({ kind }) => kind === "progress").map(({ loss }) => loss);
    assert.equal(losses.length, expected.length);
    const worst = Math.max(...losses.map((loss, i) => Math.abs(loss - expected[i].loss)));
    t.diagnostic(`losses differ by ${worst.toExponential(1)} at most, from ${losses[0]} to ${losses.at(-1)}`);
    assert.ok(worst < 5e-4 && losses.at(-1) < losses[0]);

    const text = "the [MASK] sat on the [MASK].";
    const guesses = await model.fillMask(text, { topK: 3 });
    assert.deepEqual(guesses.masks.map((mask) => mask.length), [3, 3]);
    const zip = await model.exportHuggingFace();
    assert.ok(readStoredZip(Buffer.from(await zip.arrayBuffer())).has("model.safetensors"));
    const again = await loadModel(zip);
    assert.deepEqual(await again.fillMask(text, { topK: 3 }), guesses);
  }));

test("the bundled corpus is read", { timeout: TIMEOUT }, async () => {
  assert.equal((await trainVocabulary(undefined, { vocabSize: 300 })).split("\n").length, 301);
});

test("what Node lacks, and what is wrong, is said", { timeout: TIMEOUT }, async () => {
  const strategy = await getDistributionStrategy();
  await assert.rejects(savedRuns(), { name: "SavedRunError", message: /navigator\.storage/ });
  await assert.rejects(runBertPretrain(strategy, { ...OPTIONS, checkpoint: "opfs:run" }).finished, { name: "SavedRunError" });
  await assert.rejects(runBertPretrain(strategy, { steps: 0 }).finished, OptionError);
  await assert.rejects(runBertPretrain(strategy, { steps: () => 3 }).finished, { name: "OptionError", field: "steps" });
  await assert.rejects(selfTest(strategy, []), { name: "OptionError", field: "options" });
  await assert.rejects(runBertPretrain(null).finished, StrategyError);
});
