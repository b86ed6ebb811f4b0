// The page of the project, driven as a person would.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { launchChromium } from "./browsers.mjs";
import { serve } from "../../scripts/serve.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const WORKER = new URL("../../site/wgpu-bert/worker.js", import.meta.url);

/** A folder on a host, as the page may lie in. */
export const FOLDER = "/some/where/";

/**
 * Put before the worker's code: makes happen there what the test asks for on a channel. `full` and `empty` are about the
 * storage, `lose` takes the device away, and `spoil` turns the weights into something that is no number.
 */
const ACCIDENTS = `{
  let isFull = false;
  let device;
  let weights;
  const { write } = FileSystemSyncAccessHandle.prototype;
  FileSystemSyncAccessHandle.prototype.write = function (...parameters) {
    if (isFull) throw new DOMException("no space left", "QuotaExceededError");
    return write.apply(this, parameters);
  };
  if (self.GPUAdapter) {
    const { requestDevice } = GPUAdapter.prototype;
    GPUAdapter.prototype.requestDevice = async function (...parameters) {
      return (device = await requestDevice.apply(this, parameters));
    };
    const { writeBuffer } = GPUQueue.prototype;
    GPUQueue.prototype.writeBuffer = function (buffer, ...parameters) {
      if (buffer.label.startsWith("weights")) weights = buffer;
      return writeBuffer.call(this, buffer, ...parameters);
    };
  }
  const spoil = () => device.queue.writeBuffer(weights, 0, new Uint8Array(weights.size).fill(255));
  new BroadcastChannel("accident").onmessage = ({ data }) => {
    if (data === "full" || data === "empty") isFull = data === "full";
    if (data === "lose") device.destroy();
    if (data === "spoil") spoil();
  };
}`;

/** Makes something happen to the run; ACCIDENTS lists what. */
export const happen = (page, what) => page.evaluate((what) => new BroadcastChannel("accident").postMessage(what), what);

/** Makes the page believe that its tab is hidden, or seen. */
export const setVisibility = (page, state) =>
  page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);

/**
 * Opens the page in a new Chromium, whose context `prepare` may change before, and calls `run(page, log)`. `log.requests`
 * collects what the page and its worker ask for; after the run, messages on the console and errors that nobody caught are
 * a failure, but for those `expected`.
 */
export async function withPage({ webgpu = true, width = 1280, height = 900, colorScheme = "light", expected = /^$/, host = "localhost", prepare } = {}, run) {
  const { port, close } = await serve({ at: FOLDER });
  const browser = await launchChromium({ webgpu });
  try {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme, acceptDownloads: true });
    const address = `http://${host}:${port}${FOLDER}`;
    const log = { address, requests: [], messages: [] };
    context.on("request", (request) => log.requests.push(request.url()));
    context.on("console", (message) => log.messages.push(`${message.type()}: ${message.text()}`));
    context.on("weberror", (error) => log.messages.push(`uncaught: ${error.error().message}`));
    // However busy the machine is; the test itself has a limit.
    context.setDefaultTimeout(300_000);
    // A page that is not secure gets no worker in this way.
    if (host === "localhost") await context.route("**/worker.js", (route) => route.fulfill({ contentType: "text/javascript", body: ACCIDENTS + readFileSync(WORKER) }));
    await prepare?.(context);
    const page = await context.newPage();
    page.on("dialog", (dialog) => log.messages.push(`dialog: ${dialog.message()}`));
    await page.goto(address);
    const result = await run(page, log);
    const complaints = log.messages.filter((message) => !expected.test(message));
    if (complaints.length > 0) throw new Error(`the page complained:\n${complaints.join("\n")}`);
    return result;
  } finally {
    await browser.close();
    close();
  }
}

/** Waits until it is known what there is to train on. */
export async function waitForDevice(page) {
  await page.locator("#device-report .name:not(:text('Looking')), #absent-panel:visible").first().waitFor();
}

/** A text of a few documents, whose sentences are easy to learn. */
export function makeText() {
  const verse = (i) => `and the lord spake unto ${i % 3 ? "moses" : "aaron"}, saying, number ${"the people of ".repeat(i % 4)}israel`;
  const documents = Array.from({ length: 12 }, (_, d) => Array.from({ length: 20 }, (_, i) => verse(d + i)).join("\n"));
  return documents.join("\n\n");
}

