// `npm run bench:web` with a model so small that it says nothing of speed: the line of JSON that it ends with.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import test from "node:test";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("../../benches/web.mjs", import.meta.url));

function bench(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, ...args], { encoding: "utf8" });
  return { status, stderr, report: status === 0 && JSON.parse(stdout.trim().split("\n").at(-1)) };
}

test("Chromium: a step next to jax-js's and to Firefox's is told as JSON", { timeout: 300_000 }, () => {
  const model = ["--config", "nano", "--vocab_size", "50", "--steps", "1"];
  const { stderr, report } = bench(...model, "--peers", "jax-js", "--browsers", "chromium,firefox", "--json");
  assert.ok(report, stderr);
  const { browser, config, vocab_size, step_ms, min_step_ms, losses, peers, browsers } = report;
  assert.deepEqual([browser, config, vocab_size, losses.length], ["chromium", "nano", 50, 3]);
  assert.ok(step_ms > 0 && min_step_ms === step_ms, `${step_ms}, ${min_step_ms}`);
  const { firefox } = browsers;
  assert.deepEqual([firefox.ratio, firefox.losses.length], [firefox.step_ms / step_ms, 3]);
  const jax = peers["jax-js"];
  assert.equal(jax.ratio, jax.step_ms / step_ms);
  // That they agree is for the script to see; that a random model of 50 words begins so, for us.
  assert.ok(Math.abs(jax.losses[0] - Math.log(50) - Math.log(2)) < 0.3, `${jax.losses}`);
});

test("bench:web tells what it cannot take", () => {
  for (const [args, part] of [[["--config", "huge"], "nano"], [["--peers", "numpy"], "jax-js"], [["--browsers", "firefox,lynx"], "chromium"], [["--steps", "0"], "--steps"]]) {
    const { status, stderr } = bench(...args);
    assert.equal(status, 2, stderr);
    assert.ok(stderr.includes(part), stderr);
  }
});
