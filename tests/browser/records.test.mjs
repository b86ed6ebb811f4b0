// Records in real browsers: what the command line wrote is trained on as natively, by parts, and what is damaged is told.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { gzipSync } from "node:zlib";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { wgpuBert } from "./native.mjs";
import { withPage } from "./page.mjs";
import { OPTIONS, TEXT, nativeRun } from "./small-run.mjs";

const TIMEOUT = 300_000;
const { text: _text, vocabSize: _size, maxSeqLength: _s, maxPredictionsPerSeq: _m, ...OF_RECORDS } = OPTIONS;

/** Records of the command line, its run on them and its evaluation, once for all browsers. */
let native;
const nativeRecords = () =>
  (native ??= (async () => {
    const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-records-"));
    try {
      const path = (name) => join(folder, name);
      writeFileSync(path("text.txt"), TEXT);
      await wgpuBert("train-vocab", `--input_file=${path("text.txt")}`, "--vocab_size=80", `--output_file=${path("vocab.txt")}`);
      const make = async (name, seed) => {
        const flags = ["--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=3", `--random_seed=${seed}`];
        await wgpuBert("create-pretraining-data", `--input_file=${path("text.txt")}`, `--vocab_file=${path("vocab.txt")}`, `--output_file=${path(name)}`, ...flags);
        return readFileSync(path(name));
      };
      const [plain, second, heldOut] = [await make("a.tfrecord", 1), await make("b.tfrecord", 2), await make("held-out.tfrecord", 3)];
      const packed = gzipSync(second);
      writeFileSync(path("b.tfrecord.gz"), packed);
      const vocabulary = readFileSync(path("vocab.txt"), "utf8");
      const flags = [`--input_files=${path("a.tfrecord")},${path("b.tfrecord.gz")}`, `--vocab_file=${path("vocab.txt")}`, `--eval_files=${path("held-out.tfrecord")}`];
      const lines = await nativeRun(vocabulary.trim().split("\n").length, folder, ...flags, "--num_eval_per_epoch=4");
      const [evaluated] = await wgpuBert("evaluate", `--model=${path("model")}`, `--input_files=${path("b.tfrecord.gz")}`);
      const encoded = Object.entries({ plain, packed, heldOut }).map(([name, bytes]) => [name, bytes.toString("base64")]);
      return { vocabulary, lines, evaluated, files: Object.fromEntries(encoded) };
    } finally {
      rmSync(folder, { recursive: true });
    }
  })());

/** In the page: the package, and files of what is told in base64. */
function prepare() {
  globalThis.api = import("/dist/index.js");
  globalThis.bytesOf = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  globalThis.filesOf = ({ plain, packed, heldOut }) => ({
    training: [new File([bytesOf(plain)], "a.tfrecord"), new File([bytesOf(packed)], "b.tfrecord.gz")],
    heldOut: new File([bytesOf(heldOut)], "held-out.tfrecord"),
  });
  globalThis.refusal = (promise) => promise.then(() => "nothing", ({ name, field, message }) => ({ name, field, message }));
}

/** The largest difference of the numbers that both have. */
function difference(seen, expected) {
  const snakeCase = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  let worst = 0;
  for (const name of ["instances", "predictions", "loss", "lmExampleLoss", "perplexity", "maskedLmAccuracy", "nextSentenceLoss", "nextSentenceAccuracy"]) {
    if (seen[name] === undefined && expected[snakeCase(name)] === undefined) continue;
    const wrong = Math.abs(seen[name] - expected[snakeCase(name)]);
    worst = Number.isNaN(wrong) ? Infinity : Math.max(worst, name === "perplexity" ? wrong / seen[name] : wrong);
  }
  return worst;
}

