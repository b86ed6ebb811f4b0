// Saved runs, for real: a page that is reloaded in the middle of a run, a file that was not written to its end, a full
// storage, and a device that is lost.
import assert from "node:assert/strict";
import test from "node:test";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { withPage } from "./page.mjs";

const TIMEOUT = 300_000;

const TEXT = "the cat sat on the mat.\nthe dog slept on the hill.\nthe bird sang.\n\nthe king sat.\nthe cat slept on the wall.\n";
const OPTIONS = {
  text: TEXT,
  vocabSize: 60,
  config: { hiddenSize: 16, numHiddenLayers: 1, numAttentionHeads: 2, intermediateSize: 32, maxPositionEmbeddings: 32 },
  steps: 150,
  stepsPerLoop: 5,
  batchSize: 4,
  maxSeqLength: 32,
  maxPredictionsPerSeq: 5,
  learningRate: 1e-2,
  seed: 7,
  checkpoint: "opfs:first run",
  // A snapshot after every step, as far as the storage keeps up: then a test need not wait, however fast the machine is.
  checkpointSeconds: 0,
};

/** In the page: functions that the tests share. */
async function prepare() {
  const api = await import("/dist/index.js");
  const hex = async (blob) => {
    const digest = await crypto.subtle.digest("SHA-256", await blob.arrayBuffer());
    return Array.from(new Uint8Array(digest), (byte) => byte.toString(16)).join(" ");
  };
  const folder = async (name) => (await (await navigator.storage.getDirectory()).getDirectoryHandle("wgpu-bert")).getDirectoryHandle(name);
  Object.assign(window, {
    api,
    /** Starts a run; `events` grows. */
    begin: async (options) => {
      const run = api.runBertPretrain(await api.getDistributionStrategy(), options);
      const events = [];
      const ended = (async () => {
        for await (const event of run) events.push(event);
      })();
      const until = async (holds) => {
        while (!events.some(holds)) await Promise.race([new Promise((resolve) => setTimeout(resolve, 5)), ended.then(() => { throw new Error("the run is over"); })]);
      };
      return { run, events, ended, until };
    },
    /** A whole run: its events, and a checksum of its model. */
    whole: async (options) => {
      const { run, events, ended } = await window.begin(options);
      await ended;
      const { model, steps } = await run.finished;
      const sum = await hex(await model.exportHuggingFace());
      model.close();
      return { events, steps, sum };
    },
    sumOf: async (source) => {
      const model = await api.loadModel(source);
      return { sum: await hex(await model.exportHuggingFace()), guesses: await model.fillMask("the [MASK] sat."), config: model.config };
    },
    refusal: (promise) => promise.then(() => "no error", ({ name, message, field }) => ({ name, message, field })),
    files: async (name) => {
      const files = {};
      for await (const [file, handle] of (await folder(name)).entries()) files[file] = await (await handle.getFile()).text();
      return files;
    },
    /** Cuts a file of a saved run in half, as a kill while it is written would. */
    cut: async (name, file) => {
      const handle = await (await folder(name)).getFileHandle(file);
      const { size } = await handle.getFile();
      const writable = await handle.createWritable({ keepExistingData: true });
      await writable.truncate(size >> 1);
      await writable.close();
    },
  });
}

const started = ({ events }) => events.find(({ kind }) => kind === "started");

