// Serves the package to the browsers under test, with the strict content security policy that it promises to bear.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FOLDERS = { dist: "dist", golden: "tests/data/golden" };
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".json": "application/json", ".wasm": "application/wasm" };
const POLICY = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'";

/** The file that a path of a URL stands for. */
function fileOf(path) {
  if (path === "/") return join(ROOT, "tests/browser/page.html");
  const [, folder, ...names] = path.split("/");
  const isPlain = names.length > 0 && names.every((name) => /^[\w-][\w.-]*$/.test(name));
  return isPlain && FOLDERS[folder] ? join(ROOT, FOLDERS[folder], ...names) : undefined;
}

/**
 * Starts a server on a free port of the loopback interface. `workerPrelude` is run by the package's worker before its
 * own code: it takes things away from the browser that a test wants to see missing. The paths in `missing` are not
 * served.
 */
export async function serve({ workerPrelude = "", missing = [] } = {}) {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    if (path === "/favicon.ico") return response.writeHead(204).end();
    try {
      if (missing.includes(path)) throw new Error("missing on purpose");
      let body = await readFile(fileOf(path) ?? "");
      if (path === "/dist/worker.js") body = `${workerPrelude}\n${body}`;
      const type = TYPES[extname(path)] ?? (path === "/" ? TYPES[".html"] : "application/octet-stream");
      response.writeHead(200, { "content-type": type, "content-security-policy": POLICY, "cache-control": "no-store" });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: server.address().port, close: () => server.close() };
}
