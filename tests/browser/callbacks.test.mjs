// Callbacks on the page, in real browsers: called where the command line's are, awaited, and able to end a run.
import assert from "node:assert/strict";
import test from "node:test";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { withPage } from "./page.mjs";
import { OPTIONS } from "./small-run.mjs";

const TIMEOUT = 300_000;

for (const [browser, launch] of [
  ["Chromium", () => launchChromium({ webgpu: true })],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  test(`${browser} calls callbacks at their points, one after another, and waits for them`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      const seen = await page.evaluate(async (options) => {
        const { getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
        const strategy = await getDistributionStrategy();
        // Several messages later, not a moment of time.
        const later = () => new Promise((resolve) => {
          const { port1, port2 } = new MessageChannel();
          port1.onmessage = () => {
            port1.close();
            resolve();
          };
          port2.postMessage(0);
        });
        /** Writes down what it hears as the tests of the command line's do: `{` and `}`, `1{` and `}1`, `0-2`. */
        const recorder = (heard, answer = () => {}) => {
          const hear = async (what) => {
            heard.push(what);
            await later();
            return answer(heard.join("").trim());
          };
          return {
            onTrainBegin: () => hear("{"),
            onEpochBegin: (epoch) => hear(` ${epoch}{`),
            onBatchBegin: (step) => hear(` ${step}-`),
            onBatchEnd: (step, logs) => hear(logs.step === step + 1 && logs.loss > 0 ? `${step}` : "wrong logs"),
            onEpochEnd: (epoch, { loss }) => hear(loss > 0 ? ` }${epoch}` : "wrong logs"),
            onTrainEnd: () => hear(" }"),
          };
        };
        const train = async (customCallbacks, more = {}) => {
          const run = runBertPretrain(strategy, { ...options, stepsPerEpoch: 14, stepsPerLoop: 10, customCallbacks, ...more });
          const losses = [];
          for await (const event of run) if (event.kind === "progress") losses.push(event.loss);
          const { steps, stopped, model } = await run.finished;
          model.close();
          return { steps, stopped, losses };
        };
        const outcome = (promise) => promise.then(() => "nothing", (error) => [error.name, error.field, error.message]);

        const both = [];
        const whole = await train([recorder(both), {}, recorder(both)]);
        const without = await train(undefined);
        const [inLoop, atBegin, atEnd] = [[], [], []];
        const stop = (after) => (heard) => (heard.endsWith(after) ? { stopTraining: true } : undefined);
        const stops = [
          await train([recorder(inLoop, stop(" 0-9"))]),
          await train([recorder(atBegin, stop("{ 1{"))]),
          await train([recorder(atEnd, stop("13 }1"))]),
        ];
        const thrown = new RangeError("enough of it");
        const failed = [];
        const failure = await train([recorder(failed, (heard) => {
          if (heard.endsWith("9")) throw thrown;
        })]).catch((error) => error === thrown);
        // A callback may ask the run that waits for it.
        let asking;
        const run = runBertPretrain(strategy, {
          ...options,
          customCallbacks: [{ onBatchEnd: async () => (asking ??= await run.fillMask("the [MASK] sat")) }],
        });
        await run.finished;
        const refused = await Promise.all([5, {}, [5], [null]].map((customCallbacks) => outcome(runBertPretrain(strategy, { customCallbacks }).finished)));
        // Given up while a callback takes for ever.
        const controller = new AbortController();
        const aborted = await outcome(runBertPretrain(strategy, {
          ...options,
          signal: controller.signal,
          customCallbacks: [{ onTrainBegin: () => {
            controller.abort(new Error("changed my mind"));
            return new Promise(() => {});
          } }],
        }).finished);
        const next = await train(undefined, { steps: 2 });
        return { both: both.join(""), whole, without, stops, heard: [inLoop, atBegin, atEnd, failed].map((heard) => heard.join("")), failure, asking, refused, aborted, next };
      }, OPTIONS);

      const points = ["{", " 1{", " 0-", "9", " 10-", "13", " }1", " 2{", " 14-", "19", " }2", " }"];
      assert.equal(seen.both, points.flatMap((point) => [point, point]).join(""));
      // They change nothing of what is computed.
      assert.deepEqual(seen.whole, seen.without);
      assert.deepEqual(seen.stops.map(({ steps, stopped }) => [steps, stopped]), [[10, true], [10, true], [14, true]]);
      assert.deepEqual(seen.heard, ["{ 1{ 0-9 }", "{ 1{ 0-9 }", "{ 1{ 0-9 10-13 }1 }", "{ 1{ 0-9"]);
      assert.equal(seen.failure, true);
      assert.equal(seen.asking.masks.length, 1);
      for (const [name, field] of seen.refused) assert.deepEqual([name, field], ["OptionError", "customCallbacks"]);
      assert.equal(seen.aborted[2], "changed my mind");
      assert.equal(seen.next.steps, 2);
      assert.deepEqual(messages, []);
    }));
}
