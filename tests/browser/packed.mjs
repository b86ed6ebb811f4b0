// The package as others get it: packed, installed into their project, and opened in a browser.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Npm's own program, without a shell; nothing is asked of a registry. */
function npm(cwd, ...args) {
  const options = ["--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const program = process.platform === "win32" ? "npm.cmd" : "npm";
  return execFileSync(program, [...args, ...options], { cwd, encoding: "utf8", shell: process.platform === "win32" });
}

/** Calls `use(folder)` with a folder that is gone afterwards. */
export async function withFolder(use) {
  const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-packed-"));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Packs what is built; gives back the tarball and the files in it. */
export function pack(folder) {
  const [{ filename, files }] = Object.values(JSON.parse(npm(ROOT, "pack", "--json", "--pack-destination", folder)));
  return { tarball: join(folder, filename), files: files.map(({ path }) => path) };
}

/** A copy of an example in `folder`, with the packed package installed. */
export function install(example, folder) {
  const { tarball } = pack(folder);
  const project = join(folder, example);
  cpSync(join(ROOT, "examples", example), project, { recursive: true });
  const manifest = join(project, "package.json");
  // Vite is ours; it does not have to be fetched again.
  const { devDependencies, ...rest } = existing(manifest);
  writeFileSync(manifest, JSON.stringify(rest));
  npm(project, "install", tarball);
  return { project, devDependencies };
}

function existing(manifest) {
  try {
    return JSON.parse(readFileSync(manifest, "utf8"));
  } catch (error) {
    if (error.code === "ENOENT") return {};
    throw error;
  }
}

/** Opens an address in a new browser and calls `run(page)`. What the page complains of fails. */
export async function visit(launch, address, run) {
  const browser = await launch();
  try {
    const page = await browser.newPage();
    const complaints = [];
    page.on("console", (message) => {
      const isOurs = !message.location().url?.endsWith("/favicon.ico");
      if (isOurs && /^(error|warn)/.test(message.type())) complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(`uncaught: ${error.message}`));
    await page.goto(address);
    const result = await run(page);
    if (complaints.length > 0) throw new Error(`the page complained:\n${complaints.join("\n")}`);
    return result;
  } finally {
    await browser.close();
  }
}

/** Presses the button of an example, and waits until it has told of two losses some steps apart. */
export async function train(page) {
  await page.click("#train");
  const first = await progress(page, 1);
  const later = await progress(page, first.step + 40);
  return { first, later };
}

/** What an example tells, once it has done so many steps. */
async function progress(page, steps) {
  let outputs = [];
  for (const deadline = Date.now() + 240_000; Date.now() < deadline; await sleep(100)) {
    outputs = await page.evaluate(() => Array.from(document.querySelectorAll("output"), ({ value }) => value));
    const [, step, loss] = /^step (\d+) of \d+: loss (\d+\.\d+)$/.exec(outputs[0]) ?? [];
    if (Number(step) >= steps) return { step: Number(step), loss: Number(loss), outputs };
    if (outputs[0] && !step) break;
  }
  throw new Error(`no step ${steps}: ${JSON.stringify(outputs)}`);
}
