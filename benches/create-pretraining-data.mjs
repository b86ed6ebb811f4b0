// How fast text of any size becomes training data, and how much memory that takes:
//
//     node benches/create-pretraining-data.mjs [TEXT.gz]
//
// The text, by default the bundled one, is repeated to 41 MB and to ten times that; the vocabulary is trained from it, with
// up to 30,522 tokens. Prints tables for RESULTS.md. Needs GNU time, an adapter for the step of `pretrain`, and about 16 GB
// of room in the folder for temporary files.
import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeSync } from "node:fs";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TEXT = process.argv[2] ?? join(ROOT, "data/kjv-pentateuch.txt.gz");
const SIZES = [41e6, 410e6];

function run(command, ...args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${command} ${args[0]}: ${error?.message ?? stderr}`);
  return { stdout, stderr };
}

/** Runs the program; seconds of wall and processor time, and the most memory, in MiB. */
function measure(program, ...args) {
  const { stderr } = run("/usr/bin/time", "-v", program, ...args);
  const value = (name) => Number(new RegExp(`${name}: (\\S+)`).exec(stderr)[1]);
  const wall = /Elapsed .*: ([\d:.]+)/.exec(stderr)[1].split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
  return {
    wall,
    cpu: value("User time \\(seconds\\)") + value("System time \\(seconds\\)"),
    memory: value("Maximum resident set size \\(kbytes\\)") / 1024,
  };
}

const round = (number) => number.toFixed(number < 10 ? 2 : 0);

function row(name, megabytes, { wall, cpu, memory }) {
  const cells = [megabytes, wall, cpu, megabytes / wall, megabytes / cpu, memory].map(round);
  console.log(`| ${name} | ${cells.join(" | ")} |`);
}

run("cargo", "build", "--release", "--locked");
const target = JSON.parse(run("cargo", "metadata", "--format-version", "1", "--no-deps").stdout).target_directory;
const program = join(target, "release/wgpu-bert");
const folder = mkdtempSync(join(tmpdir(), "create-pretraining-data-"));
try {
  const once = gunzipSync(readFileSync(TEXT));
  const [text, vocabulary, output, model] = ["text.txt", "vocab.txt", "out.tfrecord", "model"].map((name) => join(folder, name));
  const memory = (totalmem() / 2 ** 30).toFixed(0);
  console.log(`${new Date().toISOString().slice(0, 10)}, ${cpus().length} cores (${cpus()[0].model}), ${memory} GiB.\n`);
  console.log("| command | MB of text | wall s | CPU s | MB/s | MB/CPU s | peak MiB |\n|---|---|---|---|---|---|---|");
  for (const size of SIZES) {
    const file = openSync(text, "w");
    for (let written = 0; written < size; written += once.length + 1) {
      writeSync(file, once);
      writeSync(file, "\n");
    }
    closeSync(file);
    const megabytes = statSync(text).size / 1e6;
    row("train-vocab", megabytes, measure(program, "train-vocab", "--input_file", text, "--output_file", vocabulary));
    const flags = ["--vocab_file", vocabulary, "--max_seq_length", "128", "--dupe_factor", "10"];
    const create = ["create-pretraining-data", "--input_file", text, "--output_file", output, ...flags];
    row("create-pretraining-data", megabytes, measure(program, ...create));
    rmSync(output);
    const steps = ["--num_steps_per_epoch", "1", "--num_train_epochs", "1", "--train_batch_size", "8"];
    const pretrain = ["pretrain", "--input_files", text, "--model_dir", model, ...flags, ...steps];
    row("pretrain, one step", megabytes, measure(program, ...pretrain));
    rmSync(model, { recursive: true });
  }
  console.log(`\nLoad when it ended: ${loadavg()[0].toFixed(1)}.`);
} finally {
  rmSync(folder, { recursive: true });
}
