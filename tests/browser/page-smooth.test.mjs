// The page stays smooth: it is there before the program is loaded, nothing jumps, and training never holds it up.
import assert from "node:assert/strict";
import test from "node:test";
import { ENDLESS, layoutShifts, readStep, setOptions, start, until, waitForDevice, withPage } from "./page-driver.mjs";

const TIMEOUT = 600_000;
/** The longest that a task of the page may take, in milliseconds. */
const LONGEST = 50;
const CATEGORIES = ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"];

/**
 * The milliseconds that each task of the page's main thread took of a processor. Time by the clock would count what
 * other programs took meanwhile.
 */
function mainThreadTasks({ traceEvents }) {
  const threads = traceEvents.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain").map(({ pid, tid }) => `${pid} ${tid}`);
  const tasks = traceEvents.filter(({ name, pid, tid }) => name === "RunTask" && threads.includes(`${pid} ${tid}`));
  // A task that the start or the end of the trace cuts off has no time.
  return tasks.filter(({ tdur }) => tdur !== undefined).map(({ tdur }) => tdur / 1000);
}

test("it is painted and can be used before the program is loaded", { timeout: TIMEOUT }, () => {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  const prepare = (context) => context.route("**/*.wasm", (route) => held.then(() => route.continue()));
  return withPage({ prepare }, async (page) => {
    await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length === 1);
    await page.locator("#theme").click();
    assert.ok(await page.evaluate(() => document.documentElement.dataset.theme === "dark"));
    await page.locator("label", { hasText: "mini" }).click();
    await setOptions(page, { steps: 77 });
    await page.locator("#paste").click();
    await page.locator("#pasted").fill("one sentence\nanother one\n\nand a third\n");
    await page.locator("#use-pasted").click();
    await page.locator("#text-report", { hasText: "Training a vocabulary" }).waitFor();
    assert.match(await page.locator("#device-report").textContent(), /Looking for a GPU/);
    release();
    await waitForDevice(page);
    await page.locator("#text-report", { hasText: "2 documents" }).waitFor();
    // What was chosen meanwhile stays.
    assert.equal(await page.locator("#option-steps").inputValue(), "77");
    assert.ok(await page.locator("input[value=mini]").isChecked());
  });
});

// Both kinds of columns, wide and narrow, beside each other and below each other.
for (const width of [1280, 900, 320]) {
  test(`nothing moves while it trains, ${width} px wide`, { timeout: TIMEOUT }, () =>
    // All of the page is in view, since only what is seen counts as moved.
    withPage({ width, height: 3500 }, async (page) => {
      await start(page, {});
      await page.locator("#guesses:not(:has(.vacant)) li").first().waitFor();
      await until("some steps", () => readStep(page), (step) => step > 50);
      assert.deepEqual(await page.evaluate(layoutShifts), []);
    }));
}

test("training never holds the page up", { timeout: TIMEOUT }, (t) =>
  withPage({}, async (page) => {
    const browser = page.context().browser();
    await waitForDevice(page);
    await browser.startTracing(page, { categories: CATEGORIES });
    await start(page, ENDLESS);
    await page.locator("#examples mark").first().waitFor();
    const begun = await until("the first steps", () => readStep(page), (step) => step > 0);
    await until("a hundred more", () => readStep(page), (step) => step > begun + 100);
    const tasks = mainThreadTasks(JSON.parse(await browser.stopTracing()));
    t.diagnostic(`${tasks.length} tasks, the longest ${Math.max(...tasks).toFixed(1)} ms`);
    assert.ok(tasks.length > 20);
    assert.ok(tasks.every((milliseconds) => milliseconds < LONGEST));
  }));
