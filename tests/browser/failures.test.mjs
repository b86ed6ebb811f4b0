// What cannot work rejects, and never hangs: files that are not there, and a bug in the wasm module.
import assert from "node:assert/strict";
import test from "node:test";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { call, withPage } from "./page.mjs";

for (const [name, launch] of [
  ["Chromium", () => launchChromium({ webgpu: true })],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  for (const [what, server, words] of [
    ["without the worker's file", { missing: ["/dist/worker.js"] }, /the worker of wgpu-bert failed/],
    ["without the wasm file", { missing: ["/dist/wgpu_bert_bg.wasm"] }, /wasm|WebAssembly|HTTP/i],
    // wgpu looks for this class to find out that it runs in a worker, and panics when it finds neither that nor a page.
    ["and a panic", { workerPrelude: "delete globalThis.WorkerGlobalScope;" }, /^wgpu-bert has a bug: panicked at /],
  ]) {
    test(`${name} ${what}`, { timeout: 60_000 }, () =>
      withPage({ launch, ...server }, async (page) => {
        // The second request finds a worker that is gone for good.
        for (let i = 0; i < 2; i++) {
          const { rejected, isStrategyError } = await page.evaluate(call, ["getDistributionStrategy"]);
          assert.equal(isStrategyError, false);
          assert.match(rejected.message, words);
        }
      }));
  }
}
