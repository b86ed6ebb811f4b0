// What the package makes of a text, in real browsers: a vocabulary, examples, and those that a run learns from.
import assert from "node:assert/strict";
import test from "node:test";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { withPage } from "./page.mjs";

const TIMEOUT = 300_000;

/** Three documents of ten sentences. */
const TEXT = Array.from({ length: 30 }, (_, i) => {
  const [who, verb, where] = [["cat", "dog", "bird", "king"], ["sat", "slept", "sang"], ["mat", "hill", "tree", "wall", "boat"]];
  const line = `the ${who[i % 4]} ${verb[i % 3]} on the ${where[i % 5]}.`;
  return i % 10 === 9 ? `${line}\n` : line;
}).join("\n");

const OPTIONS = { maxSeqLength: 32, maxPredictionsPerSeq: 5, dupeFactor: 2, seed: 7 };
const CONFIG = { hiddenSize: 16, numHiddenLayers: 1, numAttentionHeads: 2, intermediateSize: 32, maxPositionEmbeddings: 32 };

for (const [browser, launch] of [
  ["Chromium", () => launchChromium({ webgpu: true })],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  test(`${browser} makes a vocabulary and examples`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      const made = await page.evaluate(async ({ text, options }) => {
        const { createPretrainingData, trainVocabulary } = await import("/dist/index.js");
        const vocabulary = await trainVocabulary(text, { vocabSize: 80 });
        const cased = await trainVocabulary(text.replaceAll("the", "The"), { vocabSize: 80, doLowerCase: false });
        const fromFiles = await trainVocabulary([new Blob([text.slice(0, 300)]), new File([text.slice(300)], "b.txt")], { vocabSize: 80 });
        const data = await createPretrainingData(text, { vocabulary, ...options });
        const { report } = data;
        const examples = await data.examples(3);
        const all = await data.examples(100_000);
        const records = await data.toTFRecord();
        const base64 = btoa(Array.from(new Uint8Array(await records.arrayBuffer()), (byte) => String.fromCharCode(byte)).join(""));
        data.close();
        const closed = await data.examples(1).catch((error) => error.message);
        // One document is enough where no next sentence is learned.
        const single = await createPretrainingData("one document.\nonly one.", { vocabulary, ...options, useNextSentenceLabel: false });
        const bundled = (await trainVocabulary(undefined, { vocabSize: 300 })).split("\n").length;
        return { vocabulary, cased, fromFiles, report, examples, all: all.length, base64, closed, single: single.report, bundled };
      }, { text: TEXT, options: OPTIONS });

      const entries = made.vocabulary.trimEnd().split("\n");
      assert.deepEqual(entries.slice(0, 5), ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]);
      assert.ok(entries.length > 20 && entries.length <= 80 && entries.includes("the"));
      assert.ok(made.cased.includes("\nThe\n") && made.fromFiles.includes("\nthe\n"));
      assert.equal(made.bundled, 301);

      const { documents, sentences, tokens, unknownShare, instances, randomNextShare, vocabSize, warnings } = made.report;
      assert.deepEqual([documents, sentences, unknownShare, vocabSize, warnings], [3, 30, 0, entries.length, []]);
      assert.ok(tokens > 200 && instances > 10 && randomNextShare > 0 && randomNextShare < 1);
      assert.deepEqual([made.single.documents, made.single.sentences], [1, 2]);

      assert.deepEqual([made.examples.length, made.all], [3, instances]);
      for (const { tokens } of made.examples) {
        const words = tokens.map(({ token }) => token);
        assert.ok(words.length <= 32 && words[0] === "[CLS]" && words.at(-1) === "[SEP]" && words.includes("the"), words.join(" "));
        // The true tokens are told, not what the model sees.
        assert.ok(!words.includes("[MASK]") && !words.includes("[PAD]"));
        const hidden = tokens.filter(({ hidden }) => hidden);
        assert.ok(hidden.length >= 1 && hidden.length <= 5);
        for (const token of tokens) assert.deepEqual(Object.keys(token).sort(), ["hidden", "token"]);
      }

      // A record: its length in 8 bytes, 4 of checksum, itself, 4 of checksum.
      const records = Buffer.from(made.base64, "base64");
      let count = 0;
      for (let at = 0; at < records.length; at += 16 + Number(records.readBigUInt64LE(at))) count++;
      assert.equal(count, instances);
      assert.ok(records.includes("masked_lm_positions"));
      assert.match(made.closed, /were closed/);
      assert.deepEqual(messages, []);
    }));

  test(`${browser} shows the examples that a run learns from`, { timeout: TIMEOUT }, (t) =>
    withPage({ launch }, async (page) => {
      const seen = await page.evaluate(async (options) => {
        const { createPretrainingData, getDistributionStrategy, runBertPretrain, trainVocabulary } = await import("/dist/index.js");
        const { text, maxSeqLength, maxPredictionsPerSeq, dupeFactor, seed } = options;
        const vocabulary = await trainVocabulary(text, { vocabSize: 80 });
        const data = await createPretrainingData(text, { vocabulary, maxSeqLength, maxPredictionsPerSeq, dupeFactor, seed });
        const all = await data.examples(100_000);
        const strategy = await getDistributionStrategy();
        const run = runBertPretrain(strategy, { ...options, vocabulary });
        run.pause();
        const first = await run.examples(2);
        const again = await run.examples(2);
        const batch = await run.examples(1000);
        run.resume();
        let last;
        for await (const event of run) {
          if (event.kind !== "progress" || event.step < 150 || last) continue;
          run.pause();
          last = await run.examples(1000);
          run.stop();
        }
        const over = await run.examples(2);
        const refused = await Promise.all([0, -1, 1.5, "two", undefined].map((count) => run.examples(count).catch(({ field }) => field)));
        const counts = await Promise.all([0, "two"].map((count) => data.examples(count).catch(({ field }) => field)));
        const failed = runBertPretrain(strategy, { ...options, steps: 0 });
        const failure = await failed.examples(1).catch(({ name }) => name);
        await failed.finished.catch(() => {});
        return { all, first, again, batch, last, over, refused, counts, failure };
      }, { text: TEXT, config: CONFIG, steps: 100_000, warmupSteps: 10, batchSize: 8, learningRate: 1e-2, ...OPTIONS });

      const words = ({ tokens }) => tokens.map(({ token, hidden }) => (hidden ? `(${token})` : token)).join(" ");
      const known = new Set(seen.all.map(words));
      assert.deepEqual([seen.first.length, seen.batch.length, seen.last.length], [2, 8, 8]);
      for (const example of [...seen.first, ...seen.batch, ...seen.last]) {
        assert.ok(known.has(words(example)), words(example));
        for (const { hidden, guess } of example.tokens) assert.equal(typeof guess, hidden ? "string" : "undefined");
      }
      assert.deepEqual(seen.again, seen.first);
      assert.deepEqual(seen.batch.slice(0, 2), seen.first);
      const right = (examples) => {
        const hidden = examples.flatMap(({ tokens }) => tokens.filter(({ hidden }) => hidden));
        return hidden.filter(({ token, guess }) => token === guess).length / hidden.length;
      };
      // A model that knows nothing is hardly ever right.
      t.diagnostic(`${right(seen.batch).toFixed(2)} of the guesses were right before training, ${right(seen.last).toFixed(2)} after`);
      assert.ok(right(seen.batch) < 0.2 && right(seen.last) > 0.3);
      assert.deepEqual(seen.over, []);
      assert.deepEqual(seen.refused, Array(5).fill("count"));
      assert.deepEqual(seen.counts, ["count", "count"]);
      assert.equal(seen.failure, "OptionError");
    }));
}