for (const [browser, launch] of [
  ["Chromium", () => launchChromium({ webgpu: true })],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  test(`${browser} trains on records, and evaluates on them, as the command line does`, { timeout: TIMEOUT }, (t) =>
    withPage({ launch }, async (page, messages) => {
      await page.evaluate(prepare);
      const { vocabulary, lines, evaluated, files } = await nativeRecords();
      const seen = await page.evaluate(async ({ files, options }) => {
        const { getDistributionStrategy, runBertPretrain } = await api;
        const { training, heldOut } = filesOf(files);
        const run = runBertPretrain(await getDistributionStrategy(), { ...options, records: training, evaluation: { records: heldOut }, numEvalPerEpoch: 4 });
        const events = [];
        for await (const event of run) events.push(event);
        const { model } = await run.finished;
        const told = [];
        const evaluation = await model.evaluate({ records: training[1], onProgress: (progress) => told.push(progress.stage) });
        const aborted = await refusal(model.evaluate({ records: training[1], signal: AbortSignal.abort(new Error("never mind")) }));
        model.close();
        return { events, evaluation, told, aborted };
      }, { files, options: { ...OF_RECORDS, vocabulary } });

      const of = (kind) => seen.events.filter((event) => event.kind === kind);
      const ofNative = (kind) => lines.filter((line) => line.kind === kind);
      assert.deepEqual([...new Set(of("reading").map(({ stage }) => stage))], ["records"]);
      const [{ instances, skipped, warnings, maxSeqLength, maxPredictionsPerSeq, randomNextShare }, heldOut] = of("records");
      assert.deepEqual([skipped, warnings, maxSeqLength, maxPredictionsPerSeq], [0, [], 32, 5]);
      assert.ok(instances > heldOut.instances && randomNextShare > 0 && randomNextShare < 1);
      assert.deepEqual(of("records").map(({ purpose }) => purpose), ["training", "evaluation"]);
      const [progress, evaluations] = [of("progress"), of("evaluation")];
      assert.deepEqual(progress.map(({ step }) => step), ofNative("progress").map(({ step }) => step));
      assert.deepEqual(evaluations.map(({ step }) => step), [5, 10, 15, 20]);
      assert.equal(ofNative("evaluation").length, 4);
      const worst = [
        ...progress.map((event, i) => difference({ ...event, maskedLmAccuracy: undefined, nextSentenceAccuracy: undefined }, { loss: ofNative("progress")[i].loss, lm_example_loss: ofNative("progress")[i].lm_example_loss, next_sentence_loss: ofNative("progress")[i].next_sentence_loss })),
        ...evaluations.map((event, i) => difference(event, ofNative("evaluation")[i])),
        difference(seen.evaluation, evaluated),
      ];
      t.diagnostic(`numbers differ by ${Math.max(...worst).toExponential(1)} at most`);
      assert.ok(Math.max(...worst) < 5e-4, String(worst));
      assert.ok(progress.at(-1).loss < progress[0].loss);
      assert.ok(seen.told.includes("records") && seen.told.includes("evaluation"), String(seen.told));
      assert.equal(seen.aborted.message, "never mind");
      assert.deepEqual(messages, []);
    }));

  test(`${browser} tells which record is damaged, and leaves it out if asked to`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      await page.evaluate(prepare);
      const { vocabulary, files } = await nativeRecords();
      // The second record starts behind the first one's length, checksums and content.
      const second = 16 + Number(Buffer.from(files.plain, "base64").readBigUInt64LE(0));
      const seen = await page.evaluate(async ({ files, options, second }) => {
        const { getDistributionStrategy, runBertPretrain } = await api;
        const strategy = await getDistributionStrategy();
        const { training: [whole, packed] } = filesOf(files);
        const damaged = bytesOf(files.plain);
        damaged[second + 20] ^= 1;
        const train = (more) => runBertPretrain(strategy, { ...options, steps: 2, ...more });
        const records = [packed, new File([damaged], "damaged.tfrecord")];
        const skipping = train({ records, skipBadRecords: true });
        const told = [];
        for await (const event of skipping) if (event.kind === "records") told.push(event);
        // Another shape than that of the text's examples.
        const evaluated = [];
        for await (const event of train({ text: new File(["the cat sat.\nthe dog sang.\n\nthe king slept.\nthe bird sang.\n\n".repeat(4)], "a.txt"), maxSeqLength: 16, evaluation: { records: whole } })) {
          if (event.kind === "evaluation") evaluated.push(event.step);
        }
        const refusals = [
          await refusal(train({ records }).finished),
          await refusal(train({ records: new File([bytesOf(files.packed).slice(0, 300)], "cut.gz") }).finished),
          await refusal(train({ records: new File([], "empty.tfrecord") }).finished),
          await refusal(train({ text: whole, maxSeqLength: 32 }).finished),
          await refusal(train({ records: whole, vocabulary: "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n" }).finished),
        ];
        const fields = [];
        for (const wrong of [
          { records: [] }, { records: [whole, "text"] }, { records: "text" }, { records: whole, text: "both" }, { records: whole, vocabulary: undefined },
          { records: whole, maxSeqLength: 16 }, { records: whole, dupeFactor: 2 }, { records: whole, skipBadRecords: "yes" },
          { records: whole, evaluation: {} }, { records: whole, evaluation: whole }, { records: whole, evaluation: { records: [5] } },
          { records: whole, evaluation: { text: "a", more: 1 } }, { records: whole, numEvalPerEpoch: 2 }, { records: whole, evaluation: { records: whole }, numEvalPerEpoch: 3 },
        ]) fields.push((await refusal(train(wrong).finished)).field);
        return { told, evaluated, refusals, fields };
      }, { files, options: { ...OF_RECORDS, vocabulary }, second });
      const [{ skipped, warnings }] = seen.told;
      assert.deepEqual(seen.evaluated, [2]);
      assert.equal(skipped, 1);
      const bad = new RegExp(`damaged\\.tfrecord: record 2, which starts at byte ${second}: .*checksum`);
      assert.match(warnings[0], bad);
      const [damaged, cut, empty, text, vocabularyOfOthers] = seen.refusals;
      assert.equal(damaged.name, "RecordsError");
      assert.match(damaged.message, bad);
      assert.equal(cut.name, "RecordsError");
      assert.match(cut.message, /^cut\.gz: damaged gzip file/);
      assert.match(empty.message, /^empty\.tfrecord: the file holds no records/);
      assert.match(text.message, /^a\.tfrecord: this is a TFRecord file .* give it as `records`$/);
      assert.match(vocabularyOfOthers.message, /a\.tfrecord, record \d+ \(from 0\): .* must be below 6/);
      assert.deepEqual(seen.fields, [
        "records", "records[1]", "records", "records", "vocabulary", "maxSeqLength", "dupeFactor", "skipBadRecords",
        "evaluation", "evaluation", "evaluation.records[0]", "evaluation.more", "numEvalPerEpoch", "numEvalPerEpoch",
      ]);
      assert.deepEqual(messages, []);
    }));
}

