// `benches/native.mjs` with programs that tell invented times: who is run how, and what is made of what they tell.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("../../benches/native.mjs", import.meta.url));

/** Runs the script where `cargo` and the Python tell these times of a step, one a call, after a line that is no JSON. */
function bench(t, times, ...args) {
  const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-bench-"));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, list] of Object.entries(times)) {
    writeFileSync(join(folder, `${name}.times`), list.map((time) => `${time}\n`).join(""));
    const program = [
      "#!/bin/sh",
      `echo "${name} $*, $OMP_WAIT_POLICY" >> ${folder}/calls`,
      `cd ${folder} && time=$(head -n 1 ${name}.times) && test -n "$time" || exit 7`,
      `tail -n +2 ${name}.times > left && mv left ${name}.times`,
      `echo "{'not': JSON}"`,
      `echo "{\\"adapter\\": \\"none\\", \\"step_ms\\": $time, \\"min_step_ms\\": $((time - 1))}"`,
    ].join("\n");
    writeFileSync(join(folder, name), program, { mode: 0o755 });
  }
  const env = { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}`, PYTHON: join(folder, "python") };
  const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, ...args], { env, encoding: "utf8" });
  return { status, stdout, stderr, calls: () => readFileSync(join(folder, "calls"), "utf8").trim().split("\n") };
}

test("programs take turns, and medians are compared", (t) => {
  const times = { cargo: [30, 10, 20], python: [50, 60, 40] };
  const { stdout, stderr, calls } = bench(t, times, "--peers", "torch-default", "--vocab_size", "100", "--steps", "2", "--json");
  const lines = stdout.trim().split("\n");
  assert.equal(lines.length, 1, stderr);
  const { step_ms, min_step_ms, adapter, peers, load } = JSON.parse(lines[0]);
  assert.deepEqual([step_ms, min_step_ms, adapter, typeof load], [20, 9, "none", "number"]);
  assert.deepEqual(peers["torch-default"], { adapter: "none", step_ms: 50, min_step_ms: 39, ratio: 2.5 });
  assert.deepEqual(calls().map((call) => call.split(" ")[0]), ["cargo", "python", "cargo", "python", "cargo", "python"]);
  assert.match(calls()[0], /bench --model_size tiny --vocab_size 100 --steps 2 --json/);
  assert.match(calls()[1], /torch_step\.py tiny 100 2 default, PASSIVE$/);
});

test("a table tells the same", (t) => {
  const times = { cargo: [30, 10, 20], python: [50, 60, 40] };
  const { stdout, calls } = bench(t, times, "--peers", "torch-gathered", "--kernels", "texture");
  assert.match(calls()[0], /bench .* --json --kernels texture/);
  assert.doesNotMatch(calls()[1], /texture/);
  assert.match(stdout, /^none: tiny, vocabulary 8192; load /);
  assert.match(stdout, /^wgpu-bert +20 +9\.00 +1\.00$/m);
  assert.match(stdout, /^torch-gathered +50 +39 +2\.50$/m);
});

test("burn runs with its defaults, or without", (t) => {
  // Ours and both of burn's are asked of the same program, one after another.
  const { stdout, stderr, calls } = bench(t, { cargo: [1, 20, 30, 1, 20, 30, 1, 20, 30] }, "--peers", "burn,burn-tuned", "--json");
  assert.ok(stdout, stderr);
  const { peers } = JSON.parse(stdout);
  assert.deepEqual([peers.burn.ratio, peers["burn-tuned"].ratio], [20, 30]);
  assert.match(calls()[1], /run --release --locked --manifest-path \S*benches\/native\/burn\/Cargo\.toml --no-default-features -- tiny 8192 10/);
  assert.match(calls()[2], /burn\/Cargo\.toml -- tiny 8192 10/);
});

test("what cannot be measured is told", (t) => {
  const unknown = bench(t, {}, "--peers", "numpy");
  assert.ok(unknown.status !== 0 && /--peers must be some of .*torch-default.* but not numpy/.test(unknown.stderr), unknown.stderr);
  const failing = bench(t, { cargo: [1], python: [] }, "--peers", "torch-default");
  assert.ok(failing.status !== 0 && /exit code 7/.test(failing.stderr), failing.stderr);
});
