// Text that does not stay in memory, in real browsers: the same examples as natively, from files that are read by parts.
import assert from "node:assert/strict";
import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { wgpuBert } from "./native.mjs";
import { withPage } from "./page.mjs";

const TIMEOUT = 300_000;
const CORPUS = fileURLToPath(new URL("../../data/kjv-pentateuch.txt.gz", import.meta.url));
const NAMES = ["a.gz", "b.gz", "c.gz"];

/** What the command line makes of the corpus three times over, once for all browsers. */
let native;
const nativeFiles = () =>
  (native ??= (async () => {
    const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-streaming-"));
    try {
      const path = (name) => join(folder, name);
      for (const name of NAMES) copyFileSync(CORPUS, path(name));
      const [input, vocabulary, records] = [NAMES.map(path).join(), path("vocab.txt"), path("records")];
      await wgpuBert("train-vocab", `--input_file=${input}`, "--vocab_size=600", `--output_file=${vocabulary}`);
      const flags = ["--max_seq_length=48", "--max_predictions_per_seq=8", "--dupe_factor=1", "--random_seed=7"];
      await wgpuBert("create-pretraining-data", `--input_file=${input}`, `--vocab_file=${vocabulary}`, `--output_file=${records}`, ...flags);
      return { vocabulary: readFileSync(vocabulary, "utf8"), records: readFileSync(records).toString("base64") };
    } finally {
      rmSync(folder, { recursive: true });
    }
  })());
const OPTIONS = { maxSeqLength: 48, maxPredictionsPerSeq: 8, dupeFactor: 1, seed: 7, maxTokensInMemory: 1000 };

/** In the page: the package, and what is in the folder of intermediate files: an object of sizes for each workspace. */
function prepare() {
  globalThis.api = import("/dist/index.js");
  globalThis.corpus = async () => (await fetch("/dist/kjv-pentateuch.txt.gz")).blob();
  globalThis.scratch = async () => {
    const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("wgpu-bert-scratch", { create: true });
    const found = {};
    for await (const [name, folder] of root.entries()) {
      found[name] = [];
      for await (const file of folder.values()) found[name].push((await file.getFile()).size);
    }
    return found;
  };
  globalThis.emptied = async () => {
    const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("wgpu-bert-scratch", { create: true });
    while (!(await root.keys().next()).done) await new Promise((resolve) => setTimeout(resolve, 20));
  };
}

for (const [browser, launch] of [
  ["Chromium", () => launchChromium({ webgpu: true })],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  test(`${browser} makes the examples of the command line, in its storage`, { timeout: TIMEOUT }, (t) =>
    withPage({ launch }, async (page, messages) => {
      await page.evaluate(prepare);
      const made = await page.evaluate(async ({ names, options }) => {
        const { createPretrainingData, trainVocabulary } = await api;
        // What a worker left that was killed.
        const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("wgpu-bert-scratch", { create: true });
        await (await root.getDirectoryHandle("left over", { create: true })).getFileHandle("0", { create: true });
        const text = names.map((name) => new File([], name));
        const blob = await corpus();
        for (const [i, name] of names.entries()) text[i] = new File([blob], name);
        const told = [];
        const onProgress = (progress) => told.push(progress);
        const vocabulary = await trainVocabulary(text, { vocabSize: 600, onProgress });
        const data = await createPretrainingData(text, { vocabulary, ...options, onProgress });
        const during = await scratch();
        const examples = await data.examples(3);
        const bytes = new Uint8Array(await (await data.toTFRecord()).arrayBuffer());
        const inMemory = await createPretrainingData(text, { vocabulary, ...options, maxTokensInMemory: undefined });
        const other = new Uint8Array(await (await inMemory.toTFRecord()).arrayBuffer());
        const differs = other.length !== bytes.length || other.some((byte, i) => byte !== bytes[i]);
        data.close();
        inMemory.close();
        await emptied();
        let records = "";
        for (let at = 0; at < bytes.length; at += 30_000) records += btoa(String.fromCharCode(...bytes.subarray(at, at + 30_000)));
        return { vocabulary, told, during, examples: examples.length, records, differs, size: 3 * blob.size };
      }, { names: NAMES, options: OPTIONS });

      const expected = await nativeFiles();
      assert.equal(made.vocabulary, expected.vocabulary);
      assert.ok(made.records === expected.records, "the records are others");
      assert.equal(made.differs, true, "in memory the order is TensorFlow's");
      assert.equal(made.examples, 3);
      const [sizes, ...others] = Object.values(made.during);
      assert.deepEqual(others, [], "what was left over is gone");
      t.diagnostic(`intermediate files of ${sizes.join(", ")} bytes`);
      assert.ok(sizes.filter((size) => size > 0).length >= 2, String(sizes));
      const stages = made.told.map(({ stage }) => stage);
      assert.deepEqual([...new Set(stages)], ["vocabulary", "tokens", "examples"]);
      for (const { stage, done, total } of made.told) {
        assert.ok(done > 0 && done <= total, `${done} of ${total}`);
        if (stage !== "examples") assert.equal(total, made.size);
      }
      assert.deepEqual(messages, []);
    }));

  test(`${browser} trains on what is in its storage, and ends when it is told to while it reads`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      await page.evaluate(prepare);
      const seen = await page.evaluate(async (options) => {
        const { createPretrainingData, getDistributionStrategy, runBertPretrain } = await api;
        const strategy = await getDistributionStrategy();
        const losses = [];
        const run = runBertPretrain(strategy, { ...options, steps: 100, learningRate: 1e-2 });
        for await (const event of run) if (event.kind === "progress") losses.push(event.loss);
        await run.finished;
        await emptied();

        // More than it reads before it hears of its end.
        const long = new Blob([(await new Response((await corpus()).stream().pipeThrough(new DecompressionStream("gzip"))).text()).repeat(40)]);
        const stopped = runBertPretrain(strategy, { ...options, text: long });
        const kinds = [];
        let stages = [];
        try {
          for await (const event of stopped) {
            kinds.push(event.kind);
            stages.push(event.stage);
            stopped.stop();
          }
        } catch (error) {
          kinds.push(error.name, error.message);
        }
        // While examples are made in memory, six million tokens of them.
        const making = [];
        const inMemory = runBertPretrain(strategy, { ...options, dupeFactor: 15, maxTokensInMemory: undefined });
        try {
          for await (const event of inMemory) {
            if (event.stage !== "examples") continue;
            making.push(event.done / event.total);
            inMemory.stop();
          }
        } catch (error) {
          making.push(error.name);
        }
        const controller = new AbortController();
        const aborted = await createPretrainingData(long, {
          vocabulary: "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe",
          signal: controller.signal,
          onProgress: () => controller.abort(new Error("changed my mind")),
        }).catch(({ message }) => message);
        await emptied();
        return { losses, kinds, stages, making, aborted };
      }, { vocabSize: 300, config: { hiddenSize: 16, numHiddenLayers: 1, numAttentionHeads: 2, intermediateSize: 32, maxPositionEmbeddings: 32 }, batchSize: 8, maxSeqLength: 32, dupeFactor: 1, maxTokensInMemory: 1000 });
      assert.ok(seen.losses.at(-1) < seen.losses[0] - 0.5, String(seen.losses));
      assert.equal(seen.kinds.at(-2), "AbortError");
      assert.match(seen.kinds.at(-1), /while the text was read/);
      assert.deepEqual([...new Set(seen.kinds.slice(0, -2))], ["reading"]);
      // It was still counting words.
      assert.deepEqual([...new Set(seen.stages)], ["vocabulary"]);
      assert.equal(seen.making.at(-1), "AbortError");
      assert.ok(seen.making.at(-2) < 0.9, String(seen.making));
      assert.equal(seen.aborted, "changed my mind");
      assert.deepEqual(messages, []);
    }));
}

