// Evaluation on a text that is held out, in a real browser: the command line's numbers, also in what callbacks are told,
// and a model as good as without.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { launchChromium } from "./browsers.mjs";
import { wgpuBert } from "./native.mjs";
import { withPage } from "./page.mjs";
import { OPTIONS, TEXT, nativeRun } from "./small-run.mjs";

const TIMEOUT = 300_000;
const HELD_OUT = "the king sat on the hill.\nthe bird slept on the mat.\n\nthe dog sang on the tree.\nthe cat sat on the wall.\n\n".repeat(6);
/** Under the command line's names, with how far they may be apart. */
const NUMBERS = {
  instances: ["instances", 0],
  predictions: ["predictions", 0],
  loss: ["loss", 5e-4],
  lmExampleLoss: ["lm_example_loss", 5e-4],
  perplexity: ["perplexity", 5e-2],
  maskedLmAccuracy: ["masked_lm_accuracy", 1e-6],
  nextSentenceLoss: ["next_sentence_loss", 5e-4],
  nextSentenceAccuracy: ["next_sentence_accuracy", 1e-6],
};

function assertSame(seen, expected) {
  for (const [name, [native, tolerance]] of Object.entries(NUMBERS)) {
    assert.ok(Math.abs(seen[name] - expected[native]) <= tolerance, `${name}: ${seen[name]} and ${expected[native]}`);
  }
}

test("a run is evaluated as on the command line, in memory and in the browser's storage", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: true }) }, async (page, messages) => {
    const seen = await page.evaluate(async ({ options, heldOut }) => {
      const { getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
      const strategy = await getDistributionStrategy();
      const train = async (more) => {
        const [events, logs] = [[], []];
        const onBatchEnd = (step, { evaluation }) => void logs.push([step, evaluation]);
        const onEpochEnd = (epoch, { evaluation }) => void logs.push([epoch, evaluation]);
        const run = runBertPretrain(strategy, { ...options, stepsPerLoop: 4, stepsPerEpoch: 10, customCallbacks: [{ onBatchEnd, onEpochEnd }], ...more });
        for await (const event of run) events.push(event);
        const { model } = await run.finished;
        const bytes = new Uint8Array(await (await model.exportHuggingFace()).arrayBuffer());
        const sum = String(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
        return { events, logs, sum, model };
      };
      const evaluation = { text: [new File([heldOut], "held-out.txt")] };
      const { model: first, ...inMemory } = await train({ evaluation, numEvalPerEpoch: 2 });
      const { model: second, ...stored } = await train({ evaluation, numEvalPerEpoch: 2, maxTokensInMemory: 10 });
      const { model: third, ...without } = await train({});
      const alone = await first.evaluate({ text: heldOut, maxSeqLength: 32, maxPredictionsPerSeq: 5, seed: 7, batchSize: 3 });
      const spilled = await second.evaluate({ text: heldOut, maxSeqLength: 32, maxPredictionsPerSeq: 5, seed: 7, batchSize: 3, maxTokensInMemory: 10 });
      const refusals = [];
      for (const wrong of [{}, { text: "a", records: new Blob() }, { text: "a", batchSize: 0 }, { text: "a", bachSize: 1 }, { text: 5 }]) {
        refusals.push(await first.evaluate(wrong).then(() => "nothing", ({ name, field }) => `${name} ${field}`));
      }
      for (const model of [first, second, third]) model.close();
      return { inMemory, stored, without, alone, spilled, refusals };
    }, { options: OPTIONS, heldOut: HELD_OUT });

    const { inMemory, stored, without } = seen;
    const of = ({ events }, kind) => events.filter((event) => event.kind === kind);
    const evaluations = of(inMemory, "evaluation");
    assert.deepEqual(evaluations.map(({ step }) => step), [5, 10, 15, 20]);
    assert.ok(inMemory.sum === without.sum, "evaluation changes nothing");
    // The storage's examples are others, and the same every time.
    const last = of(stored, "evaluation").at(-1);
    assert.deepEqual([last.step, last.instances], [20, seen.spilled.instances]);
    assert.ok(Math.abs(last.loss - seen.spilled.loss) < 1e-5, `${last.loss} and ${seen.spilled.loss}`);
    const data = of(inMemory, "data");
    assert.deepEqual(data.map(({ purpose }) => purpose), ["training", "evaluation"]);
    assert.equal(data[1].instances, evaluations[0].instances);
    const evaluating = of(inMemory, "evaluating");
    assert.ok(evaluating.every(({ done, instances }) => done < instances) && evaluating[1].done === OPTIONS.batchSize);
    // The loops of an epoch of ten steps are 4, 1, 4 and 1; after the second and the last is an evaluation.
    const bare = evaluations.map(({ kind, step, ...evaluation }) => evaluation);
    assert.deepEqual(inMemory.logs, [
      [3, undefined], [4, bare[0]], [8, undefined], [9, bare[1]], [1, bare[1]],
      [13, undefined], [14, bare[2]], [18, undefined], [19, bare[3]], [2, bare[3]],
    ]);
    assert.ok(without.logs.every(([, evaluation]) => evaluation === undefined));
    assert.deepEqual(seen.refusals, ["OptionError options", "OptionError options", "OptionError batchSize", "OptionError bachSize", "OptionError text"]);

    const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-evaluation-"));
    try {
      const [text, heldOut] = ["text.txt", "held-out.txt"].map((name) => join(folder, name));
      writeFileSync(text, TEXT);
      writeFileSync(heldOut, HELD_OUT);
      const shape = ["--max_seq_length=32", "--max_predictions_per_seq=5"];
      const flags = [`--input_files=${text}`, `--eval_files=${heldOut}`, "--num_eval_per_epoch=4", ...shape];
      const lines = await nativeRun(data[0].vocabSize, folder, ...flags);
      const native = lines.filter(({ kind }) => kind === "evaluation");
      assert.deepEqual(native.map(({ step }) => step), [5, 10, 15, 20]);
      for (const [i, evaluation] of evaluations.entries()) assertSame(evaluation, native[i]);
      const [alone] = await wgpuBert("evaluate", `--model=${join(folder, "model")}`, `--input_files=${heldOut}`, "--seed=7", ...shape);
      assertSame(seen.alone, alone);
    } finally {
      rmSync(folder, { recursive: true });
    }
    assert.deepEqual(messages, []);
  }));
