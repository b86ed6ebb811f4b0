// The page: what it may ask for, who can use it, and what it shows where there is nothing to train on.
import assert from "node:assert/strict";
import test from "node:test";
import { INSECURE_HOST } from "./browsers.mjs";
import { dropFile, layoutShifts, makeText, violations, waitForDevice, withPage } from "./page-driver.mjs";

test("the page asks for nothing but its own files, and its policy forbids the rest", { timeout: 300_000 }, () =>
  withPage({ expected: /Content Security Policy|example\.com/ }, async (page, log) => {
    await waitForDevice(page);
    await dropFile(page, "my.txt", makeText());
    await page.locator("#text-report", { hasText: "12 documents" }).waitFor();
    assert.ok(log.requests.some((url) => url.endsWith(".wasm")));
    assert.deepEqual(log.requests.filter((url) => !url.startsWith(log.address)), []);

    const violated = await page.evaluate(async () => {
      const violated = [];
      const all = new Promise((resolve) => {
        document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => {
          if (violated.push(effectiveDirective) === 3) resolve();
        });
      });
      await fetch("https://example.com/").catch(() => {});
      new Image().src = "https://example.com/image.png";
      document.body.append(Object.assign(document.createElement("script"), { textContent: "document.title = 'taken'" }));
      await all;
      return violated;
    });
    assert.deepEqual(violated.sort(), ["connect-src", "img-src", "script-src-elem"]);
    assert.equal(await page.title(), "wgpu-bert");
  }));

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 360]) {
    test(`accessible and still, ${colorScheme}, ${width} px wide`, { timeout: 300_000 }, () =>
      withPage({ width, colorScheme }, async (page) => {
        await waitForDevice(page);
        assert.deepEqual(await page.evaluate(layoutShifts), []);
        assert.deepEqual(await violations(page), []);
        await page.locator("#model-panel summary").click();
        await page.locator("#learning-panel summary").click();
        await page.locator("#paste").click();
        // One document only: there is a warning, and a button that answers it.
        await page.locator("#pasted").fill("one sentence\nanother sentence\n");
        assert.deepEqual(await violations(page), []);
        await page.locator("#use-pasted").click();
        await page.locator("#text-report .warning").waitFor();
        assert.ok(await page.locator("#start").isDisabled());
        await page.getByRole("button", { name: "Train without next sentences" }).click();
        assert.ok(await page.locator("#start").isEnabled());
        assert.deepEqual(await violations(page), []);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
        assert.equal(await page.evaluate(() => matchMedia("(prefers-color-scheme: dark)").matches), colorScheme === "dark");
      }));
  }
}

for (const [width, height] of [[1280, 720], [1366, 768]]) {
  test(`the button that starts a run is seen without scrolling, ${width} × ${height}`, { timeout: 300_000 }, () =>
    withPage({ width, height }, async (page) => {
      await waitForDevice(page);
      await page.click("#use-sample");
      await page.locator("#start:enabled").waitFor();
      await page.locator("#memory-key:visible").waitFor();
      const { y, height: tall } = await page.locator("#start").boundingBox();
      assert.ok(y + tall <= height, `${y} + ${tall}`);
      // Beside saved runs stands what the browser says of the room for them.
      assert.match(await page.locator("#storage").textContent(), /^The browser has room for \d.* more, and (keeps|may clear) them/);
    }));
}

test("the switch turns to the other colours, and they stay", { timeout: 300_000 }, () =>
  withPage({}, async (page) => {
    const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await paper();
    await page.locator("#theme").click();
    const dark = await paper();
    assert.notEqual(dark, light);
    await page.reload();
    assert.equal(await paper(), dark);
    await page.locator("#theme").click();
    assert.equal(await paper(), light);
  }));

test("the keyboard reaches every control", { timeout: 300_000 }, () =>
  withPage({}, async (page) => {
    await waitForDevice(page);
    await page.locator("#use-sample").click();
    await page.locator("#start:enabled").waitFor();
    for (const summary of await page.locator("summary").all()) await summary.click();
    await page.evaluate(() => document.activeElement.blur());
    const unreached = await page.evaluate(() => {
      // Radio buttons are one stop, at the one that is checked.
      const controls = [...document.querySelectorAll("button, input:not([type=radio]), input:checked, select, summary, [tabindex]")];
      window.unreached = new Set(controls.filter((control) => !control.disabled && control.checkVisibility()));
      return window.unreached.size;
    });
    assert.ok(unreached > 20);
    for (let i = 0; i <= unreached; i++) {
      await page.keyboard.press("Tab");
      await page.evaluate(() => window.unreached.delete(document.activeElement));
    }
    assert.deepEqual(await page.evaluate(() => [...window.unreached].map(({ outerHTML }) => outerHTML)), []);
    // Arrow keys choose a size.
    await page.locator("input[value=nano]").focus();
    await page.keyboard.press("ArrowRight");
    assert.ok(await page.locator("input[value=tiny]").isChecked());
  }));