for (const [browser, launch] of [
  ["Chromium", () => launchChromium({ webgpu: true })],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  test(`${browser}: a run goes on after a reload with the same bits`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page, messages) => {
      await page.evaluate(prepare);
      const { checkpoint, ...unsaved } = OPTIONS;
      const never = await page.evaluate((options) => window.whole(options), unsaved);
      assert.equal(started(never).step, 0);

      // Reloaded in the middle of a run, twice; the second time the newest snapshot is not whole.
      for (const isCut of [false, true]) {
        const before = await page.evaluate(async (options) => {
          const { run, until, events } = await window.begin(options);
          await until(() => events.filter(({ kind }) => kind === "checkpoint").length > 2);
          // The run must not come to its end before the page is gone, and a snapshot under way must come to its.
          run.pause();
          for (let seen = -1; seen !== events.length; await new Promise((resolve) => setTimeout(resolve, 1000))) seen = events.length;
          return events;
        }, OPTIONS);
        if (isCut) assert.ok(before.find(({ kind }) => kind === "started").step > 0);
        assert.equal(before.find(({ kind }) => kind === "checkpoint").name, "first run");
        await page.reload();
        await page.evaluate(prepare);
        if (isCut) {
          const newest = await page.evaluate(async () => {
            const files = await window.files("first run");
            const steps = [0, 1].map((slot) => JSON.parse(files[`${slot}.json`]).step);
            const newest = steps[0] > steps[1] ? 0 : 1;
            await window.cut("first run", `${newest}.state`);
            return { newest: steps[newest], other: steps[1 - newest], elapsed: JSON.parse(files[`${1 - newest}.json`]).elapsedSeconds };
          });
          const [saved] = await page.evaluate(() => window.api.savedRuns());
          assert.equal(saved.step, newest.newest);
          // With the name alone the run goes on as well.
          const resumed = await page.evaluate((options) => window.whole(options), { checkpoint });
          assert.equal(started(resumed).step, newest.other);
          const { elapsedSeconds } = resumed.events.find(({ kind }) => kind === "progress");
          assert.ok(newest.elapsed > 0 && elapsedSeconds > newest.elapsed, `${newest.elapsed}, ${elapsedSeconds}`);
          assert.deepEqual([resumed.steps, resumed.sum], [OPTIONS.steps, never.sum]);
        }
      }

      // The last state is saved when a run ends, so there is nothing left to train.
      const [saved, ...others] = await page.evaluate(() => window.api.savedRuns());
      assert.deepEqual(others, []);
      assert.deepEqual([saved.name, saved.step, saved.totalSteps], ["first run", OPTIONS.steps, OPTIONS.steps]);
      assert.ok(saved.bytes > 10_000 && saved.lastLoss > 0);
      assert.equal(await page.evaluate(async () => (await window.api.savedRuns())[0].savedAt instanceof Date), true);
      const again = await page.evaluate((options) => window.whole(options), OPTIONS);
      assert.deepEqual([started(again).step, again.sum], [OPTIONS.steps, never.sum]);
      const loaded = await page.evaluate(() => window.sumOf("opfs:first run"));
      assert.equal(loaded.sum, never.sum);
      assert.equal(loaded.guesses.masks[0].length, 5);
      assert.deepEqual(messages, []);
    }));

  test(`${browser}: saved runs are listed, renamed, deleted, and refused`, { timeout: TIMEOUT }, () =>
    withPage({ launch }, async (page) => {
      await page.evaluate(prepare);
      const options = { ...OPTIONS, steps: 6, checkpointSeconds: 60 };
      const first = await page.evaluate((options) => window.whole(options), options);
      const result = await page.evaluate(async (options) => {
        const { api, refusal, begin } = window;
        const strategy = await api.getDistributionStrategy();
        const refused = (more) => refusal(api.runBertPretrain(strategy, { ...options, ...more }).finished);
        const differs = [await refused({ steps: 7 }), await refused({ text: "another.\n\ntext." }), await refused({ beta2: 0.9, text: undefined })];
        const names = await Promise.all(["../x", "", "a/b", ".x", "x.", "a".repeat(65), "con\\x"].map((name) => refused({ checkpoint: `opfs:${name}` })));
        const others = await Promise.all([refused({ checkpoint: "first run" }), refused({ checkpoint: 5 }), refused({ checkpointSeconds: -1 }), refused({ resume: "no" })]);
        await api.renameRun("first run", "zweiter Lauf ü");
        const renamed = (await api.savedRuns()).map(({ name, step }) => [name, step]);
        const missing = [await refusal(api.renameRun("first run", "x")), await refusal(api.loadModel("opfs:first run")), await refusal(api.renameRun("zweiter Lauf ü", "a/b"))];
        const busy = await begin({ ...options, checkpoint: "opfs:busy", steps: 100_000 });
        await busy.until(({ kind }) => kind === "started");
        busy.run.pause();
        const inUse = [await refusal(api.deleteRun("busy")), await refused({ checkpoint: "opfs:busy" })];
        busy.run.stop();
        const { steps } = await busy.run.finished;
        const stopped = (await api.savedRuns()).find(({ name }) => name === "busy");
        const taken = await refusal(api.renameRun("busy", "zweiter Lauf ü"));
        const anew = await window.whole({ ...options, checkpoint: "opfs:busy", resume: false, steps: 3 });
        await api.deleteRun("busy");
        await api.deleteRun("never was");
        const left = (await api.savedRuns()).map(({ name }) => name);
        return { differs, names, others, renamed, missing, inUse, steps, stopped, taken, anew, left };
      }, options);
      for (const [i, words] of [/steps \(saved: 6\)/, /another text/, /another text, beta2 \(saved: not given\)/].entries()) {
        assert.equal(result.differs[i].name, "OptionError");
        assert.match(result.differs[i].message, words);
      }
      for (const { name, field } of result.names) assert.deepEqual([name, field], ["OptionError", "checkpoint"]);
      assert.deepEqual(result.others.map(({ field }) => field), ["checkpoint", "checkpoint", "checkpointSeconds", "resume"]);
      assert.deepEqual(result.renamed, [["zweiter Lauf ü", 6]]);
      assert.deepEqual(result.missing.map(({ name }) => name), ["SavedRunError", "SavedRunError", "OptionError"]);
      for (const { name, message } of result.inUse) {
        assert.equal(name, "SavedRunError");
        assert.match(message, /in use/);
      }
      assert.ok(Math.abs(result.stopped.step - result.steps) <= 1);
      assert.equal(result.taken.field, "to");
      assert.equal(started(result.anew).step, 0);
      assert.deepEqual(result.left, ["zweiter Lauf ü"]);
      // A model that was downloaded opens again, as an archive and as files.
      const { sum } = await page.evaluate(() => window.sumOf("opfs:zweiter Lauf ü"));
      assert.equal(sum, first.sum);
      const reopened = await page.evaluate(async () => {
        const model = await window.api.loadModel("opfs:zweiter Lauf ü");
        const zip = await model.exportHuggingFace();
        const damaged = await window.refusal(window.api.loadModel(zip.slice(0, zip.size - 40)));
        const nothing = await window.refusal(window.api.loadModel([new File(["{}"], "config.json"), new File([""], "vocab.txt")]));
        return { ...(await window.sumOf(zip)), damaged, nothing };
      });
      assert.equal(reopened.sum, first.sum);
      assert.equal(reopened.config.hiddenSize, 16);
      for (const { name } of [reopened.damaged, reopened.nothing]) assert.equal(name, "ModelFileError");
      assert.match(reopened.nothing.message, /model\.safetensors is missing/);
    }));

  test(`${browser}: a hidden page saves, a full storage is a notice`, { timeout: TIMEOUT }, () => {
    const workerPrelude = `{
      const write = FileSystemSyncAccessHandle.prototype.write;
      let isFull = false;
      new BroadcastChannel("test").onmessage = () => (isFull = true);
      FileSystemSyncAccessHandle.prototype.write = function (...parameters) {
        if (isFull) throw new DOMException("no space left", "QuotaExceededError");
        return write.apply(this, parameters);
      };
    }`;
    return withPage({ launch, workerPrelude }, async (page) => {
      await page.evaluate(prepare);
      const result = await page.evaluate(async (options) => {
        const { run, events, ended, until } = await window.begin({ ...options, steps: 100_000, checkpointSeconds: 3600 });
        await until(({ kind, step }) => kind === "progress" && step >= 10);
        const before = events.filter(({ kind }) => kind === "checkpoint").length;
        Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
        await until(({ kind }) => kind === "checkpoint");
        new BroadcastChannel("test").postMessage("full");
        document.dispatchEvent(new Event("visibilitychange"));
        await until(({ kind }) => kind === "notice");
        const at = events.at(-1).step ?? events.findLast(({ kind }) => kind === "progress").step;
        await until(({ kind, step }) => kind === "progress" && step > at + 10);
        run.stop();
        await ended;
        const [saved] = await window.api.savedRuns();
        return { before, notices: events.filter(({ kind }) => kind === "notice"), saved, stopped: (await run.finished).stopped };
      }, OPTIONS);
      assert.equal(result.before, 0);
      assert.match(result.notices[0].message, /storage is full/);
      assert.ok(result.saved.step > 0 && result.stopped);
    });
  });

  test(`${browser}: the run goes on when its device is lost`, { timeout: TIMEOUT }, () => {
    // A device dies when the page asks for it, or as soon as it is there: the next one, or all.
    const workerPrelude = `{
      const devices = [];
      let doomed = "one";
      const request = GPUAdapter.prototype.requestDevice;
      GPUAdapter.prototype.requestDevice = async function (...parameters) {
        const device = await request.apply(this, parameters);
        devices.push(device);
        if (doomed !== "one") device.destroy();
        if (doomed === "next") doomed = "one";
        return device;
      };
      new BroadcastChannel("test").onmessage = ({ data }) => {
        doomed = data;
        if (doomed !== "next") devices.at(-1).destroy();
      };
    }`;
    return withPage({ launch, workerPrelude }, async (page) => {
      await page.evaluate(prepare);
      // Firefox takes a third of a second for a snapshot.
      const options = { ...OPTIONS, steps: 600, checkpointSeconds: 0.2 };
      const result = await page.evaluate(async ({ checkpoint, ...options }) => {
        const channel = new BroadcastChannel("test");
        const never = await window.whole(options);
        channel.postMessage("next");
        const { run, events, ended, until } = await window.begin({ ...options, checkpoint });
        const losses = () => events.filter(({ kind }) => kind === "device-lost").length;
        for (const before of [1, 2]) {
          // After the first measurement there is something to go on from.
          const told = events.length;
          await until((event) => event.kind === "progress" && events.indexOf(event) >= told);
          channel.postMessage("one");
          await until(() => losses() > before);
        }
        await ended;
        const model = (await run.finished).model;
        const sum = await model.exportHuggingFace();
        const digest = Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", await sum.arrayBuffer())), (byte) => byte.toString(16)).join(" ");
        const doomed = await window.begin({ ...options, steps: 100_000 });
        await doomed.until(({ kind }) => kind === "progress");
        channel.postMessage("all");
        const error = await window.refusal(doomed.run.finished);
        await doomed.ended.catch(() => {});
        return { never: never.sum, sum: digest, events, error, doomed: doomed.events.filter(({ kind }) => kind === "device-lost") };
      }, options);
      const [first, ...losses] = result.events.filter(({ kind }) => kind === "device-lost");
      assert.equal(losses.length, 2);
      const isBefore = result.events.indexOf(first) < result.events.findIndex(({ kind }) => kind === "started");
      assert.deepEqual([first.step, isBefore], [0, true]);
      assert.match(first.message, /^the device was lost: [^\n]+$/);
      for (const { message, step } of losses) {
        assert.match(message, /^the device was lost: [^\n]+$/);
        assert.ok(step > 0 && step < options.steps);
      }
      const starts = result.events.filter(({ kind }) => kind === "started").map(({ step }) => step);
      assert.deepEqual(starts, [0, ...losses.map(({ step }) => step)]);
      assert.equal(result.sum, result.never);
      assert.equal(result.error.name, "DeviceError");
      assert.match(result.error.message, /3 times in a row/);
      assert.equal(result.doomed.length, 2);
    });
  });
}

test("Chromium: the run goes on when the GPU process is killed", { timeout: TIMEOUT }, () => {
  let browser;
  const launch = async () => (browser = await launchChromium({ webgpu: true }));
  return withPage({ launch }, async (page) => {
    await page.evaluate(prepare);
    const { checkpoint, ...unsaved } = OPTIONS;
    const finished = page.evaluate(async (options) => {
      const { run, events, ended, until } = await window.begin(options);
      await until(({ kind, step }) => kind === "progress" && step >= 20);
      window.isTraining = true;
      await ended;
      return { events, steps: (await run.finished).steps };
    }, { ...unsaved, steps: 1000 });
    await page.waitForFunction(() => window.isTraining);
    const session = await browser.newBrowserCDPSession();
    const { processInfo } = await session.send("SystemInfo.getProcessInfo");
    process.kill(processInfo.find(({ type }) => type === "GPU").id, "SIGKILL");
    const { events, steps } = await finished;
    assert.equal(steps, 1000);
    assert.equal(events.filter(({ kind }) => kind === "device-lost").length, 1);
  });
});