/** Drops a text file onto the page. */
export async function dropFile(page, name, content) {
  const transfer = await page.evaluateHandle(([name, content]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([content], name, { type: "text/plain" }));
    return transfer;
  }, [name, content]);
  await page.dispatchEvent("#choose-files", "dragover", { dataTransfer: transfer });
  await page.dispatchEvent("#choose-files", "drop", { dataTransfer: transfer });
}

/** Gives a text, changes options under "More", and starts a run. */
export async function start(page, options, name = "verses.txt") {
  await waitForDevice(page);
  await dropFile(page, name, makeText());
  await page.locator("#text-report", { hasText: "12 documents" }).waitFor();
  await setOptions(page, options);
  await page.locator("#start:enabled").click();
}

export async function setOptions(page, options) {
  if (Object.keys(options).length > 0 && !(await page.locator("#options").isVisible())) await page.locator("#model-panel summary").click();
  for (const [name, value] of Object.entries(options)) {
    await page.locator(`#option-${name}`).fill(String(value));
    await page.locator(`#option-${name}`).blur();
  }
}

/** A run that has learned nothing yet when it is first asked, on a fast machine too, and never ends by itself. */
export const ENDLESS = { steps: 1_000_000, warmupSteps: 10_000 };

const number = (text) => Number(text.replaceAll(",", ""));

/** The loss shown, or `NaN` while there is none. */
export const readLoss = async (page) => number(await page.locator("#loss").textContent());

/** The step shown, or 0 while there is none. */
export const readStep = async (page) => number(/(?:step|Step|Finished:) ([\d,]+)/.exec(await page.locator("#step-words").textContent())?.[1] ?? "0");

/** The loss of one who knows nothing but how frequent words are, or 0 while it is not told. */
export async function readUnigramLoss(page) {
  const words = await page.locator("#loss-words").textContent();
  return number(/how frequent words are: ([\d.]+)\./.exec(words)?.[1] ?? "0");
}

/** Waits until `read` gives something that satisfies `is`, and gives that back. */
export async function until(what, read, is, seconds = 300) {
  let value;
  for (const deadline = Date.now() + 1000 * seconds; Date.now() < deadline; ) {
    value = await read();
    if (is(value)) return value;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${what}: still ${value} after ${seconds} s`);
}

/** Notes every text that an element shows from now on, however short; what is returned gives them. */
export async function watch(page, selector) {
  await page.evaluate((selector) => {
    const element = document.querySelector(selector);
    const texts = ((window.texts ??= {})[selector] = [element.textContent]);
    new MutationObserver(() => texts.push(element.textContent)).observe(element, { childList: true, characterData: true, subtree: true });
  }, selector);
  return () => page.evaluate((selector) => window.texts[selector], selector);
}

/** Waits until the list of what happened, which need not be open, says so. */
export const logged = (page, words) => until(`“${words}” in the log`, () => page.locator("#log").textContent(), (log) => log.includes(words));

/** Has the run saved now, as it is when its tab is hidden, and gives back the step. */
export async function saveNow(page) {
  const read = async () => /Saved at step ([\d,]+)/.exec(await page.locator("#log").textContent())?.[1];
  const before = await read();
  await setVisibility(page, "hidden");
  const step = await until("a snapshot", read, (step) => step !== undefined && step !== before);
  await setVisibility(page, "visible");
  return number(step);
}

/** What axe-core finds wrong with the page as it is. */
export async function violations(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run());
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/** In the page: its layout shifts so far, each with the elements that moved and how far. */
export const layoutShifts = () =>
  new Promise((resolve) => {
    const describe = ({ node, previousRect, currentRect }) => {
      const element = node instanceof Element ? node : node?.parentElement;
      return `${element?.tagName} ${element?.id || element?.className}: ${currentRect.x - previousRect.x}, ${currentRect.y - previousRect.y}`;
    };
    const list = (entries) => resolve(entries.getEntries().map(({ sources }) => sources.map(describe)));
    new PerformanceObserver(list).observe({ type: "layout-shift", buffered: true });
    // Without an entry the observer is never called.
    setTimeout(resolve, 500, []);
  });