test("a saved run keeps its records, and goes on with the same ones only", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: true }) }, async (page, messages) => {
    await page.evaluate(prepare);
    const { vocabulary, files } = await nativeRecords();
    const seen = await page.evaluate(async ({ files, options }) => {
      const { getDistributionStrategy, loadModel, runBertPretrain, savedRuns } = await api;
      const strategy = await getDistributionStrategy();
      const { training, heldOut } = filesOf(files);
      const given = { ...options, records: training, evaluation: { records: heldOut }, numEvalPerEpoch: 4 };
      const train = async (more, stopAt) => {
        const run = runBertPretrain(strategy, more);
        const events = [];
        for await (const event of run) {
          events.push(event);
          if (event.kind === "progress" && event.step === stopAt) run.stop();
        }
        const { model, best } = await run.finished;
        const evaluations = events.filter(({ kind }) => kind === "evaluation").map(({ step, loss }) => [step, loss]);
        const bytes = new Uint8Array(await (await model.exportHuggingFace()).arrayBuffer());
        return { evaluations, best, sum: String(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))), first: events.find(({ kind }) => kind === "started").step };
      };
      const whole = await train(given);
      const begun = await train({ ...given, checkpoint: "opfs:records" }, 7);
      const others = [
        await refusal(runBertPretrain(strategy, { ...given, records: training[0], checkpoint: "opfs:records" }).finished),
        await refusal(runBertPretrain(strategy, { ...given, evaluation: { records: training[0] }, checkpoint: "opfs:records" }).finished),
        await refusal(runBertPretrain(strategy, { ...given, evaluation: undefined, numEvalPerEpoch: undefined, checkpoint: "opfs:records" }).finished),
      ];
      // Nothing but its name: what it learns from is saved, too.
      const goneOn = await train({ checkpoint: "opfs:records" });
      const best = await (await loadModel("opfs:records/best")).evaluate({ records: heldOut });
      const [saved] = await savedRuns();
      const none = await refusal(loadModel("opfs:nothing/best"));
      // As when the page is gone before the first snapshot: after an evaluation, and before one.
      const folder = await (await (await navigator.storage.getDirectory()).getDirectoryHandle("wgpu-bert")).getDirectoryHandle("records");
      const forget = async (series) => {
        for (const slot of [`${series}0`, `${series}1`]) for (const end of ["json", "state"]) await folder.removeEntry(`${slot}.${end}`).catch(() => {});
      };
      await forget("");
      const [listed] = await savedRuns();
      const fromBest = await train({ checkpoint: "opfs:records" });
      await forget("");
      await forget("best-");
      const fromStart = await train({ checkpoint: "opfs:records" });
      return { whole, begun, goneOn, others, best, saved: saved.best, none, listed: listed?.step, fromBest, fromStart };
    }, { files, options: { ...OF_RECORDS, vocabulary, steps: 20 } });
    const { whole, begun, goneOn, others, best } = seen;
    assert.ok(begun.first === 0 && goneOn.first >= 7 && goneOn.first < 20, String([begun.first, goneOn.first]));
    assert.ok(goneOn.sum === whole.sum, "the model is another one");
    assert.equal(whole.best, undefined);
    assert.deepEqual([...begun.evaluations, ...goneOn.evaluations], whole.evaluations);
    const lowest = whole.evaluations.reduce((a, b) => (b[1] < a[1] ? b : a));
    assert.deepEqual([goneOn.best.step, goneOn.best.loss], lowest);
    assert.deepEqual(seen.saved, goneOn.best);
    assert.ok(Math.abs(best.loss - lowest[1]) < 1e-5, `${best.loss} and ${lowest[1]}`);
    for (const [i, what] of ["records", "evaluationRecords", "evaluationRecords"].entries()) {
      assert.deepEqual([others[i].name, others[i].field], ["OptionError", "checkpoint"]);
      assert.match(others[i].message, new RegExp(`was saved with another ${what}`));
    }
    assert.equal(seen.none.name, "SavedRunError");
    assert.deepEqual([seen.listed, seen.fromBest.first, seen.fromStart.first], [lowest[0], lowest[0], 0]);
    assert.ok(seen.fromBest.sum === whole.sum && seen.fromStart.sum === whole.sum, "the model is another one");
    assert.deepEqual(messages, []);
  }));

