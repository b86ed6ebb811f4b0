// Runs every check, stage by stage, and stops at the first that fails:
//
//     node scripts/test.mjs
//
// Whatever touches a GPU runs on both software adapters, each with the runtime checks of wgpu's shaders on and off.
// A test chooses neither: `VK_DRIVER_FILES` makes the Vulkan loader offer one adapter only, and the helper with which
// tests open a device reads `WGPU_BERT_RUNTIME_CHECKS`. The npm package and the page are built and tried in browsers and
// in Node. A missing driver or browser is a failure, and so are an ignored test and a test stage in which none ran.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findDrivers } from "./drivers.mjs";
import { countTests } from "./results.mjs";
import { TARGET, findWasmToolchain } from "./wasm-toolchain.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Stops the run, with a reason that a person can act upon. */
class Failure extends Error {}

/** The environment in which `driverFile` is all there is. */
function adapterEnv(driverFile, runtimeChecks) {
  return {
    VK_DRIVER_FILES: driverFile,
    // The same for Vulkan loaders before 1.3.207.
    VK_ICD_FILENAMES: driverFile,
    // Without an EGL vendor, Mesa's OpenGL cannot stand in for a Vulkan driver that fails.
    __EGL_VENDOR_LIBRARY_FILENAMES: "/dev/null",
    WGPU_BERT_RUNTIME_CHECKS: runtimeChecks ? "1" : "0",
  };
}

/** The two software adapters. Where the system has no Vulkan, its own adapter stands in for both. */
function adapters() {
  if (process.platform !== "linux") {
    return [{ name: "this system's adapter", env: (checks) => ({ WGPU_BERT_RUNTIME_CHECKS: checks ? "1" : "0" }) }];
  }
  const drivers = findDrivers();
  return [
    { name: "llvmpipe", file: drivers.lavapipe[0] },
    { name: "SwiftShader", file: drivers.swiftshader[0] },
  ].map(({ name, file }) => {
    if (!file) throw new Failure(`no Vulkan driver file of ${name} found; \`node scripts/setup.mjs --test\` installs it`);
    return { name: `${name} (${file})`, env: (checks) => adapterEnv(file, checks) };
  });
}

/** Runs a command, shows its output as it comes, and gives back what it wrote to stdout. */
function run(command, args, env) {
  return new Promise((resolve, reject) => {
    const options = { cwd: ROOT, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "inherit"] };
    const child = spawn(command, args, options);
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      output += text;
      process.stdout.write(text);
    });
    child.on("error", (error) => reject(new Failure(`${command} could not be started: ${error.message}`)));
    child.on("close", (code, signal) => {
      if (code === 0) resolve(output);
      else reject(new Failure(`${command} ended with ${signal ?? `exit code ${code}`}`));
    });
  });
}

/** Clippy on what is compiled for browsers only. With the package's profile it finds compiled what that needs too. */
function webClippy() {
  const toolchain = findWasmToolchain();
  if (!toolchain) throw new Failure("there is no Rust for WebAssembly; `node scripts/setup.mjs --web` installs it");
  // Another compiler's clippy has other lints than the one we follow.
  if (toolchain.command !== "cargo") return { unavailable: `${toolchain.command} builds for ${TARGET}, and brings no clippy` };
  const args = ["--lib", "--profile", "web", "--target", TARGET, "--locked", "--", "-D", "warnings"];
  return { command: toolchain.command, args: ["clippy", ...args], env: toolchain.env };
}