test("Chromium refuses what no examples can be made of, and gives up", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: true }) }, async (page, messages) => {
    const refusals = await page.evaluate(async ({ text, options }) => {
      const api = await import("/dist/index.js");
      const refusal = (promise) =>
        promise.then(() => "nothing", (error) => [error.name, error.field ?? null, error.message, error instanceof api.OptionError]);
      const vocabulary = await api.trainVocabulary(text, { vocabSize: 80 });
      const results = [];
      for (const [text_, wrong] of [
        [text, { vocabSize: 0 }], [text, { vocabSize: 6 }], [text, { doLowerCase: 1 }], [text, { vocabsize: 80 }], [text, { signal: "now" }],
        [5, {}], [[], {}], ["", {}], [" \n", {}],
      ]) {
        results.push([Object.keys(wrong)[0] ?? "text", await refusal(api.trainVocabulary(text_, wrong))]);
      }
      for (const [text_, wrong] of [
        [text, { vocabulary: undefined }], [text, { vocabulary: "[PAD]\n[UNK]" }], [text, { vocabulary: "" }], [text, { vocabulary: 7 }],
        [text, { vocabulary: `${vocabulary}the\n` }], [text, { maxSeqLength: 4 }], [text, { maskedLmProb: 2 }], [text, { firstSegmentTokens: [9, 3] }],
        [text, { batchSize: 8 }], [text, { seed: -1 }], [text, { signal: {} }], [{}, {}], ["one document.\nonly one.", {}],
      ]) {
        results.push([Object.keys(wrong)[0] ?? "text", await refusal(api.createPretrainingData(text_, { vocabulary, ...options, ...wrong }))]);
      }
      const without = await refusal(api.createPretrainingData(text));
      const controller = new AbortController();
      const { signal } = controller;
      const given = [api.trainVocabulary(undefined, { signal }), api.createPretrainingData(undefined, { vocabulary, signal })];
      controller.abort(new Error("changed my mind"));
      const aborted = await Promise.all(given.map(refusal));
      const late = await refusal(api.trainVocabulary(text, { signal }));
      return { results, without, aborted: [...aborted, late] };
    }, { text: TEXT, options: OPTIONS });
    for (const [field, [name, named, message, isOptionError]] of refusals.results) {
      if (name === "TextError") continue;
      assert.deepEqual([name, named.split(/[.[]/)[0], isOptionError], ["OptionError", field, true], message);
      assert.ok(message.startsWith(named), message);
    }
    const texts = refusals.results.filter(([, [name]]) => name === "TextError").map(([, [, , message]]) => message);
    assert.equal(texts.length, 3, texts.join());
    for (const [i, words] of [/empty/, /no token/, /single document.*\(useNextSentenceLabel: false\)/].entries()) assert.match(texts[i], words);
    assert.deepEqual(refusals.without.slice(0, 2), ["OptionError", "options"]);
    for (const [, , message] of refusals.aborted) assert.equal(message, "changed my mind");
    assert.deepEqual(messages, []);
  }));

test("the bundled corpus is fetched only when it is used, and missed in words", { timeout: TIMEOUT }, () =>
  withPage({ launch: () => launchChromium({ webgpu: false }), missing: ["/dist/kjv-pentateuch.txt.gz"] }, async (page) => {
    const [small, error] = await page.evaluate(async (text) => {
      const { trainVocabulary } = await import("/dist/index.js");
      return [(await trainVocabulary(text, { vocabSize: 80 })).length, await trainVocabulary().catch(({ name, message }) => `${name}: ${message}`)];
    }, TEXT);
    assert.ok(small > 0);
    assert.match(error, /^TextError: the bundled corpus could not be fetched from http.*\/dist\/kjv-pentateuch\.txt\.gz: the server answered 404$/);
  }));
