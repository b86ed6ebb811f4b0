// Callers make mistakes: each is told in words, by the option's name where there is one, and what comes next works.
import assert from "node:assert/strict";
import test from "node:test";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { withPage } from "./page.mjs";
import { OPTIONS } from "./small-run.mjs";

const TIMEOUT = 300_000;

/** In the page: functions that the tests share. */
async function prepare() {
  const api = await import("/dist/index.js");
  /** What a promise comes to: the fields of its error, or `undefined`. */
  const refusal = (promise) =>
    promise.then(() => undefined, ({ name, field, reason, message }) => ({ name, field, reason, message }));
  Object.assign(window, { api, refusal });
}

for (const [browser, launch] of [
  ["Chromium", () => launchChromium({ webgpu: true })],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  test(`${browser}: a wrong question is refused, and the run goes on`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      await page.evaluate(prepare);
      const result = await page.evaluate(async (options) => {
        const run = api.runBertPretrain(await api.getDistributionStrategy(), options);
        const ask = async (asked) => {
          const refusals = [];
          for (const text of [undefined, null, 5, {}, [], () => {}, Symbol("a")]) refusals.push(["text", await refusal(asked.fillMask(text))]);
          for (const topK of [null, 0, NaN, "5", 5n, {}]) refusals.push(["topK", await refusal(asked.fillMask("[MASK]", { topK }))]);
          for (const options of [null, 5, [], () => {}]) refusals.push(["options", await refusal(asked.fillMask("[MASK]", options))]);
          refusals.push(["topk", await refusal(asked.fillMask("[MASK]", { topk: 3 }))]);
          const { masks } = await asked.fillMask("the [MASK]", { topK: 2 ** 40 });
          return { refusals, guesses: masks[0].length };
        };
        run.pause();
        const running = await ask(run);
        for (const count of [0, "3", 5n, {}, () => {}]) running.refusals.push(["count", await refusal(run.examples(count))]);
        const batch = await run.examples(2 ** 40);
        run.resume();
        const { model, steps } = await run.finished;
        return { running, batch: batch.length, steps, over: await ask(model), vocabSize: model.config.vocabSize };
      }, OPTIONS);
      for (const { refusals, guesses } of [result.running, result.over]) {
        for (const [field, refused] of refusals) {
          assert.deepEqual([refused?.name, refused?.field], ["OptionError", field], JSON.stringify(refused));
        }
        assert.equal(guesses, result.vocabSize);
      }
      assert.deepEqual([result.batch, result.steps], [OPTIONS.batchSize, OPTIONS.steps]);
      assert.deepEqual(messages, []);
    }));

  test(`${browser}: what cannot be read or sent is told by its name`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      await page.evaluate(prepare);
      const result = await page.evaluate(async (options) => {
        const strategy = await api.getDistributionStrategy();
        const run = (strategy, options) => api.runBertPretrain(strategy, options).finished;
        const refusals = [];
        const refuse = async (field, promise) => refusals.push([field, await refusal(promise)]);
        for (const request of [null, 5, {}, [], () => {}]) await refuse("request", api.getDistributionStrategy(request));
        for (const wrong of [null, 5, "text", [], () => {}, new Map(), new Date()]) {
          for (const refused of [
            run(strategy, wrong), api.planRun(strategy, wrong), api.measureStep(strategy, wrong), api.selfTest(strategy, wrong),
            api.trainVocabulary("a", wrong), api.createPretrainingData("a", wrong),
          ]) await refuse("options", refused);
        }
        const config = { ...options.config, hiddenAct: () => {} };
        for (const start of [run, api.planRun, api.measureStep]) {
          await refuse("steps", start(strategy, { ...options, steps: () => 3 }));
          await refuse("config.hiddenAct", start(strategy, { ...options, config }));
          await refuse("config.numHiddenLayers", start(strategy, { ...options, config: { ...options.config, numHiddenLayers: 1001 } }));
        }
        await refuse("kernels", api.selfTest(strategy, { kernels: "fast" }));
        await refuse("kernelz", api.selfTest(strategy, { kernelz: "register" }));
        await refuse("files.a", api.selfTest(strategy, { files: { a: "text" } }));
        await refuse("files.b", api.selfTest(strategy, { files: { b: () => {} } }));
        for (const text of [null, 5, {}, () => {}, new Set()]) await refuse("text", api.trainVocabulary(text));
        await refuse("text[1]", run(strategy, { ...options, text: ["a", () => {}] }));
        for (const source of [undefined, null, 5, {}, [], ["a"], () => {}, "model"]) await refuse("source", api.loadModel(source));
        for (const name of [5, () => {}]) await refuse("name", api.deleteRun(name));
        await refuse("to", api.renameRun("a run", "a run"));
        const without = [];
        for (const nothing of [undefined, null, 5, "auto", {}, { kind: 5 }, Promise.resolve(strategy)]) {
          for (const start of [run, api.planRun, api.measureStep, api.selfTest]) without.push(await refusal(start(nothing, { steps: 0 })));
        }
        // Nobody can read a file that is gone since it was chosen.
        const folder = await navigator.storage.getDirectory();
        const handle = await folder.getFileHandle("gone.txt", { create: true });
        const writable = await handle.createWritable();
        await writable.write("a text.");
        await writable.close();
        const gone = await handle.getFile();
        await folder.removeEntry("gone.txt");
        const unreadable = [
          await refusal(api.trainVocabulary(gone)), await refusal(run(strategy, { ...options, text: ["a", gone] })),
          await refusal(run(strategy, { ...options, text: gone, checkpoint: "opfs:gone" })), await refusal(api.loadModel([gone])),
        ];
        const noArchive = await refusal(api.loadModel(new File(["{}"], "config.json")));
        return { refusals, without, unreadable, noArchive, after: await refusal(run(strategy, options)) };
      }, OPTIONS);
      for (const [field, refused] of result.refusals) {
        assert.deepEqual([refused?.name, refused?.field], ["OptionError", field], JSON.stringify(refused));
        assert.ok(refused.message.startsWith(`${field}: `), refused.message);
      }
      for (const refused of result.without) assert.deepEqual([refused?.name, refused?.reason], ["StrategyError", "not_given"]);
      assert.deepEqual(result.unreadable.map(({ name }) => name), ["TextError", "TextError", "TextError", "ModelFileError"]);
      for (const { message } of result.unreadable) assert.match(message, /^gone\.txt: the file could not be read: .+ Choose it again$/);
      assert.match(result.noArchive.message, /^config\.json is not a whole zip archive: .+ all files of the folder$/);
      assert.equal(result.after, undefined);
      assert.deepEqual(messages, []);
    }));

  test(`${browser}: what is closed is gone, once it is no longer used`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      await page.evaluate(prepare);
      const result = await page.evaluate(async (options) => {
        const { model } = await api.runBertPretrain(await api.getDistributionStrategy(), options).finished;
        const asked = [model.fillMask("the [MASK]"), model.fillMask("a [MASK]"), model.exportHuggingFace()].map(refusal);
        model.close();
        const late = [model.fillMask("the [MASK]"), model.exportHuggingFace()].map(refusal);
        model.close();
        const data = await api.createPretrainingData(options.text, { vocabulary: await api.trainVocabulary(options.text) });
        asked.push(refusal(data.toTFRecord()));
        data.close();
        data.close();
        late.push(refusal(data.examples(1)), refusal(data.toTFRecord()));
        return { asked: await Promise.all(asked), late: await Promise.all(late) };
      }, OPTIONS);
      assert.deepEqual(result.asked, Array(4).fill(undefined));
      assert.deepEqual(result.late.map(({ message }) => /gone: (it was|they were) closed/.test(message)), Array(4).fill(true));
      assert.deepEqual(messages, []);
    }));

  test(`${browser}: a run whose name is in use is refused, and so is what it is asked`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      await page.evaluate(prepare);
      const result = await page.evaluate(async (options) => {
        const strategy = await api.getDistributionStrategy();
        const first = api.runBertPretrain(strategy, options);
        first.pause();
        await first.examples(1);
        const second = api.runBertPretrain(strategy, options);
        const asked = [second.finished, second.fillMask("[MASK]"), second.examples(1)].map(refusal);
        const refused = await Promise.all(asked);
        refused.push(await refusal(second.fillMask("[MASK]")), await refusal(second.examples(1)));
        first.stop();
        return { refused, first: await refusal(first.finished) };
      }, { ...OPTIONS, checkpoint: "opfs:in use" });
      for (const { name, message } of result.refused) assert.deepEqual([name, /in use/.test(message)], ["SavedRunError", true]);
      assert.equal(result.refused.length, 5);
      assert.equal(result.first, undefined);
      assert.deepEqual(messages, []);
    }));
}