/** Megabytes of wasm memory: more than text by parts takes, and less than its examples in memory do. */
const MEMORY = 48;

test("the memory of wasm stays small, whatever the text", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: false, wasmPages: MEMORY * 16 }) }, async (page) => {
    await page.evaluate(prepare);
    const [stored, held] = await page.evaluate(async () => {
      const { createPretrainingData, trainVocabulary } = await api;
      // 8 MB, unpacked.
      const text = Array(10).fill(await corpus());
      const vocabulary = await trainVocabulary(text, { vocabSize: 600 });
      const make = async (maxTokensInMemory) => {
        const data = await createPretrainingData(text, { vocabulary, maxSeqLength: 64, dupeFactor: 5, maxTokensInMemory });
        data.close();
        return data.report.instances;
      };
      return [await make(1000), await make(2 ** 30).catch(({ message }) => message)];
    });
    assert.ok(stored > 100_000, String(stored));
    assert.match(String(held), /ran out of memory/);
  }));

test("without a private file system, examples are in memory up to a limit", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: false }), workerPrelude: "navigator.storage.getDirectory = undefined;" }, async (page) => {
    await page.evaluate(prepare);
    const [little, much] = await page.evaluate(async (options) => {
      const { createPretrainingData, trainVocabulary } = await api;
      const text = await corpus();
      const vocabulary = await trainVocabulary(text, { vocabSize: 600 });
      const make = async (more) => {
        const data = await createPretrainingData(text, { vocabulary, ...options, ...more });
        const [bytes, examples] = [(await data.toTFRecord()).size, await data.examples(2)];
        data.close();
        return [bytes, examples.length];
      };
      return [await make({}), await make({ dupeFactor: 2000 }).catch(({ name, message }) => `${name}: ${message}`)];
    }, OPTIONS);
    assert.ok(little[0] > 1e6 && little[1] === 2, String(little));
    assert.match(much, /^OptionError: dupeFactor: 2000, .* more than 0\.5 GB, which 256 MiB of memory \(there is no private file system here: .*Node\) does not have$/);
  }));

test("a file that changed since it was chosen is named", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: false }) }, async (page) => {
    const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-changed-"));
    try {
      const path = join(folder, "changed.txt");
      writeFileSync(path, "one sentence.\nanother.\n\na document.\n".repeat(100));
      await page.evaluate(prepare);
      await page.evaluate(() => document.body.append(Object.assign(document.createElement("input"), { type: "file" })));
      await page.setInputFiles("input", path);
      const read = () => page.evaluate(async () => (await api).trainVocabulary(document.querySelector("input").files[0], { vocabSize: 80 }).catch(({ name, message }) => `${name}: ${message}`));
      assert.match(await read(), /^\[PAD\]\n/);
      appendFileSync(path, "more.\n");
      assert.match(await read(), /^TextError: changed\.txt: the file could not be read: .+ Choose it again$/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }));
