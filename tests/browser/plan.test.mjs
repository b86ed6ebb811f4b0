// What the package tells of a run before it starts, in real browsers.
import assert from "node:assert/strict";
import test from "node:test";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { withPage } from "./page.mjs";

const TIMEOUT = 300_000;
const TEXT = "the cat sat on the mat.\nthe dog slept on the hill.\nthe bird sang.\n\nthe king sat.\nthe cat slept on the wall.\n";
const OPTIONS = {
  config: { hiddenSize: 16, numHiddenLayers: 1, numAttentionHeads: 2, intermediateSize: 32, maxPositionEmbeddings: 32 },
  steps: 3,
  stepsPerLoop: 1,
  batchSize: 4,
  maxSeqLength: 32,
  maxPredictionsPerSeq: 5,
};

for (const [browser, launch] of [
  ["Chromium", () => launchChromium({ webgpu: true })],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  test(`${browser}: a run is what was planned, and tells what it compiles`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      const result = await page.evaluate(async ({ text, options }) => {
        const { getDistributionStrategy, measureStep, planRun, runBertPretrain, trainVocabulary } = await import("/dist/index.js");
        const strategy = await getDistributionStrategy();
        const vocabulary = await trainVocabulary(text, { vocabSize: 60 });
        const runs = [];
        const config = { ...options.config, numHiddenLayers: 3 };
        const others = [{ optimizerType: "lamb", batchSize: 3 }, { useNextSentenceLabel: false, kernels: "workgroup" }];
        for (const more of [{ config }, { config, recompute: true }, ...others]) {
          const given = { ...options, ...more, text, vocabulary };
          const plan = await planRun(strategy, { ...given, checkpoint: "opfs:never", signal: new AbortController().signal });
          const run = runBertPretrain(strategy, given);
          const events = [];
          for await (const event of run) events.push(event);
          runs.push({ plan, events });
        }
        const presets = {};
        for (const config of ["nano", "tiny", "base"]) presets[config] = await planRun(strategy, { config });
        const byDefault = await planRun(strategy);
        const whole = { config: "tiny", gradientAccumulationSteps: 1 };
        const tooLarge = await planRun(strategy, { ...whole, batchSize: 2 ** 31 - 1 });
        const fitting = await planRun(strategy, { ...whole, batchSize: tooLarge.largestBatchSize });
        const justNot = await planRun(strategy, { ...whole, batchSize: tooLarge.largestBatchSize + 1 });
        const inParts = await planRun(strategy, { config: "tiny", batchSize: 2 * tooLarge.largestBatchSize });
        const never = await planRun(strategy, { ...options, config: { ...options.config, hiddenSize: 100_000, intermediateSize: 100_000 } });
        const measured = await measureStep(strategy, { ...options, vocabSize: 60 });
        return { runs, presets, byDefault, tooLarge, fitting, justNot, inParts, never, measured };
      }, { text: TEXT, options: OPTIONS });

      for (const { plan, events } of result.runs) {
        const { parameters, bytes, dispatches, gradientAccumulationSteps } = events.find(({ kind }) => kind === "started");
        assert.deepEqual(plan, { parameters, bytes, dispatches, gradientAccumulationSteps, fits: true });
        assert.equal(gradientAccumulationSteps, 1);
        const compiling = events.filter(({ kind }) => kind === "compiling");
        const { total } = compiling[0];
        assert.ok(total > 10);
        assert.deepEqual(compiling, Array.from({ length: total + 1 }, (_, done) => ({ kind: "compiling", done, total })));
        assert.deepEqual([...new Set(events.map(({ kind }) => kind))], ["reading", "data", "compiling", "started", "progress", "done"]);
      }
      const [kept, again] = result.runs;
      assert.ok(again.plan.bytes < kept.plan.bytes && again.plan.dispatches > kept.plan.dispatches);
      const numbers = ({ events }) => events.map(({ loss, gradNorm }) => [loss, gradNorm]);
      assert.deepEqual(numbers(again), numbers(kept), "with dropout");
      const { nano, tiny, base } = result.presets;
      assert.equal(tiny.parameters, 1_552_898);
      assert.ok(nano.parameters < tiny.parameters && tiny.parameters < base.parameters && tiny.bytes < base.bytes);
      assert.equal(result.byDefault.fits, true);

      assert.equal(result.tooLarge.fits, false);
      assert.match(result.tooLarge.message, new RegExp(`The largest that fits is ${result.tooLarge.largestBatchSize}$`));
      assert.deepEqual([result.fitting.fits, result.justNot.fits], [true, false]);
      assert.deepEqual([result.inParts.fits, result.inParts.gradientAccumulationSteps], [true, 2]);
      assert.equal(result.never.fits, false);
      assert.equal(result.never.largestBatchSize, undefined);
      assert.match(result.never.message, /Not even a batch of 1 fits/);

      assert.ok(result.measured.secondsPerStep > 0 && result.measured.secondsPerStep < 60);
      assert.deepEqual(messages, []);
    }));
}

test("Chromium plans and measures nothing that is wrong", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: true }) }, async (page, messages) => {
    const refusals = await page.evaluate(async (options) => {
      const api = await import("/dist/index.js");
      const strategy = await api.getDistributionStrategy();
      const refusal = (promise) => promise.then(() => ({}), ({ name, message, field, reason }) => ({ name, message, field, reason }));
      const results = [];
      for (const name of ["planRun", "measureStep"]) {
        for (const wrong of [
          { steps: 0 }, { batchSize: 1.5 }, { learningRat: 1 }, { config: "huge" }, { maxSeqLength: 4 }, { maxSeqLength: 33 },
          { vocabulary: "[PAD]" }, { firstSegmentTokens: [9, 3] }, { stepsPerLoop: 1_000_000, steps: 1_000_000 },
        ]) {
          results.push([Object.keys(wrong)[0], await refusal(api[name](strategy, { ...options, ...wrong }))]);
        }
        results.push(["strategy", await refusal(api[name](null, options))], ["strategy", await refusal(api[name]())]);
      }
      const tooLarge = await refusal(api.measureStep(strategy, { ...options, batchSize: 2 ** 31 - 1 }));
      const aborted = await refusal(api.measureStep(strategy, { ...options, signal: AbortSignal.abort(new Error("not now")) }));
      return { results, tooLarge, aborted };
    }, OPTIONS);
    for (const [wrong, { name, message, field, reason }] of refusals.results) {
      if (wrong === "strategy") assert.deepEqual([name, reason], ["StrategyError", "not_given"]);
      else assert.deepEqual([name, field], ["OptionError", wrong], message);
    }
    assert.deepEqual([refusals.tooLarge.name, refusals.tooLarge.field], ["OptionError", "batchSize"]);
    assert.equal(refusals.aborted.message, "not now");
    assert.deepEqual(messages, []);
  }));
