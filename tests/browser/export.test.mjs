// An exported ONNX model in the programs it is for: onnxruntime, here in Node, and transformers.js in a browser, as both
// come from npm. They compute the golden logits, and those of the command line.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { InferenceSession, Tensor } from "onnxruntime-web";
import { serve } from "../../scripts/serve.mjs";
import { launchChromium } from "./browsers.mjs";
import { wgpuBert, wgpuBertReading } from "./native.mjs";
import { readSafetensors } from "./safetensors.mjs";

const GOLDEN = fileURLToPath(new URL("../data/golden", import.meta.url));
const TOLERANCE = 1e-4;
const TIMEOUT = 300_000;

/**
 * The golden case that a model is of, with the file of its configuration and of the numbers expected, or with another
 * activation. On the `devices` of transformers.js it is compared with the command line.
 */
const MODELS = [
  { name: "tiny-gelu", golden: "tiny", expected: "expected.safetensors", devices: ["wasm", "webgpu"] },
  { name: "tiny-gelu_new", golden: "tiny", config: "config_gelu_new.json", expected: "expected_gelu_new.safetensors", devices: ["wasm"] },
  { name: "odd-gelu", golden: "odd", expected: "expected.safetensors" },
  { name: "prime-gelu_new", golden: "prime", config: "config_gelu_new.json", expected: "expected_gelu_new.safetensors" },
  { name: "prime-relu", golden: "prime", activation: "relu", devices: ["wasm"] },
  { name: "prime-silu", golden: "prime", activation: "silu", devices: ["wasm"] },
];
const SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
/** Of different lengths; each has one word to guess. */
const TEXTS = ["[MASK]", "w7 w8 [MASK] w9, w10", `${"w11 w12 w13 ".repeat(4)}[MASK] w14`];

const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-export-"));
/** A folder as a site has it: the programs, and beside them the exported models. */
const site = join(folder, "site");
const source = (name) => join(folder, name);
const exported = (name) => join(site, "models", name);

before(async () => {
  mkdirSync(site);
  for (const { name, golden, config = "config.json", activation } of MODELS) {
    mkdirSync(source(name));
    cpSync(join(GOLDEN, golden, "model.safetensors"), join(source(name), "model.safetensors"));
    const settings = JSON.parse(readFileSync(join(GOLDEN, golden, config), "utf8"));
    if (activation) settings.hidden_act = activation;
    writeFileSync(join(source(name), "config.json"), JSON.stringify(settings));
    const words = Array.from({ length: settings.vocab_size - SPECIAL.length }, (_, i) => `w${i + SPECIAL.length}`);
    writeFileSync(join(source(name), "vocab.txt"), [...SPECIAL, ...words].join("\n"));
    await wgpuBert("export", `--model=${source(name)}`, "--format=onnx", `--output_dir=${exported(name)}`);
  }
});
after(() => rmSync(folder, { recursive: true }));

/** The rows of a matrix. */
const rows = (data, width) => Array.from({ length: data.length / width }, (_, i) => [...data.slice(i * width, (i + 1) * width)]);

/** Takes the largest difference of two lists of numbers, and wants it small. */
function assertClose(found, expected, what) {
  assert.equal(found.length, expected.length, what);
  const worst = Math.max(...found.map((value, i) => Math.abs(value - expected[i])));
  assert.ok(worst < TOLERANCE, `${what}: off by ${worst}`);
  return worst;
}

/** Logits but for what is the same in all of them: what `fill-mask` tells the probabilities of. */
function logProbabilities(logits) {
  const most = Math.max(...logits);
  const sum = most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
  return logits.map((logit) => logit - sum);
}

/** For each of the texts, what the command line computes for every word in the place of the mask, by the word's id. */
async function ours(name, texts) {
  const words = readFileSync(join(source(name), "vocab.txt"), "utf8").split("\n");
  const answers = await wgpuBertReading(texts.join("\n"), "fill-mask", `--model=${source(name)}`, `--top_k=${words.length}`);
  return answers.map(({ masks: [guesses] }) => {
    const byWord = new Map(guesses.map(({ token, probability }) => [token, Math.log(probability)]));
    return words.map((word) => byWord.get(word));
  });
}

