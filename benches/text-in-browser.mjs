// How fast the package makes a vocabulary and training data of a text file in Chromium, and how much memory of wasm that
// takes; after `node scripts/build-web.mjs`:
//
//     node benches/text-in-browser.mjs TEXT [COPIES [DUPE_FACTOR]]
//
// The file is read so many times over; `dupeFactor` is 10 unless it is given. Prints a line for the table in RESULTS.md.
import { launchChromium } from "../tests/browser/browsers.mjs";
import { withPage } from "../tests/browser/page.mjs";

const [, , path, copies = "1", dupeFactor = "10"] = process.argv;

/** Keeps the module's memory, which never shrinks, and says its size when it is asked. */
const workerPrelude = `{
  const instantiate = WebAssembly.instantiateStreaming;
  WebAssembly.instantiateStreaming = async (...parameters) => {
    const made = await instantiate(...parameters);
    const { memory } = made.instance.exports;
    new BroadcastChannel("memory").onmessage = ({ target, data }) => data === "?" && target.postMessage(memory.buffer.byteLength);
    return made;
  };
}`;

await withPage({ launch: () => launchChromium({ webgpu: false }), workerPrelude }, async (page) => {
  await page.evaluate(() => document.body.append(Object.assign(document.createElement("input"), { type: "file" })));
  await page.setInputFiles("input", path);
  const { bytes, tokens, examples, vocabulary, data, memory } = await page.evaluate(async ({ count, dupeFactor }) => {
    const { createPretrainingData, trainVocabulary } = await import("/dist/index.js");
    const text = Array(count).fill(document.querySelector("input").files[0]);
    const times = [performance.now()];
    const vocabulary = await trainVocabulary(text, { vocabSize: 8192 });
    times.push(performance.now());
    const data = await createPretrainingData(text, { vocabulary, maxSeqLength: 128, dupeFactor });
    times.push(performance.now());
    const channel = new BroadcastChannel("memory");
    const memory = await new Promise((resolve) => {
      channel.onmessage = ({ data: size }) => resolve(size);
      channel.postMessage("?");
    });
    channel.close();
    data.close();
    return {
      bytes: count * text[0].size,
      tokens: data.report.tokens,
      examples: data.report.instances,
      vocabulary: (times[1] - times[0]) / 1000,
      data: (times[2] - times[1]) / 1000,
      memory: memory / 2 ** 20,
    };
  }, { count: Number(copies), dupeFactor: Number(dupeFactor) });
  console.log(`| ${(bytes / 1e6).toFixed(0)} | ${tokens} | ${examples} | ${vocabulary.toFixed(1)} | ${data.toFixed(1)} | ${memory.toFixed(0)} |`);
});