test("a run needs no pointer", { timeout: 300_000 }, () =>
  withPage({}, async (page) => {
    await waitForDevice(page);
    /** Goes to a control with the tab key. */
    const goTo = async (selector) => {
      for (let i = 0; i < 60; i++) {
        if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) return;
        await page.keyboard.press("Tab");
      }
      assert.fail(`the tab key does not reach ${selector}`);
    };
    await goTo("#paste");
    await page.keyboard.press("Enter");
    await page.keyboard.insertText(makeText());
    await goTo("#use-pasted");
    await page.keyboard.press("Enter");
    await page.locator("#start:enabled").waitFor();
    await goTo("#start");
    await page.keyboard.press("Enter");
    await page.locator("#pause:enabled").waitFor();
    await goTo("#pause");
    await page.keyboard.press("Enter");
    await page.locator("#step-words", { hasText: "Paused at" }).waitFor();
    await goTo("#stop");
    await page.keyboard.press("Enter");
    await page.locator("#download:enabled").waitFor();
    await goTo("#download");
    const [file] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
    assert.equal(file.suggestedFilename(), "Pasted-text-nano.zip");
  }));

test("names of files are shown as they are", { timeout: 300_000 }, () =>
  withPage({}, async (page) => {
    const name = "<img src=x onerror=alert(1)>.txt";
    await dropFile(page, name, makeText());
    await page.locator("#text-report", { hasText: "12 documents" }).waitFor();
    assert.equal(await page.locator("#text-report .name").textContent(), name);
    assert.equal(await page.locator("img").count(), 0);
  }));

test("files that are no text are refused with the reason", { timeout: 300_000 }, () =>
  withPage({}, async (page) => {
    await dropFile(page, "empty.txt", "");
    await page.locator("#text-report", { hasText: "empty.txt is empty." }).waitFor();
    await dropFile(page, "picture.png", "\u0089PNG\0\0");
    await page.locator("#text-report", { hasText: "picture.png is no plain text." }).waitFor();
    assert.ok(await page.locator("#start").isDisabled());
    await waitForDevice(page);
    assert.ok(await page.locator("#start").isDisabled());
  }));

test("a page that is not secure says so", { timeout: 300_000 }, () =>
  withPage({ host: INSECURE_HOST }, async (page) => {
    await page.locator("#absent-message", { hasText: "Distribution strategy is not specified." }).waitFor();
    assert.match(await page.locator("#absent-advice").textContent(), /https/);
    assert.deepEqual(await violations(page), []);
    // Nothing is selected before it is asked for.
    await page.locator("#copy-diagnosis").click();
    await page.locator("#copied", { hasText: "Copy what is selected." }).waitFor();
    assert.match(await page.evaluate(() => getSelection().toString()), /reason: insecure_context/);
  }));

for (const width of [1280, 360]) {
  test(`without an adapter it says why and what to do, ${width} px wide`, { timeout: 300_000 }, () =>
    withPage({ webgpu: false, width }, async (page) => {
      await waitForDevice(page);
      const panel = page.locator("#absent-panel");
      assert.match(await panel.textContent(), /Distribution strategy is not specified\. .*chrome:\/\/gpu.*npm run pretrain/s);
      for (const id of ["device", "learning", "ask"]) assert.ok(await page.locator(`#${id}-panel`).isHidden());
      assert.deepEqual(await page.evaluate(layoutShifts), []);
      assert.deepEqual(await violations(page), []);
      // Text and model are still of use.
      await page.locator("#use-sample").click();
      await page.locator("#text-report", { hasText: "187 documents" }).waitFor();
      await page.locator("label", { hasText: "tiny" }).click();

      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await page.locator("#copy-diagnosis").click();
      await page.locator("#copied", { hasText: "Copied." }).waitFor();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      assert.match(copied, /^Distribution strategy is not specified\. /);
      assert.match(copied, /^reason: no_adapter$/m);
      await page.locator("#look-again").click();
      await panel.waitFor();
    }));
}