/** Megabytes of wasm memory, and of records. */
const [MEMORY, RECORDS] = [112, 240];

test("a file of records is never in memory as a whole", { timeout: TIMEOUT }, (t) =>
  withPage({ launch: () => launchChromium({ webgpu: true, wasmPages: MEMORY * 16 }) }, async (page) => {
    await page.evaluate(prepare);
    const { vocabulary, files } = await nativeRecords();
    const seen = await page.evaluate(async ({ files, options, size }) => {
      const { getDistributionStrategy, runBertPretrain } = await api;
      // A file of the browser's, as a person's would be: one behind the other, records are records.
      const part = new Blob(Array(64).fill(bytesOf(files.plain)));
      const large = new File(Array(Math.ceil(size / part.size)).fill(part), "large.tfrecord");
      const packed = new File([await new Response(large.stream().pipeThrough(new CompressionStream("gzip"))).blob()], "large.tfrecord.gz");
      const instances = [];
      for (const records of [large, packed]) {
        const run = runBertPretrain(await getDistributionStrategy(), { ...options, steps: 3, records, evaluation: { records: [new File([bytesOf(files.heldOut)], "held-out")] } });
        for await (const event of run) if (event.kind === "records") instances.push(event.instances);
        await run.finished;
      }
      return { instances, size: large.size };
    }, { files, options: { ...OF_RECORDS, vocabulary }, size: RECORDS * 2 ** 20 });
    t.diagnostic(`${seen.instances[0]} records in ${seen.size} bytes`);
    assert.ok(seen.size > 2 * MEMORY * 2 ** 20);
    assert.equal(seen.instances[0], seen.instances[2]);
  }));
