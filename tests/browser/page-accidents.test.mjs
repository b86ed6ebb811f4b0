// The page when something goes wrong, for real: each accident is told in words, and the run goes on or says how to.
import assert from "node:assert/strict";
import test from "node:test";
import { ENDLESS, dropFile, happen, logged, makeText, readStep, saveNow, setOptions, setVisibility, start, until, violations, waitForDevice, withPage } from "./page-driver.mjs";

const TIMEOUT = 900_000;

const goesOn = async (page) => {
  const step = await readStep(page);
  await until(`a step after ${step}`, () => readStep(page), (now) => now > step);
};

test("hidden, without a device, without room, and beyond all numbers", { timeout: TIMEOUT }, () =>
  withPage({}, async (page) => {
    const trouble = page.locator("#trouble");
    await start(page, ENDLESS);
    await until("the first steps", () => readStep(page), (step) => step > 0);

    // A hidden tab saves and goes on.
    await setVisibility(page, "hidden");
    await page.locator("#saved .name", { hasText: "verses-nano" }).waitFor();
    await goesOn(page);
    await setVisibility(page, "visible");
    await logged(page, "The tab is seen again");

    // A lost device is replaced.
    await happen(page, "lose");
    await logged(page, "The device was lost. The run goes on by itself from step");
    await logged(page, "Goes on from step");
    await until("training", () => page.locator("#step-words").textContent(), (words) => words.startsWith("Step "));
    await goesOn(page);

    // So is one that is lost while the run is paused, at once; it stays paused.
    await page.locator("#pause").click();
    const goOn = page.locator("#pause", { hasText: "Go on from step" });
    await goOn.waitFor();
    await happen(page, "lose");
    await until("two recoveries", () => page.locator("#log li", { hasText: "Goes on from step" }).count(), (count) => count === 2);
    await goOn.click();
    await goesOn(page);

    // A full storage is a notice, until there is room again.
    await happen(page, "full");
    await setVisibility(page, "hidden");
    await page.locator("#trouble", { hasText: "not saved: the browser's storage is full" }).waitFor();
    await setVisibility(page, "visible");
    await goesOn(page);
    assert.deepEqual(await violations(page), []);
    await happen(page, "empty");
    const good = await saveNow(page);
    await until("no notice", () => trouble.textContent(), (words) => words === "");

    // Weights that are no numbers end the run; it goes back to the last snapshot with half the learning rate.
    await happen(page, "spoil");
    await page.locator("#trouble", { hasText: "no longer a number" }).waitFor();
    assert.deepEqual(await violations(page), []);
    assert.ok(await page.locator("#go-on").isHidden());
    await page.getByRole("button", { name: "Start again with half the learning rate" }).waitFor();
    const back = page.getByRole("button", { name: /^Go back to step [\d,]+ with half the learning rate$/ });
    const from = Number(/[\d,]+/.exec(await back.textContent())[0].replaceAll(",", ""));
    assert.ok(from >= good);
    await back.click();
    // Until then the page shows the step at which the run ended.
    await until("half the rate", () => page.locator("#option-learningRate").inputValue(), (rate) => rate === "0.0075");
    await until("no notice", () => trouble.textContent(), (words) => words === "");
    await logged(page, `Goes on from step ${from.toLocaleString("en")}`);
    await goesOn(page);

    // The run keeps that rate when it goes on later.
    await saveNow(page);
    await page.reload();
    await page.locator("#go-on").click();
    await goesOn(page);
    assert.equal(await page.locator("#option-learningRate").inputValue(), "0.0075");
  }));

test("a run that can be saved nowhere at first is saved once there is room", { timeout: TIMEOUT }, () =>
  withPage({}, async (page) => {
    await waitForDevice(page);
    await happen(page, "full");
    await start(page, ENDLESS);
    await page.locator("#trouble", { hasText: "storage is full" }).waitFor();
    await until("the first steps", () => readStep(page), (step) => step > 0);
    assert.equal(await page.locator("#saved .name").count(), 0);
    await happen(page, "empty");
    await saveNow(page);
    await page.locator("#saved .name", { hasText: "verses-nano" }).waitFor();
    await page.reload();
    await page.locator("#go-on").click();
    await goesOn(page);
  }));

test("a loss that is no number from the start on ends the run with a way on", { timeout: TIMEOUT }, () =>
  withPage({}, async (page) => {
    // A rate that no model bears: squares of such weights are more than a float can hold.
    await start(page, { warmupSteps: 0, learningRate: "1e30" });
    await page.locator("#trouble", { hasText: "A learning rate of 1e+30 is too high" }).waitFor();
    await page.getByRole("button", { name: "Start again with half the learning rate" }).click();
    await until("half of it", () => page.locator("#option-learningRate").inputValue(), (rate) => rate === "5e+29");
  }));

test("what does not fit says what would", { timeout: TIMEOUT }, () =>
  withPage({}, async (page) => {
    await waitForDevice(page);
    await page.locator("#memory-words", { hasText: /^Fits: [\d.]+ MB of the device's memory\.$/ }).waitFor();
    await page.locator("label", { hasText: "small" }).click();
    await setOptions(page, { maxSeqLength: 512, batchSize: 4096 });
    await page.locator("#memory-words", { hasText: "does not fit" }).waitFor();
    assert.match(await page.locator("#memory-why").textContent(), /bytes.*largest that fits is \d+\.$/);
    assert.deepEqual(await violations(page), []);
    await dropFile(page, "verses.txt", makeText());
    await page.locator("#start-hint", { hasText: "This does not fit." }).waitFor();
    const remedy = page.getByRole("button", { name: /^Take a batch of \d+$/ });
    const size = /\d+/.exec(await remedy.textContent())[0];
    await remedy.click();
    await page.locator("#memory-words", { hasText: "Fits:" }).waitFor();
    assert.equal(await page.locator("#option-batchSize").inputValue(), size);
    await page.locator("#start:enabled").waitFor();
  }));
