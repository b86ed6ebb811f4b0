// The page's end of the conversation with the worker.
import { OptionError } from "./option-error.js";
import type { CallbackPoint, Method, Methods, Rejection, Request, Response } from "./protocol.js";
import { StrategyError } from "./strategy-error.js";
import type { TrainingEvent } from "./types.js";

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** The worker, as far as this end needs it. */
export interface WorkerPort {
  postMessage(request: Request): void;
  terminate(): void;
}

/** Starts a worker, which `hear`s its responses and `fail`s when it ends without being asked to. */
export type StartWorker = (hear: (response: Response) => void, fail: (message: string) => void) => WorkerPort;

let start: StartWorker = startWebWorker;
let worker: WorkerPort | undefined;
let lastId = 0;
const unanswered = new Map<number, Pending>();
const listeners = new Map<number, RunListener>();

/** Has the worker run a method. The worker is started by the first request. */
export function ask<M extends Method>(
  method: M,
  ...parameters: Parameters<Methods[M]>
): Promise<ReturnType<Methods[M]>> {
  return new Promise((resolve, reject) => {
    worker ??= startWorker();
    const id = ++lastId;
    try {
      worker.postMessage({ id, method, parameters } as Request);
    } catch (error) {
      const field = findUncloneable(parameters.find((parameter) => !isCloneable(parameter)));
      throw field ? new OptionError(`${field}: ${(error as Error).message}`, field) : error;
    }
    unanswered.set(id, { resolve: resolve as (value: unknown) => void, reject });
  });
}

function startWorker(): WorkerPort {
  // A worker that broke down may have more to say, which is nothing to the next one.
  const started: WorkerPort = start(
    (response) => void (worker === started && hear(response)),
    (message) => void (worker === started && breakDown(`the worker of wgpu-bert failed: ${message}`)),
  );
  return started;
}

/** The option that cannot be sent to a worker, such as a function; a dot leads to one inside another. */
function findUncloneable(value: unknown, path = ""): string {
  if (typeof value !== "object" || value === null) return path;
  const wrong = Object.entries(value).find(([, inner]) => !isCloneable(inner));
  return wrong ? findUncloneable(wrong[1], path ? `${path}.${wrong[0]}` : wrong[0]) : path;
}

function isCloneable(value: unknown): boolean {
  try {
    structuredClone(value);
    return true;
  } catch {
    return false;
  }
}

/** Whoever hears what the worker tells of a run, and calls its callbacks. */
export interface RunListener {
  hear(event: TrainingEvent): void;
  callBack(point: CallbackPoint): void;
}

let lastNumber = 0;

/** A number for a run, or for the reading of a text, that no other has. */
export const nextNumber = (): number => ++lastNumber;

/** Has `listener` hear of a run or of a reading; gives back how to end that. */
export function listen(run: number, listener: RunListener): () => void {
  listeners.set(run, listener);
  return () => listeners.delete(run);
}

/** Has another kind of worker started: not everything that runs JavaScript is a browser. */
export function startWith(other: StartWorker): void {
  start = other;
}

function startWebWorker(hear: (response: Response) => void, fail: (message: string) => void): WorkerPort {
  // Bundlers look for exactly this expression.
  const started = isForeign() ? foreignWorker() : new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  started.onmessage = ({ data: response }: MessageEvent<Response>) => hear(response);
  started.onerror = (event) => fail(event.message || "its file was not loaded");
  return started;
}

/** This file's address, by a name under which bundlers do not look for files to bundle. A few leave a `file:` address. */
const HERE = import.meta.url;

/** Whether the package comes from another origin than the page. */
function isForeign(): boolean {
  const { protocol, origin } = new URL(HERE);
  return protocol.startsWith("http") && origin !== self.origin;
}

/** A worker of this page's origin, since there can be no other, that imports the file of another. */
function foreignWorker(): Worker {
  const script = `import ${JSON.stringify(new URL("worker.js", HERE).href)};`;
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const started = new Worker(address, { type: "module" });
  started.addEventListener("message", () => URL.revokeObjectURL(address), { once: true });
  return started;
}

function hear(response: Response): void {
  if ("panic" in response) return breakDown(response.panic);
  if ("event" in response) return listeners.get(response.run)?.hear(response.event);
  if ("callback" in response) return listeners.get(response.run)?.callBack(response.callback);
  const pending = unanswered.get(response.id);
  unanswered.delete(response.id);
  if ("value" in response) pending?.resolve(response.value);
  else pending?.reject(toError(response.error));
}

/** Nothing more will come from this worker; the next request starts a new one. */
function breakDown(message: string): void {
  worker?.terminate();
  worker = undefined;
  for (const { reject } of unanswered.values()) reject(new Error(message));
  unanswered.clear();
}

function toError({ name, message, reason, advice, field }: Rejection): Error {
  if (reason !== undefined) return new StrategyError(message, reason, advice ?? "");
  if (field !== undefined) return new OptionError(message, field);
  return Object.assign(new Error(message), { name });
}