test("Chromium: a run is asked until it is saved, and answers all", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: true }), workerPrelude: `{
    // The last snapshot takes a while, as that of a larger model does.
    const create = FileSystemFileHandle.prototype.createSyncAccessHandle;
    FileSystemFileHandle.prototype.createSyncAccessHandle = async function () {
      await new Promise((resolve) => setTimeout(resolve, 200));
      return create.call(this);
    };
  }` }, async (page, messages) => {
    await page.evaluate(prepare);
    const answers = await page.evaluate(async (options) => {
      const run = api.runBertPretrain(await api.getDistributionStrategy(), options);
      for await (const event of run) if (event.kind === "progress" && event.step === options.steps) break;
      let over = false;
      const finished = run.finished.then(() => (over = true));
      const asked = [refusal(run.fillMask("the [MASK]"))];
      while (!over) {
        asked.push(refusal(run.examples(1)));
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      await finished;
      return Promise.all(asked);
    }, { ...OPTIONS, checkpoint: "opfs:asked", checkpointSeconds: 1000 });
    assert.ok(answers.length > 4 && answers.every((answer) => answer === undefined));
    assert.deepEqual(messages, []);
  }));

test("Chromium: memory that is not enough is told, and the next call finds a new worker", { timeout: TIMEOUT }, () =>
  // 32 MiB.
  withPage({ launch: () => launchChromium({ webgpu: true, wasmPages: 512 }) }, async (page) => {
    await page.evaluate(prepare);
    const result = await page.evaluate(async (options) => {
      const strategy = await api.getDistributionStrategy();
      const { model } = await api.runBertPretrain(strategy, options).finished;
      const vocabulary = await api.trainVocabulary(options.text);
      const refused = [];
      const much = { dupeFactor: 1_000_000, maxTokensInMemory: 2 ** 31 - 1 };
      // Called, and in a run, which goes on by itself.
      for (const begin of [
        () => api.createPretrainingData(options.text, { vocabulary, ...much }),
        () => api.runBertPretrain(strategy, { ...options, ...much }).finished,
      ]) {
        refused.push(await refusal(begin()));
        refused.push((await api.trainVocabulary(options.text)) === vocabulary);
      }
      // Another model, perhaps of the same number.
      await api.runBertPretrain(strategy, options).finished;
      return { refused, stale: await refusal(model.fillMask("the [MASK]")) };
    }, OPTIONS);
    for (const [i, refused] of result.refused.entries()) {
      if (i % 2 === 0) assert.match(refused?.message, /^wgpu-bert ran out of memory: /);
      else assert.equal(refused, true);
    }
    assert.match(result.stale.message, /the model is gone/);
  }));
