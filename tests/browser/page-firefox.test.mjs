// The page in Firefox: under the same policy it loads, takes a text, trains, and guesses.
import assert from "node:assert/strict";
import test from "node:test";
import { serve } from "../../scripts/serve.mjs";
import { FIREFOX_WEBGPU, launchFirefox } from "./browsers.mjs";
import { ENDLESS, FOLDER, makeText, until } from "./page-driver.mjs";

const TIMEOUT = 900_000;

/** Opens the page in a new Firefox and calls `run(page)`. The console must stay empty, but for what is `expected`. */
async function withPage({ expected = /^$/, ...prefs }, run) {
  const browser = await launchFirefox({ prefs });
  const { port, close } = await serve({ at: FOLDER });
  try {
    const page = await browser.newPage();
    const messages = [];
    page.on("console", (message) => messages.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => messages.push(`uncaught: ${error.message}`));
    await page.goto(`http://localhost:${port}${FOLDER}`);
    await run(page);
    assert.deepEqual(messages.filter((message) => !expected.test(message)), []);
  } finally {
    await browser.close();
    close();
  }
}

const read = (page, selector) => page.$eval(selector, (element) => element.textContent);
const click = (page, selector) => page.$eval(selector, (element) => element.click());
const number = (text) => Number(text.replaceAll(",", ""));

test("Firefox: the page takes a text, trains, and guesses", { timeout: TIMEOUT }, (t) =>
  withPage(FIREFOX_WEBGPU, async (page) => {
    await click(page, "#paste");
    await page.$eval("#pasted", (area, text) => (area.value = text), makeText());
    await click(page, "#use-pasted");
    await until("the report", () => read(page, "#text-report"), (report) => report.includes("12 documents"));
    for (const [name, value] of Object.entries(ENDLESS)) {
      const change = (input, value) => {
        input.value = value;
        input.dispatchEvent(new Event("change"));
      };
      await page.$eval(`#option-${name}`, change, String(value));
    }
    await until("what to start", () => page.$eval("#start", ({ disabled }) => disabled), (disabled) => !disabled);
    await click(page, "#start");
    const first = await until("a loss", async () => number(await read(page, "#loss")), (loss) => loss > 0);
    const chance = number(/how frequent words are: ([\d.]+)\./.exec(await read(page, "#loss-words"))[1]);
    const later = await until("a loss far below chance", async () => number(await read(page, "#loss")), (loss) => loss < chance / 2, 600);
    t.diagnostic(`loss ${first}, then ${later}; word frequencies only: ${chance}`);
    await until("guesses", () => read(page, "#guesses"), (guesses) => /\d+\s%/.test(guesses));
    await until("what it reads", () => read(page, "#examples"), (examples) => examples.includes("israel"));
    await click(page, "#stop");
    await until("a model", () => page.$eval("#download", ({ disabled }) => disabled), (disabled) => !disabled);
    assert.match(await read(page, "#step-words"), /^Stopped at step [\d,]+ of 1,000,000$/);
  }));

test("Firefox without WebGPU: the page says why and what to do", { timeout: TIMEOUT }, () =>
  withPage({ expected: /Content-Security-Policy|example\.com/ }, async (page) => {
    await until("why", () => read(page, "#absent-message"), (message) => message !== "");
    assert.match(await read(page, "#absent-message"), /^Distribution strategy is not specified\. /);
    assert.match(await read(page, "#absent-advice"), /about:config/);
    assert.equal(await page.$eval("#learning-panel", ({ hidden }) => hidden), true);
    const violated = await page.evaluate(
      () =>
        new Promise((resolve) => {
          document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => resolve(effectiveDirective));
          fetch("https://example.com/").catch(() => {});
        }),
    );
    assert.equal(violated, "connect-src");
  }));
