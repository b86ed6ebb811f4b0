/**
 * The package in Node: its worker is a thread, and WebGPU comes from the npm package `webgpu`.
 *
 * @packageDocumentation
 */
import { Worker } from "node:worker_threads";
import { startWith } from "../client.js";
import type { Response } from "../protocol.js";

export * from "../index.js";

startWith((hear, fail) => {
  // Options with which Node was started, such as `--eval`, are not for the thread.
  const thread = new Worker(new URL("./worker.js", import.meta.url), { execArgv: [] });
  // The thread keeps the process alive while it owes an answer, but no longer.
  let owed = 0;
  thread.unref();
  thread.on("message", (response: Response) => {
    if ("id" in response && --owed === 0) thread.unref();
    hear(response);
  });
  thread.on("error", (error: Error) => fail(error.message));
  return {
    postMessage(request) {
      thread.postMessage(request);
      if (owed++ === 0) thread.ref();
    },
    terminate: () => void thread.terminate(),
  };
});
