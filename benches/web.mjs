// How long a training step takes in a browser, next to other libraries with the same weights and batch:
//
//     npm run -s bench:web -- [--config tiny] [--vocab_size 8192] [--peers jax-js,tfjs] [--steps 5]
//                             [--browsers chromium,firefox] [--json]
//
// They step in turn, so that whatever else the machine does meets all alike. Fails where losses do not agree, since then
// the libraries do not compute the same. `--peers none` measures ours alone. In browsers after the first ours steps alone,
// in turn with all else.
// Tells a table, or with `--json` one line of JSON: what the command `bench` tells, `peers` with a `ratio` each, its time
// over ours, and `browsers` likewise for all but the first. Needs the package in dist/.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";
import { serve } from "../scripts/serve.mjs";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "../tests/browser/browsers.mjs";
import { CONFIGS } from "./web/workload.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PEERS = { "jax-js": "jax", tfjs: "tfjs" };
const BROWSERS = {
  chromium: () => launchChromium({ webgpu: true }),
  firefox: () => launchFirefox({ prefs: FIREFOX_WEBGPU }),
};
/** Losses may differ by this share, for they are sums in other orders. */
const TOLERANCE = 5e-4;

class Usage extends Error {}

function options() {
  const text = (value) => ({ type: "string", default: value });
  const { values } = parseArgs({
    options: {
      config: text("tiny"), vocab_size: text("8192"), peers: text(Object.keys(PEERS).join()), steps: text("5"),
      browsers: text("chromium"), json: { type: "boolean", default: false },
    },
  });
  const { config, json } = values;
  const [vocabSize, steps] = [Number(values.vocab_size), Number(values.steps)];
  const peers = values.peers === "none" ? [] : values.peers.split(",");
  const browsers = values.browsers.split(",");
  const check = (holds, problem) => {
    if (!holds) throw new Usage(problem);
  };
  check(config in CONFIGS, `--config must be one of ${Object.keys(CONFIGS)}`);
  const areKnown = browsers.every((browser) => browser in BROWSERS) && new Set(browsers).size === browsers.length;
  check(areKnown, `--browsers must be some of ${Object.keys(BROWSERS)}`);
  check(peers.every((peer) => peer in PEERS), `--peers must be none or some of ${Object.keys(PEERS)}`);
  check(Number.isInteger(vocabSize) && vocabSize > 5, "--vocab_size must be a whole number above 5");
  check(Number.isInteger(steps) && steps > 0, "--steps must be a whole number above 0");
  return { config, vocabSize, peers, steps, browsers, json };
}

/** The folder of a site with every library's module and the package. */
async function makeSite(folder) {
  const modules = ["ours", ...Object.values(PEERS)].map((name) => join(ROOT, `benches/web/${name}.mjs`));
  await build({ entryPoints: modules, bundle: true, format: "esm", external: ["/dist/*"], outdir: folder, logLevel: "warning" });
  cpSync(join(ROOT, "dist"), join(folder, "dist"), { recursive: true });
  writeFileSync(join(folder, "index.html"), "<!doctype html><title>bench</title><link rel=icon href=data:,>");
}

/** Gives turns to several, one after the other; a turn lasts until its owner asks for the next, or ends. */
class Turns {
  #owners;
  #waiting = new Map();

  constructor(owners) {
    this.#owners = [...owners];
  }

  next(owner) {
    return new Promise((resolve) => {
      this.#waiting.set(owner, resolve);
      this.#pass();
    });
  }

  end(owner) {
    this.#owners = this.#owners.filter((other) => other !== owner);
    this.#pass();
  }

  #pass() {
    const isAtWork = (owner) => !this.#waiting.has(owner);
    if (this.#owners.length === 0 || this.#owners.some(isAtWork)) return;
    const owner = this.#owners.shift();
    this.#owners.push(owner);
    this.#waiting.get(owner)();
    this.#waiting.delete(owner);
  }
}