for (const { name, golden, expected } of MODELS.filter(({ expected }) => expected)) {
  test(`onnxruntime has the golden logits of ${name}`, { timeout: TIMEOUT }, async (t) => {
    const session = await InferenceSession.create(join(exported(name), "onnx/model.onnx"));
    const batch = readSafetensors(join(GOLDEN, golden, "batch.safetensors"));
    const { mlm_logits } = readSafetensors(join(GOLDEN, golden, expected));
    const [sequences, length] = batch.input_word_ids.shape;
    const [, predictions, vocabulary] = mlm_logits.shape;
    const wanted = rows(mlm_logits.data, vocabulary);
    let worst = 0;
    // Some of the sequences, as far as `width`.
    const compare = async (from, to, width) => {
      const input = ({ data }) => {
        const values = rows(data, length).slice(from, to).flatMap((row) => row.slice(0, width));
        return new Tensor("int64", BigInt64Array.from(values, BigInt), [to - from, width]);
      };
      const { input_word_ids, input_mask, input_type_ids, masked_lm_positions } = batch;
      const feeds = { input_ids: input(input_word_ids), attention_mask: input(input_mask), token_type_ids: input(input_type_ids) };
      const { logits } = await session.run(feeds);
      assert.deepEqual(logits.dims, [to - from, width, vocabulary]);
      const found = rows(logits.data, vocabulary);
      for (let i = from * predictions; i < to * predictions; i++) {
        const row = Math.floor(i / predictions) - from;
        const logits = found[row * width + masked_lm_positions.data[i]];
        worst = Math.max(worst, assertClose(logits, wanted[i], `prediction ${i} of sequences ${from} to ${to}`));
      }
    };
    await compare(0, sequences, length);
    await compare(1, 3, length);
    // Each alone without its padding, so each of another length.
    for (const [n, mask] of rows(batch.input_mask.data, length).entries()) {
      await compare(n, n + 1, mask.filter((live) => live === 1).length);
    }
    t.diagnostic(`off by ${worst.toExponential(1)} at most`);
  });
}

/** In the page: the logits of each text alone and of all as a batch, and what the pipeline for masks makes of the second. */
async function transformersJs({ name, texts, device }) {
  const { AutoModelForMaskedLM, AutoTokenizer, env, pipeline } = await import("/transformers.js");
  [env.allowLocalModels, env.allowRemoteModels] = [true, false];
  env.localModelPath = "/models/";
  env.backends.onnx.wasm.wasmPaths = "/ort/";
  const tokenizer = await AutoTokenizer.from_pretrained(name);
  const model = await AutoModelForMaskedLM.from_pretrained(name, { device });
  const compute = async (texts) => {
    const inputs = await tokenizer(texts, { padding: true });
    const { logits } = await model(inputs);
    const [batch, length, vocabulary] = logits.dims;
    const ids = Array.from(inputs.input_ids.data, Number);
    return Array.from({ length: batch }, (_, row) => {
      const at = row * length + ids.slice(row * length, (row + 1) * length).indexOf(tokenizer.mask_token_id);
      return Array.from(logits.data.slice(at * vocabulary, (at + 1) * vocabulary));
    });
  };
  const alone = [];
  for (const text of texts) alone.push(...(await compute([text])));
  const fill = await pipeline("fill-mask", name, { device });
  return { alone, batch: await compute(texts), guesses: await fill(texts[1], { top_k: 3 }) };
}

test("transformers.js has the logits of the command line, without a network", { timeout: TIMEOUT }, async (t) => {
  const modules = fileURLToPath(new URL("../../node_modules", import.meta.url));
  symlinkSync(join(modules, "@huggingface/transformers/dist/transformers.min.js"), join(site, "transformers.js"));
  symlinkSync(join(modules, "onnxruntime-web/dist"), join(site, "ort"));
  writeFileSync(join(site, "index.html"), "<!doctype html><title>transformers.js</title>");
  // Nothing may come from elsewhere.
  const headers = { "content-security-policy": "default-src 'self' blob:; script-src 'self' blob: 'wasm-unsafe-eval'" };
  const server = await serve({ folder: site, headers });
  const browser = await launchChromium({ webgpu: true });
  try {
    const page = await browser.newPage();
    await page.goto(`http://localhost:${server.port}/`);
    for (const { name, devices } of MODELS.filter(({ devices }) => devices)) {
      const expected = await ours(name, TEXTS);
      for (const device of devices) {
        const found = await page.evaluate(transformersJs, { name, texts: TEXTS, device });
        const worst = [found.alone, found.batch].flatMap((logits) =>
          logits.map((row, i) => assertClose(logProbabilities(row), expected[i], `${name} on ${device}, ${TEXTS[i]}`)));
        t.diagnostic(`${name} on ${device}: off by ${Math.max(...worst).toExponential(1)} at most`);
        for (const { token, score } of found.guesses) {
          assert.ok(Math.abs(Math.log(score) - expected[1][token]) < TOLERANCE, `${name} on ${device}: ${token}`);
        }
        const best = expected[1].map((value, id) => [value, id]).sort(([a], [b]) => b - a);
        assert.deepEqual(found.guesses.map(({ token }) => token), best.slice(0, 3).map(([, id]) => id));
      }
    }
  } finally {
    await browser.close();
    server.close();
  }
});
