// Builds the npm package into dist/:
//
//     node scripts/build-web.mjs
//
// Rust → wasm (profile `web`) → wasm-bindgen → wasm-opt, then www/src through the TypeScript compiler. The first time
// it also installs the npm packages and compiles wasm-bindgen's program, which must have the version of the library in
// Cargo.lock. At the end it tells the sizes, and fails when they are over the limit.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { ask } from "./shell.mjs";
import { TARGET, findWasmToolchain } from "./wasm-toolchain.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const DIST = join(ROOT, "dist");
/** What a run learns from that is given no text. */
const CORPUS = "kjv-pentateuch.txt.gz";
const LIMIT = 900_000;

/** Stops the build, with a reason that a person can act upon. */
class Failure extends Error {}

function run(command, args, env = {}) {
  const { status, error } = spawnSync(command, args, { cwd: ROOT, env: { ...process.env, ...env }, stdio: "inherit" });
  if (status !== 0) throw new Failure(`${command} ${args[0]} failed${error ? `: ${error.message}` : ""}`);
}

/** Runs the program that an npm package brings. */
const runNpm = (path, ...args) => run(process.execPath, [join(ROOT, "node_modules", path), ...args]);

/** Installs the npm packages of the lock file, unless those we name are there. */
function installNpmPackages() {
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const isInstalled = ([name, version]) => {
    const manifest = join(ROOT, "node_modules", name, "package.json");
    return existsSync(manifest) && JSON.parse(readFileSync(manifest, "utf8")).version === version;
  };
  if (!Object.entries(devDependencies).every(isInstalled)) run("npm", ["ci", "--no-audit", "--no-fund"]);
}

/** wasm-bindgen's program at the version of the library; compiled at its first use. */
function wasmBindgen(targetFolder) {
  const lock = readFileSync(join(ROOT, "Cargo.lock"), "utf8");
  const version = /^name = "wasm-bindgen"\nversion = "(.*)"$/m.exec(lock)[1];
  const tools = join(targetFolder, "tools");
  const program = join(tools, "bin", `wasm-bindgen${process.platform === "win32" ? ".exe" : ""}`);
  if (ask(program, "--version")?.trim() !== `wasm-bindgen ${version}`) {
    const what = ["wasm-bindgen-cli", "--version", `=${version}`, "--bin", "wasm-bindgen"];
    // It runs for less than a second, but to optimise it takes minutes.
    run("cargo", ["install", ...what, "--root", tools], { CARGO_PROFILE_RELEASE_OPT_LEVEL: "0" });
  }
  return program;
}

function buildWasm() {
  const toolchain = findWasmToolchain();
  if (!toolchain) throw new Failure("there is no Rust for WebAssembly; `node scripts/setup.mjs --web` installs it");
  const metadata = JSON.parse(ask("cargo", "metadata", "--format-version", "1", "--no-deps"));
  const folder = metadata.target_directory;
  // Only this build makes a library of its own kind, so that others need not wait for it.
  const cargo = ["rustc", "--lib", "--crate-type", "cdylib", "--profile", "web", "--target", TARGET, "--locked"];
  run(toolchain.command, [...cargo, ...toolchain.args], toolchain.env);

  const compiled = join(folder, TARGET, "web", "wgpu_bert.wasm");
  const options = ["--target", "web", "--remove-name-section", "--remove-producers-section"];
  run(wasmBindgen(folder), [compiled, "--out-dir", DIST, ...options]);
  const wasm = join(DIST, "wgpu_bert_bg.wasm");
  runNpm("binaryen/bin/wasm-opt", "-Os", wasm, "-o", wasm);
}

/** Prints what a browser downloads, compressed as servers do. */
function reportSizes() {
  const files = readdirSync(DIST).filter((name) => /\.(js|wasm)$/.test(name));
  const kilobytes = (bytes) => `${(bytes / 1000).toFixed(1)} kB`.padStart(10);
  let [raw, compressed] = [0, 0];
  console.log(`${"".padEnd(24)}${"raw".padStart(10)}${"gzip".padStart(10)}`);
  for (const name of files) {
    const bytes = readFileSync(join(DIST, name));
    const gzip = gzipSync(bytes, { level: 9 }).length;
    [raw, compressed] = [raw + bytes.length, compressed + gzip];
    console.log(name.padEnd(24) + kilobytes(bytes.length) + kilobytes(gzip));
  }
  console.log("together".padEnd(24) + kilobytes(raw) + kilobytes(compressed));
  const corpus = statSync(join(DIST, CORPUS)).size;
  console.log(`${CORPUS.padEnd(34)}${kilobytes(corpus)}, only where it is used`);
  if (compressed > LIMIT) throw new Failure(`the package is larger than ${LIMIT / 1000} kB compressed`);
}

function main() {
  try {
    installNpmPackages();
    rmSync(DIST, { recursive: true, force: true });
    mkdirSync(DIST, { recursive: true });
    buildWasm();
    cpSync(join(ROOT, "data", CORPUS), join(DIST, CORPUS));
    for (const part of ["", ".worker", ".node"]) runNpm("typescript/bin/tsc", "-p", `www/tsconfig${part}.json`);
    reportSizes();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    console.error(`build: ${error.message}`);
    return 1;
  }
  return 0;
}

process.exitCode = main();
