// Which kernels a GPU gets: those that a browser's first run measured to be the fastest. The GPU is SwiftShader, which
// claims to be one.
import assert from "node:assert/strict";
import test from "node:test";
import { launchChromium } from "./browsers.mjs";
import { withPage } from "./page.mjs";
import { OPTIONS } from "./small-run.mjs";

/** In the worker. */
const GPU = `
  const requestAdapter = GPU.prototype.requestAdapter;
  GPU.prototype.requestAdapter = async function (options) {
    const adapter = await requestAdapter.call(this, options);
    return Object.defineProperty(adapter, "info", { value: { description: "A GPU", isFallbackAdapter: false } });
  };`;

/** In the page: the kernels of a run in a new worker, and what is kept of them afterwards; `kept` replaces it before. */
async function train({ options, kept }) {
  const { getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
  const root = await navigator.storage.getDirectory();
  const file = () => root.getFileHandle("wgpu-bert-kernels.json", { create: true });
  if (kept !== undefined) {
    const writable = await (await file()).createWritable();
    await writable.write(kept);
    await writable.close();
  }
  const start = performance.now();
  const run = runBertPretrain(await getDistributionStrategy(), options);
  let kernels, seconds;
  for await (const event of run) {
    if (event.kind !== "started") continue;
    kernels = event.kernels;
    seconds = (performance.now() - start) / 1000;
  }
  (await run.finished).model.close();
  return { kernels, seconds, kept: await (await (await file()).getFile()).text() };
}

test("a GPU's fastest kernels are measured once and kept", { timeout: 300_000 }, (t) =>
  withPage({ launch: () => launchChromium({ webgpu: true }), workerPrelude: GPU }, async (page, messages) => {
    const trained = async (more) => {
      await page.reload();
      const seen = await page.evaluate(train, more);
      t.diagnostic(`${seen.kernels}, started after ${seen.seconds.toFixed(1)} s`);
      return seen;
    };
    const options = { ...OPTIONS, steps: 2, warmupSteps: 1 };
    const isMeasured = ({ kernels, kept }) => {
      // On a busy machine either may win, but never those with workgroup memory.
      const [, family] = /^(register|tile) \(measured fastest\)$/.exec(kernels) ?? assert.fail(kernels);
      const { measured } = JSON.parse(kept);
      assert.deepEqual(measured.map(({ adapter, backend, kernels }) => [adapter, backend, kernels]), [["A GPU", "webgpu", family]]);
      assert.match(measured[0].driver, /Chrome\/\d+/);
    };
    const first = await trained({ options });
    isMeasured(first);

    const kept = first.kept.replace(/"(register|tile)"/, '"workgroup"');
    const known = await trained({ options, kept });
    assert.deepEqual([known.kernels, known.kept], ["workgroup (measured fastest)", kept]);
    const asked = await trained({ options: { ...options, kernels: "register" }, kept });
    assert.deepEqual([asked.kernels, asked.kept], ["register (asked for)", kept]);
    isMeasured(await trained({ options, kept: kept.replace(/Chrome\/\d+/, "Chrome/1") }));
    isMeasured(await trained({ options, kept: kept.slice(0, 40) }));
    assert.deepEqual(messages, []);
  }),
);