/** Where the losses of two libraries part, if they do. */
function disagreement(ours, theirs) {
  const step = theirs.findIndex((loss, i) => i < ours.length && !(Math.abs(loss / ours[i] - 1) <= TOLERANCE));
  return step < 0 ? undefined : `the loss of step ${step} is ${theirs[step]}, but ours ${ours[step]}`;
}

async function measureAll({ config, vocabSize, peers, steps, browsers }) {
  const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-bench-"));
  const opened = {};
  let server;
  try {
    await makeSite(folder);
    for (const browser of browsers) opened[browser] = await BROWSERS[browser]();
    server = await serve({ folder });
    const [first, ...others] = browsers;
    const turns = new Turns([...browsers, ...peers]);
    const measure = async (name, module, browser) => {
      const page = await opened[browser].newPage();
      // A library may tell an error of the device here only, and go on with wrong numbers.
      page.on("console", (message) => ["error", "warning", "warn"].includes(message.type()) && console.error(`${name}: ${message.text()}`));
      await page.exposeFunction("turn", () => turns.next(name));
      await page.goto(`http://localhost:${server.port}/`);
      const call = async ({ module, setup }) => (await import(`/${module}.js`)).measure(setup).catch((error) => ({ error: error.message ?? String(error) }));
      const result = await page.evaluate(call, { module, setup: { config, vocabSize, steps } });
      turns.end(name);
      if (result.error) throw new Error(`${name}: ${result.error}`);
      return result;
    };
    const [ours, ...results] = await Promise.all([
      ...browsers.map((browser) => measure(browser, "ours", browser)),
      ...peers.map((peer) => measure(peer, PEERS[peer], first)),
    ]);
    const compared = (names, results) => Object.fromEntries(names.map((name, i) => {
      const problem = disagreement(ours.losses, results[i].losses);
      if (problem) throw new Error(`${name}: ${problem}`);
      return [name, { ...results[i], ratio: results[i].step_ms / ours.step_ms }];
    }));
    const report = { kind: "bench_web", browser: first, config, vocab_size: vocabSize, ...ours };
    const compare = { browsers: compared(others, results), peers: compared(peers, results.slice(others.length)) };
    return { ...report, ...compare, load: loadavg()[0] };
  } finally {
    for (const browser of Object.values(opened)) await browser.close();
    server?.close();
    rmSync(folder, { recursive: true });
  }
}

function table({ peers, browsers, ...ours }) {
  const line = (...cells) => cells.map((cell, i) => (i ? String(cell).padStart(12) : cell.padEnd(12))).join("");
  const ms = (number) => number.toFixed(1);
  const row = (name, { step_ms, min_step_ms, losses, ratio = 1 }) =>
    line(name, ms(step_ms), ms(min_step_ms), ratio.toFixed(2), losses.at(-1).toFixed(4), losses.length);
  return [
    `${ours.browser}, ${ours.adapter}: ${ours.config}, vocabulary ${ours.vocab_size}; load ${ours.load.toFixed(1)}`,
    `${ours.gflops.toFixed(2)} GFLOP/s, ${(100 * ours.share_of_best_matmul).toFixed(0)} % of the best matrix product (${ours.best_matmul.gflops.toFixed(2)})`,
    line("", "step ms", "shortest", "ratio", "last loss", "steps"),
    row("wgpu-bert", ours),
    ...Object.entries(browsers).map(([browser, there]) => row(`in ${browser}`, there)),
    ...Object.entries(peers).map(([name, peer]) => row(name, peer)),
  ].join("\n");
}

try {
  const wanted = options();
  const report = await measureAll(wanted);
  console.log(wanted.json ? JSON.stringify(report) : table(report));
} catch (error) {
  console.error(`bench:web: ${error.message}`);
  process.exitCode = error instanceof Usage || error.code?.startsWith("ERR_PARSE_ARGS") ? 2 : 1;
}
