// Brings this machine to where wgpu-bert runs, and with `--test` to where its tests run:
//
//     node scripts/setup.mjs           a Rust toolchain (checked), a linker, and a Vulkan driver
//     node scripts/setup.mjs --web     a Rust toolchain for WebAssembly
//     node scripts/setup.mjs --test    all of that, both software adapters (Mesa's llvmpipe and Chromium's
//                                      SwiftShader), the browsers Chromium and Firefox, and
//                                      Open MPI
//
// It looks first, says what is missing, and installs that through apt. Where everything is there it changes nothing
// and needs no rights. Exit codes: 0 ready (or nothing we can do here), 1 an installation failed, 2 your turn.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { backportsSource, parseSources, readSourceFiles } from "./apt-sources.mjs";
import { findBrowsers } from "./browsers.mjs";
import { findDrivers, hasUsableGpu } from "./drivers.mjs";
import { isOlder, parseOsRelease, plan } from "./plan.mjs";
import { ask, say } from "./shell.mjs";
import { DEBIAN_PACKAGES, addRustupTarget, findWasmToolchain } from "./wasm-toolchain.mjs";

/** This machine, as `plan` wants to know it. */
function look() {
  const drivers = findDrivers();
  const { chromium, firefox } = findBrowsers();
  return {
    platform: process.platform,
    osRelease: existsSync("/etc/os-release") ? parseOsRelease(readFileSync("/etc/os-release", "utf8")) : {},
    apt: ask("apt-get", "--version") !== undefined,
    linker: ask("cc", "--version") !== undefined,
    loader: ask("/sbin/ldconfig", "-p")?.includes("libvulkan.so.1") ?? false,
    gpu: hasUsableGpu(drivers),
    lavapipe: drivers.lavapipe.length > 0,
    swiftshader: drivers.swiftshader.length > 0,
    chromium: chromium !== undefined,
    firefox: firefox !== undefined,
    mpi: ["mpirun", "mpicc", "clang"].every((program) => ask(program, "--version") !== undefined),
    wasm: findWasmToolchain() !== undefined,
    mesaVersion: ask("dpkg-query", "-W", "-f", "${Version}", "mesa-vulkan-drivers"),
  };
}

/** Runs apt-get and waits for others that hold its locks; true when it succeeded. */
function apt(...args) {
  const options = ["-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3", "-o", "Dpkg::Use-Pty=0"];
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  // The option above covers dpkg's lock, but not the one on the package lists.
  for (const deadline = Date.now() + 300_000; ; ) {
    const { status, stderr } = spawnSync("apt-get", [...options, ...args], { env, stdio: ["ignore", 2, "pipe"], encoding: "utf8" });
    if (status === 0) return true;
    if (!/Could not get lock/.test(stderr) || Date.now() > deadline) {
      process.stderr.write(stderr);
      return false;
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000);
  }
}

let updated = false;
/** Fetches the package lists, once until the sources change. Some other source that fails need not stop us. */
function update() {
  if (!updated) apt("update");
  updated = true;
}

const install = (...args) => apt("install", "-y", "--no-install-recommends", "--no-remove", ...args);

/** Installs from the backports suite; leaves no source file behind when that fails. */
function installFromBackports(codename, packages) {
  const source = backportsSource(codename, parseSources(readSourceFiles()));
  if (!source) return false;
  const file = `/etc/apt/sources.list.d/wgpu-bert-backports.${source.extension}`;
  if (!source.configured) {
    say(`adding the suite ${codename}-backports in ${file}`);
    writeFileSync(file, source.text);
    updated = false;
  }
  update();
  if (install("-t", `${codename}-backports`, ...packages)) return true;
  if (!source.configured) {
    rmSync(file);
    updated = false;
  }
  return false;
}

/** Carries out one step; true when its packages are installed. */
function carryOut(step) {
  say(`${step.why}: installing ${step.packages.join(" ")}`);
  if (step.backports) {
    if (installFromBackports(step.backports, step.packages)) return true;
    say(`nothing to be had from ${step.backports}-backports`);
    if (!step.needed) return false;
  }
  update();
  return install(...step.packages);
}

/** Says what is wrong with the Rust toolchain, or nothing. */
function rustProblem() {
  // Under sudo the PATH is root's, which says nothing about the one who will build.
  if (process.env.SUDO_USER) return undefined;
  const needed = /^rust-version = "(.*)"/m.exec(readFileSync(new URL("../Cargo.toml", import.meta.url), "utf8"))[1];
  const version = /\d+\.\d+\.\d+/.exec(ask("cargo", "--version") ?? "")?.[0];
  if (!version) return `Rust is missing. Install version ${needed} or later as https://rustup.rs says, then run this again.`;
  if (isOlder(version, needed)) return `Rust ${version} is too old, ${needed} or later is needed: run \`rustup update stable\`.`;
  return undefined;
}

function main() {
  const flags = process.argv.slice(2);
  const unknown = flags.find((flag) => !["--web", "--test"].includes(flag));
  if (unknown) {
    say(`unknown option ${unknown}; usage: node scripts/setup.mjs [--web] [--test]`);
    return 2;
  }
  const test = flags.includes("--test");
  // Under sudo the toolchain on the PATH is root's, so --web says that one is needed.
  const web = flags.includes("--web") || (test && !process.env.SUDO_USER);
  if (web && !findWasmToolchain()) addRustupTarget();
  const { steps, advice } = plan(look(), { test, web });
  for (const line of advice) say(line);

  let code = 0;
  const root = process.getuid?.() === 0;
  if (steps.length > 0 && !root) {
    for (const step of steps) say(`${step.why}: ${step.packages.join(" ")} ${step.needed ? "must" : "should"} be installed`);
    const goals = [test && "--test", steps.some((step) => step.packages === DEBIAN_PACKAGES) && "--web"].filter(Boolean);
    say(["to install, run: sudo", process.execPath, fileURLToPath(import.meta.url), ...goals].join(" "));
    if (steps.some((step) => step.needed)) code = 2;
  } else {
    for (const step of steps) {
      if (carryOut(step) || !step.needed) continue;
      say(`could not install ${step.packages.join(" ")}; apt's own words are above`);
      return 1;
    }
  }
  const rust = rustProblem();
  if (rust) {
    say(rust);
    code = 2;
  }
  if (code === 0 && advice.length === 0) say("ready");
  return code;
}

process.exitCode = main();
