// The package computes what it should, through its wasm, in real browsers: the case that comes with it, and golden
// cases, with all families of kernels.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import test from "node:test";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { withPage } from "./page.mjs";

const GOLDEN = new URL("../data/golden/", import.meta.url);
/** The case that comes with the package, and golden ones. */
const CASES = [undefined, "tiny", "odd", "steps"];
/** For families that differ from the first in few kernels. Of the steps it has the runs from one start, one by each optimizer. */
const FEWER_CASES = [undefined, "odd", "steps"];
const OTHER_RUNS = /^(start_wild|adamw|lamb|lamb_clip)\./;

// Golden numbers are made in fp32 without dropout, of batches in one piece, and no browser is asked for subgroups.
const SHADERS = readdirSync(new URL("../../shaders", import.meta.url))
  .map((file) => file.replace(".wgsl", ""))
  .filter((name) => !["accumulate", "cast", "dropout", "loss_scale", "matmul_subgroup"].includes(name))
  .sort();

/** Shaders of one family of kernels only. */
const ONLY_OF = { matmul_tile: "tile", matmul_texture: "texture" };

/** Has the worker tell of every shader that was compiled, and what the browser's compiler says about it. */
const workerPrelude = `
  const create = GPUDevice.prototype.createShaderModule;
  GPUDevice.prototype.createShaderModule = function (descriptor) {
    const module = create.call(this, descriptor);
    module.getCompilationInfo().then(({ messages }) => {
      console.log("shader " + descriptor.label);
      for (const { lineNum, message } of messages) console.warn(descriptor.label + ", line " + lineNum + ": " + message);
    });
    return module;
  };`;

/** In the page: runs the self-test on the golden files at these paths. */
async function runSelfTest({ kernels, paths }) {
  const { getDistributionStrategy, selfTest } = await import("/dist/index.js");
  const strategy = await getDistributionStrategy();
  if (!paths) return selfTest(strategy, { kernels });
  const read = async (path) => [path.split("/").at(-1), new Uint8Array(await (await fetch(path)).arrayBuffer())];
  return selfTest(strategy, { kernels, files: Object.fromEntries(await Promise.all(paths.map(read))) });
}

/** The paths of a case's files on the server. */
function golden(name, fewer) {
  const files = readdirSync(new URL(name, GOLDEN)).filter((file) => !(fewer && OTHER_RUNS.test(file)));
  return files.map((file) => `/golden/${name}/${file}`);
}

for (const [browser, families, launch] of [
  ["Chromium", ["register", "tile", "texture", "workgroup"], () => launchChromium({ webgpu: true })],
  ["Firefox", ["register", "texture", "workgroup"], () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  for (const [place, kernels] of families.entries()) {
    const fewer = place > 0;
    test(`${browser}, ${kernels} kernels`, { timeout: 600_000 }, (t) =>
      withPage({ launch, workerPrelude }, async (page, messages) => {
        for (const name of fewer ? FEWER_CASES : CASES) {
          const begin = Date.now();
          const report = await page.evaluate(runSelfTest, { kernels, paths: name && golden(name, fewer) });
          const seconds = ((Date.now() - begin) / 1000).toFixed(1);
          t.diagnostic(`${name ?? "bundled"}: ${report.comparisons} comparisons on ${report.adapter} in ${seconds} s`);
          for (const { quantity, name: tensor, case: at, error, tolerance } of report.worst) {
            t.diagnostic(`  ${quantity} ${error.toExponential(1)} of ${tolerance} (${tensor}, ${at})`);
          }
          assert.equal(report.kernels, kernels);
          assert.ok(report.comparisons >= 100);
          assert.ok(report.ok);
        }
        const isShader = (message) => message.startsWith("log: shader ");
        assert.deepEqual(messages.filter((message) => !isShader(message)), []);
        const compiled = new Set(messages.map((message) => message.slice("log: shader ".length)));
        assert.deepEqual([...compiled].sort(), SHADERS.filter((name) => !ONLY_OF[name] || ONLY_OF[name] === kernels));
      }));
  }
}
