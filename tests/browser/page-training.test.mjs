// The page trains: a person drops a text, watches, pauses, reloads, goes on, downloads the model and opens it again.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { ENDLESS, readLoss, readStep, readUnigramLoss, saveNow, start, until, violations, waitForDevice, watch, withPage } from "./page-driver.mjs";
import { readStoredZip } from "./zip.mjs";

const QUESTION = "and the lord spake unto ____, saying";
const TIMEOUT = 900_000;

/** Asks a question with so many gaps and waits for the answer, which comes after all that was told before. */
async function ask(page, gaps) {
  await page.locator("#question").fill(`the lord spake unto ${Array(gaps).fill("____").join(" and ")}`);
  await page.locator(`#guesses:not(:has(.vacant)):has(> :nth-child(${gaps}):last-child)`).waitFor();
}

test("from a dropped file to a model that opens again", { timeout: TIMEOUT }, (t) =>
  withPage({}, async (page, log) => {
    await waitForDevice(page);
    await page.locator("#question").fill(QUESTION);
    await start(page, ENDLESS);
    const chance = await until("the loss of word frequencies", () => readUnigramLoss(page), (loss) => loss > 0);
    const later = await until("a loss far below it", () => readLoss(page), (loss) => loss < chance / 2);
    t.diagnostic(`loss ${later} at step ${await readStep(page)}; word frequencies only: ${chance}`);
    await page.locator("#guesses .former", { hasText: "before:" }).waitFor();
    await page.locator("#examples mark.right").first().waitFor();
    assert.match(await page.title(), /^\d+\s%/);
    assert.deepEqual(await violations(page), []);

    await page.locator("#pause").click();
    await ask(page, 2);
    const paused = await readStep(page);
    for (const gaps of [1, 2, 1, 2]) await ask(page, gaps);
    assert.equal(await readStep(page), paused);
    await page.locator("#pause", { hasText: "Go on from step" }).click();
    await until("a step after the pause", () => readStep(page), (step) => step > paused);

    // The curve is read with the keyboard.
    await page.locator("#loss-curve").focus();
    await page.keyboard.press("Home");
    assert.match(await page.locator("#reading").textContent(), /^Step [\d,]+: loss [\d.]+, hidden words right/);

    const least = await saveNow(page);
    await page.locator("#saved .name", { hasText: "verses-nano" }).waitFor();
    await page.reload();
    await page.locator("#step-words", { hasText: "verses-nano was saved at step" }).waitFor();
    const saved = await readStep(page);
    assert.ok(saved >= least);
    await until("the curves as they were", () => readLoss(page), (loss) => loss > 0);
    await page.locator("#saved button:enabled").first().waitFor();
    assert.deepEqual(await violations(page), []);
    await page.locator("#go-on").click();
    const resumed = await until("a step after the reload", () => readStep(page), (step) => step > saved);
    t.diagnostic(`saved at step ${saved}, seen again at step ${resumed}`);
    assert.equal(await page.locator("#text-report .name").textContent(), "verses.txt");
    assert.match(await page.locator("#question").inputValue(), /____ and ____/);

    await page.locator("#stop").click();
    const download = page.locator("#download:enabled");
    const [file] = await Promise.all([page.waitForEvent("download"), download.click()]);
    assert.equal(file.suggestedFilename(), "verses-nano.zip");
    const zip = readFileSync(await file.path());
    const files = readStoredZip(zip);
    for (const name of ["model.safetensors", "config.json", "vocab.txt"]) assert.ok(files.has(name), name);

    // It opens as an archive, and as the files in it.
    const archive = { name: "verses-nano.zip", mimeType: "application/zip", buffer: zip };
    const folder = [...files].map(([name, buffer]) => ({ name, mimeType: "application/octet-stream", buffer }));
    for (const [given, words] of [[archive, "verses-nano is open"], [folder, "The model is open"]]) {
      await page.reload();
      await page.locator("#open:enabled").waitFor();
      await page.locator("#model-files").setInputFiles(given);
      await page.locator("#keep-hint", { hasText: words }).waitFor();
      await page.locator("#guesses:not(:has(.vacant)) li").first().waitFor();
    }
    await page.locator("#model-files").setInputFiles([{ ...archive, buffer: zip.subarray(0, 999) }]);
    await page.locator("#keep-hint.warning").waitFor();

    // Whatever happened, nothing was asked of anyone else.
    const isOwn = (url) => url.startsWith(log.address) || url.startsWith("blob:");
    assert.deepEqual(log.requests.filter((url) => !isOwn(url)), []);
  }));

test("a run to its end, and what can be done with saved runs", { timeout: TIMEOUT }, () =>
  withPage({}, async (page) => {
    const [report, progress] = [await watch(page, "#text-report"), await watch(page, "#step-words")];
    await start(page, { steps: 60 }, "<b>odd</b> name.txt");
    await page.locator("#step-words", { hasText: "Finished: 60 steps" }).waitFor();
    assert.equal(await page.locator("#option-warmupSteps").inputValue(), "6");
    // The list and the curve speak of the same loss.
    await page.locator("#saved .hint", { hasText: `loss ${await page.locator("#loss").textContent()}` }).waitFor();
    // Each preparation was told as long as it took.
    for (const words of ["Reading", "Training a vocabulary of up to 1,024 word pieces", "Counting documents and sentences", "12 documents"]) {
      assert.ok((await report()).some((text) => text.includes(words)), words);
    }
    for (const words of [/^Not started$/, /^Reading the text$/, /^Making examples from the text$/, /^Compiling shaders: \d+ of \d+$/, /^Step \d+ of 60$/]) {
      assert.ok((await progress()).some((text) => words.test(text)), String(words));
    }
    const name = page.locator("#saved .name");
    await page.locator("#saved .name", { hasText: /^b-odd-b-name-nano$/ }).waitFor();
    assert.deepEqual(await violations(page), []);

    await page.getByRole("button", { name: "Rename: b-odd-b-name-nano" }).click();
    assert.deepEqual(await violations(page), []);
    await page.getByLabel("New name of b-odd-b-name-nano").fill("../mine: too");
    await page.keyboard.press("Enter");
    await page.locator("#saved .name", { hasText: /^mine-too$/ }).waitFor();
    await page.locator("#keep-hint", { hasText: "is now mine-too" }).waitFor();

    await page.reload();
    await page.getByRole("button", { name: "Ask: mine-too" }).click();
    await page.locator("#guesses:not(:has(.vacant)) li").first().waitFor();
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download: mine-too" }).click()]);
    assert.equal(file.suggestedFilename(), "mine-too.zip");

    await page.getByRole("button", { name: "Delete: mine-too" }).click();
    await page.locator("#saved-none").waitFor();
    assert.equal(await name.count(), 0);
    await page.getByRole("button", { name: "Undo" }).click();
    await name.waitFor();
    assert.equal(await name.textContent(), "mine-too");
    await page.getByRole("button", { name: "Delete: mine-too" }).click();
    await page.locator("#keep-hint", { hasText: "mine-too is gone" }).waitFor();
    await page.reload();
    await waitForDevice(page);
    await page.locator("#saved-none").waitFor();
    assert.equal(await name.count(), 0);
  }));
