// What the browser grants a saved run, in real browsers: asked for, told, and waited for by nobody.
import assert from "node:assert/strict";
import test from "node:test";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { withPage } from "./page.mjs";
import { OPTIONS } from "./small-run.mjs";

for (const [browser, launch] of [
  ["Chromium", () => launchChromium({ webgpu: true })],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  test(`${browser} is asked to keep saved runs, and tells how much room there is`, { timeout: 300_000 }, () =>
    withPage({ launch }, async (page, messages) => {
      const seen = await page.evaluate(async (options) => {
        const { getDistributionStrategy, runBertPretrain } = await import("/dist/index.js");
        const strategy = await getDistributionStrategy();
        let asked = 0;
        const train = async (persist, estimate, checkpoint) => {
          // Firefox asks a person, and here there is none.
          StorageManager.prototype.persist = () => {
            asked++;
            return persist();
          };
          if (estimate) StorageManager.prototype.estimate = estimate;
          const run = runBertPretrain(strategy, { ...options, ...(checkpoint && { checkpoint }) });
          // Until the storage was heard of, as far as it is to be.
          run.pause();
          const events = [];
          for await (const event of run) {
            events.push(event);
            const isHeard = checkpoint && persist !== never ? event.kind === "storage" : event.kind === "started";
            if (isHeard) run.resume();
          }
          (await run.finished).model.close();
          const parameters = events.find(({ kind }) => kind === "started").parameters;
          const [saved] = events.filter(({ kind }) => kind === "checkpoint");
          return { parameters, size: saved?.bytes, told: events.filter(({ kind }) => kind === "storage" || kind === "notice") };
        };
        const never = () => new Promise(() => {});
        const real = await train(async () => true, undefined, "opfs:kept");
        const unsaved = await train(async () => true);
        const askedBefore = asked;
        const full = await train(async () => false, async () => ({ quota: 1_000_000, usage: 990_000 }), "opfs:full");
        const unanswered = await train(never, undefined, "opfs:unanswered");
        const broken = await train(async () => Promise.reject(new TypeError("no")), async () => Promise.reject(new TypeError("no")), undefined);
        return { real, unsaved, askedBefore, full, unanswered, broken };
      }, OPTIONS);

      const { real, full, unsaved, unanswered, broken } = seen;
      assert.equal(seen.askedBefore, 1);
      assert.equal(real.told.length, 1);
      const [{ persisted, needed, available }] = real.told;
      assert.ok(persisted && available > needed, JSON.stringify(real));
      // Two snapshots.
      assert.ok(real.size <= needed / 2 + 20_000 && real.size > needed / 2 - 20_000, `${real.size} ${needed}`);
      assert.deepEqual([unsaved.told, broken.told], [[], []]);
      assert.deepEqual(full.told.map(({ kind }) => kind).filter((kind, i, all) => all.indexOf(kind) === i), ["notice", "storage"]);
      assert.match(full.told[0].message, /^Saving this run takes 0\.\d MB, and the browser has room for 0 MB more\. .* makes room\.$/);
      assert.deepEqual([full.told[1].persisted, full.told[1].available], [false, 10_000]);
      assert.ok(unanswered.told.every(({ kind }) => kind === "notice"));
      assert.deepEqual(messages, []);
    }));
}
