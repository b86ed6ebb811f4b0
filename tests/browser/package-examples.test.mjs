// The examples, with the packed package, in Chromium: they are what README tells people to write.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import * as vite from "vite";
import { serve } from "../../scripts/serve.mjs";
import { launchChromium } from "./browsers.mjs";
import { install, train, visit, withFolder } from "./packed.mjs";
import { TEXT } from "./small-run.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const chromium = () => launchChromium({ webgpu: true });

function assertLearning(t, { first, later }) {
  t.diagnostic(`loss ${first.loss} at step ${first.step}, ${later.loss} at step ${later.step}`);
  assert.ok(later.loss < first.loss);
}

test("README quotes the examples as they are", () => {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  for (const path of ["static/index.html", "vite/main.ts"]) {
    const content = readFileSync(join(ROOT, "examples", path), "utf8");
    assert.ok(readme.includes(`\n${content}\`\`\`\n`), `README.md does not quote examples/${path} as it is`);
  }
});

test("a static page trains on a file and shows its loss and its guesses", { timeout: 600_000 }, (t) =>
  withFolder(async (folder) => {
    const { project } = install("static", folder);
    const { port, close } = await serve({ folder: project });
    try {
      await visit(chromium, `http://localhost:${port}/`, async (page) => {
        await page.setInputFiles("#text", { name: "text.txt", mimeType: "text/plain", buffer: Buffer.from(TEXT) });
        await page.fill("#sentence", "the cat sat on the [MASK].");
        const told = await train(page);
        assertLearning(t, told);
        assert.match(told.later.outputs[1], /^\S+ [01]\.\d{3}(, \S+ [01]\.\d{3}){4}$/);
      });
    } finally {
      close();
    }
  }));

test("a vite project builds, and trains to the end", { timeout: 600_000 }, (t) =>
  withFolder(async (folder) => {
    const { project, devDependencies } = install("vite", folder);
    assert.equal(devDependencies.vite, vite.version);
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const options = ["--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"];
    execFileSync(process.execPath, [tsc, ...options, join(project, "main.ts")], { stdio: "inherit" });

    await vite.build({ root: project, logLevel: "warn" });
    assert.ok(readdirSync(join(project, "dist/assets")).some((name) => name.startsWith("kjv-pentateuch")));
    const { port, close } = await serve({ folder: join(project, "dist") });
    try {
      await visit(chromium, `http://localhost:${port}/`, async (page) => {
        await page.fill("#text", TEXT);
        assertLearning(t, await train(page));
        const [download] = await Promise.all([page.waitForEvent("download", { timeout: 240_000 }), page.click("a", { timeout: 240_000 })]);
        assert.equal(download.suggestedFilename(), "model.zip");
      });
    } finally {
      close();
    }
  }));

test("vite's development server needs no configuration", { timeout: 600_000 }, (t) =>
  withFolder(async (folder) => {
    const { project } = install("vite", folder);
    const server = await vite.createServer({ root: project, logLevel: "warn", server: { host: "127.0.0.1", port: 0 } });
    try {
      await server.listen();
      await visit(chromium, server.resolvedUrls.local[0], async (page) => {
        // Without a text it learns from the bundled corpus, which has to be found, too.
        assertLearning(t, await train(page));
      });
    } finally {
      await server.close();
    }
  }));