/** The stages in order. Those with `tests` must run some, and none may be ignored. */
function stages() {
  const [first, ...others] = adapters();
  const cargo = (subcommand, ...args) => ({ command: "cargo", args: [subcommand, "--locked", ...args] });
  // What a run does around the kernels is the same with and without the checks in their shaders.
  const runs = ["training", "resume", "callbacks", "evaluate", "run_plan", "distribution", "mirrored", "all_reduce", "workers", "device_loss"];
  const gpuWithout = (names) => cargo("test", "--test", "gpu", "--", ...names.flatMap((name) => ["--skip", `${name}::`]));
  const kernels = gpuWithout(runs);
  // When callbacks are called is the host's matter, whatever the adapter.
  const onOthers = gpuWithout(["callbacks"]);
  const node = (...args) => ({ command: process.execPath, args });
  const nodeTest = (...files) => ({ ...node("--test", "--test-reporter=spec", ...files), tests: true });
  const testsIn = (folder) => {
    const names = readdirSync(join(ROOT, folder)).filter((name) => name.endsWith(".test.mjs"));
    return names.map((name) => `${folder}/${name}`);
  };
  // Everything else is the same with MPI.
  const withMpi = (subcommand, ...args) => cargo(subcommand, "--features", "mpi", "--test", "mpi", ...args);
  const ofMpi = [
    { name: "clippy with MPI", ...withMpi("clippy", "--lib", "--bins", "--", "-D", "warnings") },
    // One after another: each starts several processes.
    { name: "tests with MPI", ...withMpi("test", "--", "--test-threads=1"), env: first.env(true), tests: true },
  ].filter(() => process.platform === "linux");
  return [
    { name: "set-up script", ...nodeTest("scripts/setup.test.mjs") },
    { name: "format", command: "cargo", args: ["fmt", "--check"] },
    { name: "clippy", ...cargo("clippy", "--all-targets", "--", "-D", "warnings") },
    { name: "clippy for the web", ...webClippy() },
    { name: "docs", ...cargo("doc", "--no-deps"), env: { RUSTDOCFLAGS: "-D warnings" } },
    { name: "build", ...cargo("test", "--no-run") },
    { name: `all tests on ${first.name}`, ...cargo("test"), env: first.env(true), tests: true },
    { name: `GPU tests on ${first.name}, runtime checks off`, ...kernels, env: first.env(false), tests: true },
    ...ofMpi,
    ...others.flatMap(({ name, env }) => [
      { name: `GPU tests on ${name}`, ...onOthers, env: env(true), tests: true },
      { name: `GPU tests on ${name}, runtime checks off`, ...kernels, env: env(false), tests: true },
    ]),
    { name: "npm package", ...node("scripts/build-web.mjs") },
    { name: "page", ...node("scripts/build-page.mjs") },
    // One browser at a time: each takes the whole machine.
    { name: "browsers", ...nodeTest("--test-concurrency=1", ...testsIn("tests/browser")) },
    { name: "Node", ...nodeTest(...testsIn("tests/node")) },
    // Into the same folder: in one of its own all dependencies would be compiled again.
    { name: "crate", ...cargo("package", "--allow-dirty", "--target-dir", process.env.CARGO_TARGET_DIR ?? "target") },
  ];
}

async function main() {
  const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(1)} s`;
  const start = Date.now();
  const total = { passed: 0, failed: 0 };
  let stage = { name: "adapters" };
  try {
    for (stage of stages()) {
      const begin = Date.now();
      console.log(`\n=== ${stage.name}`);
      if (stage.unavailable) {
        console.log(`=== ${stage.name}: not run: ${stage.unavailable}`);
        continue;
      }
      const output = await run(stage.command, stage.args, stage.env);
      if (stage.tests) {
        const { passed, failed, ignored } = countTests(output);
        if (passed === 0) throw new Failure("no test ran");
        if (ignored > 0) throw new Failure(`${ignored} tests are ignored; every test must run`);
        total.passed += passed;
        total.failed += failed;
      }
      console.log(`=== ${stage.name}: ${seconds(begin)}`);
    }
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    console.error(`\n=== FAILED: ${stage.name}, after ${seconds(start)}: ${error.message}`);
    return 1;
  }
  console.log(`\nall stages passed in ${seconds(start)}`);
  console.log(`${total.passed} passed, ${total.failed} failed`);
  return 0;
}

process.exitCode = await main();
