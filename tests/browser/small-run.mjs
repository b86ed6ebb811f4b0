// A run so small that every browser does it in seconds, and the same on the command line.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { wgpuBert } from "./native.mjs";

/** Thirty lines in three documents, as different as a few words allow. */
export const TEXT = Array.from({ length: 30 }, (_, i) => {
  const [who, verb, where] = [["cat", "dog", "bird", "king"], ["sat", "slept", "sang"], ["mat", "hill", "tree", "wall", "boat"]];
  const line = `the ${who[i % 4]} ${verb[i % 3]} on the ${where[i % 5]}.`;
  return i % 10 === 9 ? `${line}\n` : line;
}).join("\n");

const CONFIG = { hiddenSize: 16, numHiddenLayers: 1, numAttentionHeads: 2, intermediateSize: 32, maxPositionEmbeddings: 32 };
export const OPTIONS = {
  text: TEXT,
  vocabSize: 80,
  config: CONFIG,
  steps: 20,
  stepsPerLoop: 1,
  batchSize: 4,
  maxSeqLength: 32,
  maxPredictionsPerSeq: 5,
  learningRate: 1e-2,
  warmupSteps: 4,
  seed: 7,
};

/** What the same run on the command line tells, given the size of the vocabulary that the text makes. */
export async function nativeProgress(vocabSize, folder) {
  const text = join(folder, "text.txt");
  writeFileSync(text, TEXT);
  const lines = await nativeRun(vocabSize, folder, `--input_files=${text}`, "--max_seq_length=32", "--max_predictions_per_seq=5");
  return lines.filter(({ kind }) => kind === "progress");
}

/** The lines of that run on what `flags` say. */
export async function nativeRun(vocabSize, folder, ...flags) {
  const [config, model] = ["config.json", "model"].map((name) => join(folder, name));
  const snakeCase = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const sizes = Object.entries(CONFIG).map(([name, value]) => [snakeCase(name), value]);
  writeFileSync(config, JSON.stringify({ ...Object.fromEntries(sizes), vocab_size: vocabSize, type_vocab_size: 2 }));
  const ours = ["--train_batch_size=4", "--num_steps_per_epoch=20", "--num_train_epochs=1", "--steps_per_loop=1"];
  ours.push("--learning_rate=1e-2", "--warmup_steps=4", "--seed=7");
  return wgpuBert("pretrain", `--bert_config_file=${config}`, `--model_dir=${model}`, ...ours, ...flags);
}
