// Serves the page in site/, or another folder, on this machine only:
//
//     node scripts/serve.mjs [PORT]        8080 when none is given
//
// It adds nothing to the files but their types, as any static host does.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const SITE = fileURLToPath(new URL("../site", import.meta.url));
const TYPES = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};

/** The file in `folder` that a path of an address stands for; nothing when it leads elsewhere. */
function fileOf(folder, path) {
  const names = path.split("/").slice(1);
  if (names.at(-1) === "") names.splice(-1, 1, "index.html");
  return names.every((name) => /^\w[\w.-]*$/.test(name)) ? join(folder, ...names) : undefined;
}

/**
 * Starts the server; port 0 takes any that is free. `at` is the folder that the page seems to lie in, `headers` go with
 * every file.
 */
export async function serve({ port = 0, at = "/", folder = SITE, headers = {} } = {}) {
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const file = pathname.startsWith(at) ? fileOf(folder, pathname.slice(at.length - 1)) : undefined;
    try {
      const body = await readFile(file ?? "");
      // A page that was built anew is loaded anew.
      const type = TYPES[extname(file)] ?? "application/octet-stream";
      response.writeHead(200, { "content-type": type, "cache-control": "no-cache", ...headers });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  return { port: server.address().port, close: () => server.close() };
}

async function main() {
  const wanted = Number(process.argv[2] ?? 8080);
  try {
    const { port } = await serve({ port: wanted });
    console.log(`The page is at http://localhost:${port}/ (Ctrl-C ends it)`);
  } catch (error) {
    if (error.code !== "EADDRINUSE") throw error;
    console.error(`Port ${wanted} is taken; choose another: npm start -- 8081`);
    process.exitCode = 1;
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main();
