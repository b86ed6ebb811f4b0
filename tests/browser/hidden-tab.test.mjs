// A tab that is really hidden goes on training at full speed.
import assert from "node:assert/strict";
import test from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { launchSleepyChromium } from "./browsers.mjs";
import { withPage } from "./page.mjs";

/** How long a hidden tab is left alone, until the browser slows it down as far as it ever does. */
const GRACE = 8_000;
const INTERVAL = 2_000;
/** Other programs on this machine may spoil some. */
const ROUNDS = 10;

const TEXT = "the cat sat on the mat.\nthe dog sat on the hill.\n\nthe king sang.\nthe bird sang too.\n\n".repeat(20);
const OPTIONS = {
  text: TEXT,
  vocabSize: 80,
  config: { hiddenSize: 16, numHiddenLayers: 1, numAttentionHeads: 2, intermediateSize: 32, maxPositionEmbeddings: 16 },
  steps: 1_000_000,
  stepsPerLoop: 1,
  batchSize: 4,
  maxSeqLength: 16,
  maxPredictionsPerSeq: 2,
};

/** In the page: starts a run without end beside a chain of timers, which browsers do slow down. */
async function start(options) {
  const { getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
  const run = runBertPretrain(await getDistributionStrategy(), options);
  const counts = (globalThis.counts = { steps: 0, timers: 0 });
  await new Promise((resolve, reject) => {
    const count = async () => {
      for await (const { kind } of run) {
        if (kind !== "progress") continue;
        counts.steps++;
        resolve();
      }
    };
    count().catch(reject);
  });
  const tick = () => {
    counts.timers++;
    setTimeout(tick);
  };
  tick();
}

/** Steps and timers a second. */
async function measure(page, visibility) {
  const look = () => page.evaluate(() => ({ ...globalThis.counts, now: performance.now(), visibility: document.visibilityState }));
  const from = await look();
  await sleep(INTERVAL);
  const to = await look();
  assert.deepEqual([from.visibility, to.visibility], [visibility, visibility]);
  const rate = (count) => (1000 * (to[count] - from[count])) / (to.now - from.now);
  return { steps: rate("steps"), timers: rate("timers") };
}

test("a hidden tab trains as fast as a visible one", { timeout: 300_000 }, async (t) => {
  let browser;
  const launch = async () => (browser = await launchSleepyChromium());
  await withPage({ launch }, async (page) => {
    await page.evaluate(start, OPTIONS);
    const other = await browser.newPage();
    let isAsFast = false;
    for (let round = 0; round < ROUNDS && !isAsFast; round++) {
      await page.bringToFront();
      const visible = await measure(page, "visible");
      await other.bringToFront();
      await sleep(GRACE);
      const hidden = await measure(page, "hidden");
      const told = [visible, hidden].map(({ steps, timers }) => `${steps.toFixed(0)} steps/s, ${timers.toFixed(1)} timers/s`);
      t.diagnostic(`visible ${told[0]}; hidden ${told[1]}`);
      assert.ok(hidden.timers <= 2, "the browser does not slow this tab down, so there is nothing to see");
      isAsFast = hidden.steps >= visible.steps / 3;
    }
    assert.ok(isAsFast);
  });
});
