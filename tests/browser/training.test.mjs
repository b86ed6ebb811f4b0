// Training through the package, in real browsers: the same losses and guesses as natively, and everything a page may do
// to a run.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { wgpuBert } from "./native.mjs";
import { withPage } from "./page.mjs";
import { OPTIONS, nativeProgress } from "./small-run.mjs";
import { readStoredZip } from "./zip.mjs";

const TIMEOUT = 300_000;
const PROMPT = "the [MASK] sat on the [MASK].";

/** In the page: a whole run, its events, a guess of its model, and the model's files. */
async function train({ options, prompt }) {
  const { getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
  const run = runBertPretrain(await getDistributionStrategy(), options);
  const live = run.fillMask(prompt);
  const events = [];
  for await (const event of run) events.push(event);
  const { model, steps, stopped } = await run.finished;
  const zip = await model.exportHuggingFace();
  const bytes = new Uint8Array(await zip.arrayBuffer());
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  const guesses = await model.fillMask(prompt, { topK: 3 });
  const late = await run.fillMask(prompt, { topK: 3 });
  const { config } = model;
  model.close();
  const closed = await model.fillMask(prompt).catch((error) => error.message);
  return { events, steps, stopped, type: zip.type, base64, live: await live, guesses, late, config, closed };
}

function assertSafetensors(bytes) {
  const length = Number(bytes.readBigUInt64LE(0));
  const { __metadata__: metadata, ...tensors } = JSON.parse(bytes.toString("utf8", 8, 8 + length));
  assert.equal(metadata.format, "pt");
  assert.deepEqual(tensors["bert.pooler.dense.weight"].shape, [16, 16]);
  let end = 0;
  for (const { dtype, shape, data_offsets: [from, to] } of Object.values(tensors).sort((a, b) => a.data_offsets[0] - b.data_offsets[0])) {
    assert.deepEqual([dtype, from, to - from], ["F32", end, 4 * shape.reduce((product, size) => product * size, 1)]);
    end = to;
  }
  assert.equal(8 + length + end, bytes.length);
}

/** In the worker: a browser with two adapters. */
const TWO_ADAPTERS = `
  const requestAdapter = GPU.prototype.requestAdapter;
  GPU.prototype.requestAdapter = async function (options) {
    const adapter = await requestAdapter.call(this, options);
    const description = "SwiftShader, " + options.powerPreference;
    return Object.defineProperty(adapter, "info", { value: { description, isFallbackAdapter: false } });
  };`;

/** So that they need not be measured, which takes a while. */
const ASKED = { ...OPTIONS, kernels: "register" };

test("two adapters train as one does", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: true }), workerPrelude: TWO_ADAPTERS }, async (page, messages) => {
    const { names, auto, uneven, events } = await page.evaluate(async (options) => {
      const { getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
      const auto = await getDistributionStrategy();
      const strategy = await getDistributionStrategy("mirrored");
      const uneven = await runBertPretrain(strategy, { ...options, batchSize: 3 }).finished.catch((error) => error.message);
      const run = runBertPretrain(strategy, options);
      const events = [];
      for await (const event of run) events.push(event);
      (await run.finished).model.close();
      return { names: strategy.replicas.map(({ name }) => name), auto: auto.replicas.length, uneven, events };
    }, ASKED);
    assert.deepEqual([names, auto], [["SwiftShader, high-performance", "SwiftShader, low-power"], 1]);
    assert.match(uneven, /2 and 4/);
    const of = (kind) => events.filter((event) => event.kind === kind);
    const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-two-"));
    try {
      const expected = await nativeProgress(of("data")[0].vocabSize, folder);
      const seen = of("progress");
      assert.equal(seen.length, expected.length);
      for (const [i, { loss }] of seen.entries()) {
        assert.ok(Math.abs(loss - expected[i].loss) < 5e-4, `${i}: ${loss} and ${expected[i].loss}`);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
    assert.deepEqual(messages, []);
  }));

// A batch in parts comes to the same as in one piece, which is what the command line does here.
for (const [browser, launch, gradientAccumulationSteps] of [
  ["Chromium", () => launchChromium({ webgpu: true }), 2],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU }), 1],
]) {
  test(`${browser} trains as the command line does`, { timeout: TIMEOUT }, (t) =>
    withPage({ launch }, async (page, messages) => {
      const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-training-"));
      try {
        const run = await page.evaluate(train, { options: { ...OPTIONS, gradientAccumulationSteps }, prompt: PROMPT });
        const [reading, ...others] = run.events.filter(({ kind }) => kind !== "compiling");
        const [data, started, ...rest] = others.filter(({ kind }) => kind !== "reading");
        assert.deepEqual([reading.kind, reading.stage, reading.done, reading.total], ["reading", "vocabulary", OPTIONS.text.length, OPTIONS.text.length]);
        assert.equal(data.kind, "data");
        assert.deepEqual([data.documents, data.sentences, data.unknownShare], [3, 30, 0]);
        assert.ok(data.instances > 10 && data.tokens > 200 && data.vocabSize > 20);
        assert.equal(started.kind, "started");
        assert.ok(Math.abs(started.uniformLoss - Math.log(data.vocabSize)) < 1e-9);
        assert.ok(started.unigramLoss < started.uniformLoss && started.parameters > 1000 && started.bytes > 4000);
        assert.deepEqual([started.step, started.totalSteps], [0, 20]);
        assert.deepEqual(rest.pop(), { kind: "done", step: 20, stopped: false });
        assert.deepEqual([run.steps, run.stopped], [20, false]);

        const expected = await nativeProgress(data.vocabSize, folder);
        assert.deepEqual(rest.map(({ step }) => step), expected.map(({ step }) => step));
        let worst = 0;
        for (const [i, { kind, loss, lmExampleLoss, nextSentenceLoss, learningRate }] of rest.entries()) {
          assert.equal(kind, "progress");
          assert.ok(Math.abs(learningRate - expected[i].learning_rate) < 1e-9);
          const pairs = [[loss, "loss"], [lmExampleLoss, "lm_example_loss"], [nextSentenceLoss, "next_sentence_loss"]];
          for (const [value, name] of pairs) worst = Math.max(worst, Math.abs(value - expected[i][name]));
        }
        t.diagnostic(`losses differ by ${worst.toExponential(1)} at most, from ${rest[0].loss} to ${rest.at(-1).loss}`);
        assert.ok(worst < 5e-4);
        assert.ok(rest.at(-1).loss < rest[0].loss);

        assert.equal(run.type, "application/zip");
        const files = readStoredZip(Buffer.from(run.base64, "base64"));
        const names = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"];
        assert.deepEqual([...files.keys()].sort(), names);
        assert.equal(files.get("vocab.txt").toString().trim().split("\n").length, data.vocabSize);
        assertSafetensors(files.get("model.safetensors"));
        for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);

        const { live, guesses, late } = run;
        assert.deepEqual(live.masks.map((mask) => mask.length), [5, 5]);
        assert.deepEqual(late, guesses);
        const [{ masks }] = await wgpuBert("fill-mask", `--model=${folder}`, "--top_k=3", PROMPT);
        assert.equal(masks.length, 2);
        for (const [i, mask] of masks.entries()) {
          for (const [k, { probability }] of mask.entries()) {
            assert.ok(Math.abs(guesses.masks[i][k].probability - probability) < 1e-4);
          }
        }
        assert.equal(run.config.vocabSize, data.vocabSize);
        assert.equal(run.config.hiddenSize, 16);
        assert.match(run.closed, /closed/);
        assert.deepEqual(messages, []);
      } finally {
        rmSync(folder, { recursive: true });
      }
    }));

  test(`${browser} pauses, goes on, stops and aborts`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page) => {
      const result = await page.evaluate(async ({ options, prompt }) => {
        const { getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
        const strategy = await getDistributionStrategy();
        const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
        const long = { ...options, steps: 100_000 };
        /** A run whose events are counted as they come. */
        const follow = (more) => {
          const run = runBertPretrain(strategy, { ...long, ...more });
          const seen = { steps: 0, kinds: new Set(), startedAt: 0, elapsed: 0 };
          const ended = (async () => {
            for await (const event of run) {
              seen.kinds.add(event.kind);
              if (event.kind === "started") seen.startedAt = performance.now();
              if (event.kind === "progress") [seen.steps, seen.elapsed] = [event.step, event.elapsedSeconds];
            }
          })();
          const until = async (holds) => {
            while (!holds()) await sleep(5);
          };
          return { run, seen, ended, until };
        };

        const first = follow();
        first.run.pause();
        await first.until(() => first.seen.kinds.has("started"));
        await sleep(500);
        const beforeFirstStep = first.seen.steps;
        const asked = await first.run.fillMask(prompt, { topK: 2 });
        first.run.resume();
        await first.until(() => first.seen.steps >= 5);
        first.run.pause();
        await sleep(500);
        const paused = first.seen.steps;
        await sleep(3000);
        const still = first.seen.steps;
        const now = await first.run.fillMask(prompt, { topK: 2 });
        first.run.resume();
        await first.until(() => first.seen.steps > still + 5);
        first.run.stop();
        const { steps, stopped, model } = await first.run.finished;
        await first.ended;
        const times = { elapsed: first.seen.elapsed, whole: (performance.now() - first.seen.startedAt) / 1000 };
        const afterStop = await model.fillMask(prompt, { topK: 2 });

        const controller = new AbortController();
        const second = follow({ signal: controller.signal });
        await second.until(() => second.seen.steps >= 2);
        controller.abort();
        const aborted = await second.run.finished.catch((error) => error);
        const iteration = await second.ended.catch((error) => error);
        const third = follow({ signal: AbortSignal.abort(new Error("not today")) });
        const refused = await third.run.finished.catch((error) => error.message);
        await third.ended.catch(() => {});
        return {
          beforeFirstStep, paused, still, times, steps, stopped, asked, now, afterStop,
          aborted: [aborted.name, iteration === aborted], refused, kinds: [...first.seen.kinds],
        };
      }, { options: OPTIONS, prompt: PROMPT });

      assert.equal(result.beforeFirstStep, 0);
      assert.deepEqual(result.asked.masks.map((mask) => mask.length), [2, 2]);
      assert.ok(result.paused >= 5);
      assert.equal(result.still, result.paused);
      // Pauses of 3.5 seconds are no time of the run; one second is for events that came late.
      assert.ok(result.times.elapsed > 0 && result.times.elapsed < result.times.whole - 2.5, JSON.stringify(result.times));
      assert.ok(result.steps > result.still && result.steps < 100_000 && result.stopped);
      assert.notDeepEqual(result.now, result.asked);
      assert.equal(result.afterStop.masks.length, 2);
      assert.deepEqual(result.aborted, ["AbortError", true]);
      assert.equal(result.refused, "not today");
      assert.deepEqual(result.kinds, ["reading", "data", "compiling", "started", "progress", "done"]);
    }));

  test(`${browser} refuses what cannot be trained`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      const refusals = await page.evaluate(async (options) => {
        const api = await import("/dist/index.js");
        const strategy = await api.getDistributionStrategy();
        const refusal = async (strategy, options) => {
          let run;
          try {
            run = api.runBertPretrain(strategy, options);
          } catch (error) {
            return { thrown: String(error) };
          }
          const finished = await run.finished.catch((error) => error);
          let iterated;
          try {
            for await (const event of run) if (!["reading", "data", "compiling"].includes(event.kind)) throw new Error(event.kind);
          } catch (error) {
            iterated = error;
          }
          const { name, message, reason, field } = finished;
          const isOptionError = finished instanceof api.OptionError && finished instanceof TypeError;
          return { name, message, reason, field, isOptionError, same: finished === iterated };
        };
        const wrong = [
          { steps: 0 }, { steps: 1.5 }, { steps: "many" }, { learningRate: NaN }, { learningRate: -1 }, { beta2: 1 },
          { maskedLmProb: 2 }, { learningRat: 1 }, { config: "huge" }, { config: { hiddenSize: 10, numAttentionHeads: 3 } },
          { config: { hiddenSise: 16 } }, { config: { hiddenSize: "big" } }, { config: 7 }, { optimizerType: "sgd" },
          { firstSegmentTokens: [9, 3] }, { maxSeqLength: 33 }, { maxSeqLength: 4 }, { vocabulary: "[PAD]", vocabSize: 80 },
          { vocabSize: 6 }, { batchSize: 100_000 }, { seed: -1 }, { doLowerCase: "yes" }, { text: 5 }, { text: [] },
          { text: ["a", 5] }, { text: "" }, { text: "one document.\nonly one." }, { signal: "now" }, { kernels: "fast" }, { kernels: 7 },
          { dtype: "bf16" }, { dtype: "half" }, { dtype: 16 },
        ];
        const results = [];
        for (const change of wrong) results.push([Object.keys(change).at(-1), await refusal(strategy, { ...options, ...change })]);
        const without = [await refusal(null, options), await refusal(undefined), await refusal(null, { steps: 0 })];
        const run = api.runBertPretrain(strategy, options);
        const prompts = await Promise.all([
          run.fillMask("no mask here").catch(({ name, message }) => ({ name, message })),
          run.fillMask("[MASK]", { topK: 0 }).catch(({ name, field }) => ({ name, field })),
        ]);
        run.stop();
        return { results, without, prompts };
      }, OPTIONS);

      for (const { reason, message, name, same, thrown } of refusals.without) {
        assert.deepEqual({ reason, name, same, thrown }, { reason: "not_given", name: "StrategyError", same: true, thrown: undefined });
        assert.match(message, /^Distribution strategy is not specified\. /);
      }
      for (const [option, { name, message, field, isOptionError, same }] of refusals.results) {
        assert.ok(same, option);
        if (name === "TextError") continue;
        assert.equal(name, "OptionError", `${option}: ${message}`);
        assert.ok(isOptionError);
        assert.equal(field.split(/[.[]/)[0], option, `${option}: ${message}`);
        assert.ok(message.startsWith(`${field}: `) && !message.includes("Error"), message);
      }
      const texts = refusals.results.filter(([, { name }]) => name === "TextError").map(([, { message }]) => message);
      assert.equal(texts.length, 2);
      assert.match(texts[0], /empty/);
      assert.match(texts[1], /single document/);
      const fields = refusals.results.map(([, { field }]) => field);
      assert.ok(fields.includes("config.hiddenSise") && fields.includes("config.hiddenSize"), fields.join());
      const [noMask, noGuesses] = refusals.prompts;
      assert.equal(noMask.name, "OptionError");
      assert.match(noMask.message, /\[MASK\]/);
      assert.deepEqual(noGuesses, { name: "OptionError", field: "topK" });
      assert.deepEqual(messages, []);
    }));

  test(`${browser} trains in fp16, or says that the adapter has none`, { timeout: TIMEOUT }, (t) =>
    withPage({ launch }, async (page) => {
      const { hasF16, scales, error } = await page.evaluate(async (options) => {
        const { OptionError, getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
        const hasF16 = (await navigator.gpu.requestAdapter()).features.has("shader-f16");
        const run = runBertPretrain(await getDistributionStrategy(), { ...options, steps: 6, dtype: "fp16" });
        const scales = [];
        try {
          for await (const event of run) if (event.kind === "progress") scales.push(event.lossScale);
          (await run.finished).model.close();
        } catch (error) {
          const { field, message } = error;
          return { hasF16, scales, error: { field, message, isOptionError: error instanceof OptionError } };
        }
        return { hasF16, scales };
      }, OPTIONS);
      t.diagnostic(hasF16 ? "shader-f16" : "no shader-f16");
      if (hasF16) {
        assert.equal(error, undefined);
        assert.ok(scales.length > 0 && scales.every((scale) => scale === 32768), scales.join());
      } else {
        assert.deepEqual([error.field, error.isOptionError], ["dtype", true]);
        assert.match(error.message, /shader-f16/);
      }
    }),
  );

  test(`${browser} takes no more memory from step to step`, { timeout: TIMEOUT }, (t) => {
    // In braces, to keep its names from the worker's own. Adds to every event what the worker holds: bytes of wasm memory, and buffers it made and did not destroy.
    const workerPrelude = `{
      let memory, buffers = 0;
      for (const name of ["instantiate", "instantiateStreaming"]) {
        const original = WebAssembly[name];
        WebAssembly[name] = async (...parameters) => {
          const result = await original.apply(WebAssembly, parameters);
          memory = (result.instance ?? result).exports.memory;
          return result;
        };
      }
      const create = GPUDevice.prototype.createBuffer;
      GPUDevice.prototype.createBuffer = function (descriptor) {
        buffers++;
        const buffer = create.call(this, descriptor);
        const destroy = buffer.destroy;
        buffer.destroy = () => { buffers--; buffer.destroy = destroy; destroy.call(buffer); };
        return buffer;
      };
      const post = self.postMessage.bind(self);
      self.postMessage = (message, transfer) => {
        if (message.event) message.event = { ...message.event, buffers, bytes: memory.buffer.byteLength };
        post(message, transfer);
      };
    }`;
    return withPage({ launch, workerPrelude }, async (page) => {
      const events = await page.evaluate(async (options) => {
        const { getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
        const run = runBertPretrain(await getDistributionStrategy(), options);
        const events = [];
        for await (const event of run) {
          events.push(event);
          if (event.kind === "progress") await run.fillMask("the [MASK] sat");
        }
        return events;
      }, { steps: 200, stepsPerLoop: 10 });
      const progress = events.filter(({ kind }) => kind === "progress");
      const [warm, last] = [progress[3], progress.at(-1)];
      t.diagnostic(`${last.bytes / 1024} KiB of wasm memory, ${last.buffers} buffers, ${Math.round(last.tokensPerSecond)} tokens/s`);
      assert.deepEqual([last.step, last.bytes, last.buffers], [200, warm.bytes, warm.buffers]);
      assert.ok(warm.buffers > 3);
      // The examples alone would take as much if they were held as the batches are.
      assert.ok(last.bytes < 80 << 20, `${last.bytes}`);
      assert.ok(last.loss < progress[0].loss);
    });
  });
}

test("a run that cannot learn is told so once", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: true }) }, async (page) => {
    const notices = (options) =>
      page.evaluate(async (options) => {
        const { getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
        const run = runBertPretrain(await getDistributionStrategy(), options);
        const told = [];
        for await (const event of run) if (event.kind === "notice") told.push(event.message);
        (await run.finished).model.close();
        return told;
      }, options);
    const told = await notices({ ...OPTIONS, steps: 50, learningRate: 0 });
    assert.equal(told.length, 1);
    assert.match(told[0], /^The learning rate was 0 in each of the last 20 steps, which is suspicious\./);
    assert.deepEqual(await notices({ ...OPTIONS, steps: 50, warmupSteps: 40 }), []);
  }),
);
