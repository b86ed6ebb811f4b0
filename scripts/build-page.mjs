// Builds the page into site/: static files with relative addresses, for any host and any folder on it.
//
//     node scripts/build-page.mjs      after scripts/build-web.mjs, whose package it takes in as it is
//
// The package is no part of the bundle: it finds its worker and its wasm beside itself.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const [DIST, PAGE, SITE] = ["dist", "www/page", "site"].map((folder) => join(ROOT, folder));

/** Leaves the package's import for the browser to resolve. */
const wgpuBert = {
  name: "wgpu-bert",
  setup: (build) => build.onResolve({ filter: /^wgpu-bert$/ }, () => ({ path: "./wgpu-bert/index.js", external: true })),
};

function check() {
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  return spawnSync(process.execPath, [tsc, "-p", PAGE], { cwd: ROOT, stdio: "inherit" }).status === 0;
}

async function bundle() {
  // Installed by scripts/build-web.mjs, so not there when this file is read first.
  const { build } = await import("esbuild");
  const common = { outdir: SITE, bundle: true, minify: true, target: "es2022", logLevel: "warning" };
  await build({ ...common, format: "esm", plugins: [wgpuBert], entryPoints: [join(PAGE, "main.ts"), join(PAGE, "style.css")] });
  // A classic script, which the browser runs before it paints.
  await build({ ...common, format: "iife", entryPoints: [join(PAGE, "theme.ts")] });
}

async function main() {
  if (!existsSync(join(DIST, "index.js"))) {
    console.error("page: there is no package in dist/; `npm run build` makes it");
    return 1;
  }
  if (!check()) return 1;
  rmSync(SITE, { recursive: true, force: true });
  await bundle();
  for (const name of ["index.html", "icon.svg"]) cpSync(join(PAGE, name), join(SITE, name));
  for (const name of readdirSync(DIST).filter((name) => /\.(js|wasm|gz)$/.test(name))) cpSync(join(DIST, name), join(SITE, "wgpu-bert", name));
  return 0;
}

process.exitCode = await main();
