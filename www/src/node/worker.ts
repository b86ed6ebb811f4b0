// Gives a thread of Node what a web worker has, then runs the worker in it.
import { readFile } from "node:fs/promises";
import { parentPort } from "node:worker_threads";

if (!parentPort) throw new Error("node/worker.js runs in a thread that wgpu-bert starts");
const page = parentPort;

/** WebGPU, where the npm package `webgpu` is installed. */
async function gpu(): Promise<GPU | undefined> {
  try {
    const { create, globals } = await import("webgpu");
    Object.assign(globalThis, globals);
    return create([]);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

const define = (name: string, value: unknown): void => {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
};

define("self", globalThis);
// Its presence tells wgpu that navigator.gpu may be there.
define("WorkerGlobalScope", class {});
define("navigator", { gpu: await gpu(), userAgent: `Node.js/${process.versions.node}` });
define("postMessage", page.postMessage.bind(page));

// The worker listens for one type only.
define("addEventListener", (_type: "error", listener: (event: Pick<ErrorEvent, "error" | "preventDefault">) => void) => {
  process.on("uncaughtException", (error) => {
    let isHandled = false;
    listener({ error, preventDefault: () => void (isHandled = true) });
    if (!isHandled) throw error;
  });
});

// Node's own does not read files.
const { fetch } = globalThis;
define("fetch", async (input: string | URL | Request, init?: RequestInit) => {
  const address = input instanceof Request ? input.url : String(input);
  if (!address.startsWith("file:")) return fetch(input, init);
  const type = address.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
  return new Response(await readFile(new URL(address)), { headers: { "content-type": type } });
});

// A variable keeps the worker's types out: they are those of a browser.
const worker: string = "../worker.js";
await import(worker);
page.on("message", (data: unknown) => self.onmessage?.({ data } as MessageEvent));
