// How long a training step takes natively, next to other programs on the same machine. They take turns, three times, so that
// whatever else the machine does meets all alike:
//
//     node benches/native.mjs [--model_size tiny] [--vocab_size 8192] [--steps 10] [--peers torch-gathered,burn]
//                             [--kernels texture] [--json]
//
// Ours and burn run on the adapter that `VK_DRIVER_FILES` leaves, PyTorch on the CPU. `burn-tuned` is burn with its defaults,
// `burn` without autotune and fusion. Shapes, dropout, losses, clipping and optimizer
// are alike, the numbers are not: that ours are right is for the tests to show. `--kernels` chooses ours. `PYTHON` names a
// Python with torch and transformers.
import { spawnSync } from "node:child_process";
import { loadavg } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const ROUNDS = 3;
const PEERS = {
  "torch-gathered": (...setup) => torch("gathered", setup),
  "torch-default": (...setup) => torch("default", setup),
  burn: (...setup) => burn(["--no-default-features"], setup),
  "burn-tuned": (...setup) => burn([], setup),
};

/** What a program prints last, as JSON. */
function run(command, args, env = {}) {
  const options = { cwd: ROOT, env: { ...process.env, ...env }, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] };
  const { status, stdout, error } = spawnSync(command, args, options);
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${error?.message ?? `exit code ${status}`}`);
  return JSON.parse(stdout.trim().split("\n").at(-1));
}

const torch = (head, setup) =>
  // Threads that spin while they wait make it 10 to 40 times slower where something else wants the cores.
  run(process.env.PYTHON ?? "python3", [join(ROOT, "benches/native/torch_step.py"), ...setup, head], { OMP_WAIT_POLICY: "PASSIVE" });

const burn = (features, setup) =>
  run("cargo", ["run", "--release", "--locked", "--manifest-path", join(ROOT, "benches/native/burn/Cargo.toml"), ...features, "--", ...setup]);

const text = (value) => ({ type: "string", default: value });
const { values } = parseArgs({
  options: {
    model_size: text("tiny"), vocab_size: text("8192"), steps: text("10"), peers: text(Object.keys(PEERS).join()),
    kernels: { type: "string" }, json: { type: "boolean", default: false },
  },
});
const { model_size, vocab_size, steps, kernels, json } = values;
const peers = values.peers.split(",");
const unknown = peers.find((peer) => !(peer in PEERS));
if (unknown) throw new Error(`--peers must be some of ${Object.keys(PEERS)}, but not ${unknown}`);

const flags = ["--model_size", model_size, "--vocab_size", vocab_size, "--steps", steps, "--json"];
if (kernels) flags.push("--kernels", kernels);
const programs = { ours: () => run("cargo", ["run", "--release", "--locked", "--", "bench", ...flags]) };
for (const peer of peers) programs[peer] = () => PEERS[peer](model_size, vocab_size, steps);
const results = Object.fromEntries(Object.keys(programs).map((name) => [name, []]));
for (let round = 0; round < ROUNDS; round++) for (const name in programs) results[name].push(programs[name]());

/** The round of the median step, with the shortest step of all. */
function median(rounds) {
  const sorted = [...rounds].sort((a, b) => a.step_ms - b.step_ms);
  return { ...sorted[Math.floor(sorted.length / 2)], min_step_ms: Math.min(...rounds.map((round) => round.min_step_ms)) };
}

const report = { ...median(results.ours), peers: {}, load: loadavg()[0] };
for (const peer of peers) {
  const result = median(results[peer]);
  report.peers[peer] = { ...result, ratio: result.step_ms / report.step_ms };
}
if (json) {
  console.log(JSON.stringify(report));
} else {
  const row = ([name, { step_ms, min_step_ms, ratio = 1 }]) =>
    `${name.padEnd(16)}${[step_ms, min_step_ms, ratio].map((number) => number.toFixed(number < 10 ? 2 : 0).padStart(10)).join("")}`;
  console.log(`${report.adapter}: ${model_size}, vocabulary ${vocab_size}; load ${report.load.toFixed(1)}`);
  console.log(`${"".padEnd(16)}${["step ms", "shortest", "ratio"].map((name) => name.padStart(10)).join("")}`);
  console.log([["wgpu-bert", report], ...Object.entries(report.peers)].map(row).join("\n"));
}
