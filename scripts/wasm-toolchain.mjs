// A Rust compiler for wasm32-unknown-unknown: rustup's, or Debian's that builds browsers, which compiles the standard
// library itself because Debian has no compiled one for this target.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ask, say } from "./shell.mjs";

export const TARGET = "wasm32-unknown-unknown";

/** Debian's packages; they stand beside a rustup toolchain, whose linker they use. */
export const DEBIAN_PACKAGES = ["rustc-web", "cargo-web", "rust-web-src"];

/** How to call cargo so that it builds for the target: `{ command, args, env }`, or `undefined` when there is no way. */
export function findWasmToolchain() {
  const library = ask("rustc", "--print", "target-libdir", "--target", TARGET)?.trim();
  if (library && existsSync(library)) return { command: "cargo", args: [], env: {} };

  const rustc = "/usr/bin/rustc";
  const sources = ask(rustc, "--print", "sysroot")?.trim();
  const linker = rustLld();
  if (!linker || !sources || !existsSync(join(sources, "lib/rustlib/src/rust/library"))) return undefined;
  return {
    command: "/usr/bin/cargo",
    args: ["-Zbuild-std=std,panic_abort"],
    env: {
      RUSTC: rustc,
      // Building the standard library is not yet stable.
      RUSTC_BOOTSTRAP: "1",
      CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER: linker,
    },
  };
}

/** The linker in the toolchain on the PATH. */
function rustLld() {
  const sysroot = ask("rustc", "--print", "sysroot")?.trim();
  const host = /^host: (.*)$/m.exec(ask("rustc", "-vV") ?? "")?.[1];
  const linker = sysroot && host && join(sysroot, "lib/rustlib", host, "bin/rust-lld");
  return linker && existsSync(linker) ? linker : undefined;
}

/** Has rustup fetch the target's standard library, unless that takes longer than a minute. */
export function addRustupTarget() {
  say(`fetching Rust's standard library for ${TARGET}`);
  spawnSync("rustup", ["target", "add", TARGET], { stdio: ["ignore", 2, 2], timeout: 60_000 });
}
