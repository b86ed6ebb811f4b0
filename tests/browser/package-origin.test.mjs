// A page of one origin and the package on another, as on a content delivery network.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { serve } from "../../scripts/serve.mjs";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { install, train, visit, withFolder } from "./packed.mjs";

for (const [browser, launch] of [
  ["Chromium", () => launchChromium({ webgpu: true })],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU })],
]) {
  test(`${browser} trains with the package of another origin`, { timeout: 600_000 }, (t) =>
    withFolder(async (folder) => {
      const { project } = install("static", folder);
      const other = await serve({ folder: join(project, "node_modules/wgpu-bert"), headers: { "access-control-allow-origin": "*" } });
      const origin = `http://localhost:${other.port}`;
      const page = join(project, "index.html");
      writeFileSync(page, readFileSync(page, "utf8").replace("./node_modules/wgpu-bert", origin));
      // The example has its script in the page; the rest is what README says.
      const policy = `default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' ${origin}; worker-src blob: ${origin}; connect-src ${origin}`;
      const own = await serve({ folder: project, headers: { "content-security-policy": policy } });
      try {
        const { first, later } = await visit(launch, `http://localhost:${own.port}/`, train);
        t.diagnostic(`loss ${first.loss} at step ${first.step}, ${later.loss} at step ${later.step}`);
        assert.ok(later.loss < first.loss);
      } finally {
        own.close();
        other.close();
      }
    }));
}
