// Everything that computes runs here, so that the page stays responsive.
import init, * as wasm from "./wgpu_bert.js";
import { Conductor } from "./conductor.js";
import type { ReadingProgress } from "./data-types.js";
import type { Evaluation } from "./evaluation-types.js";
import { Kept } from "./kept.js";
import { kernelStore } from "./kernel-store.js";
import { OptionError } from "./option-error.js";
import type { CallbackPoint, FillMaskQuestion, Given, Method, Methods, ModelHandle, Rejection, Request, Response } from "./protocol.js";
import { RunFolder, checkName, damaged, nameOf } from "./run-folder.js";
import { host } from "./host.js";
import { readModelFiles } from "./model-files.js";
import { Reading } from "./open-reading.js";
import { sourcesOf } from "./sources.js";
import type { MaskGuesses } from "./types.js";

type Handlers = {
  [M in Method]: (...parameters: Parameters<Methods[M]>) => ReturnType<Methods[M]> | Promise<ReturnType<Methods[M]>>;
};

/** Examples and their text's workspace. */
interface Examples {
  readonly data: wasm.PretrainingData;
  free(): void;
}

/** Examples that become records at a time. */
const PART = 10_000;

/** Texts being read, by the numbers of their requests, and how to end that. */
const readings = new Map<number, () => void>();

const runs = new Map<number, Conductor>();
const models = new Kept<wasm.Model>("the model is gone: it was closed, or the worker broke down");
const allData = new Kept<Examples>("the examples are gone: they were closed, or the worker broke down");

const methods: Handlers = {
  surveyAdapters: wasm.surveyAdapters,
  getDistributionStrategy: wasm.getDistributionStrategy,
  selfTest: wasm.selfTest,

  trainVocabulary: (reading, text, options) =>
    withReading(reading, { text }, async (opened) => {
      try {
        return await wasm.trainVocabulary(opened, options);
      } finally {
        await opened.close();
      }
    }),
  createPretrainingData: (reading, text, options) =>
    withReading(reading, { text }, async (opened) => {
      try {
        const data = await wasm.createPretrainingData(opened, options);
        opened.textIsRead();
        const free = (): void => {
          data.free();
          void opened.close();
        };
        return { id: allData.keep({ data, free }), report: data.report };
      } catch (error) {
        await opened.close();
        throw error;
      }
    }),
  stopReading: (reading) => readings.get(reading)?.(),
  examplesOfData: (data, count) => allData.use(data, ({ data: examples }) => examples.examples(count)),
  toTFRecord: (data) =>
    allData.use(data, ({ data: examples }) => {
      const { instances } = examples.report;
      // In parts, so that the wasm module, whose memory never shrinks, need not hold the whole file.
      const parts: BlobPart[] = [];
      for (let at = 0; at < instances; at += PART) parts.push(examples.toTFRecord(at, PART) as Uint8Array<ArrayBuffer>);
      return new Blob(parts);
    }),
  closeData: (data) => allData.close(data),

  planRun: wasm.planRun,
  measureStep: wasm.measureStep,

  async runBertPretrain(run, strategy, given, options, hasCallbacks) {
    const callBack = hasCallbacks ? (callback: CallbackPoint): void => post({ run, callback }) : undefined;
    const conductor = new Conductor(sourcesOf(given), options, (event) => post({ run, event }), callBack);
    const train = async (): Promise<wasm.Model> => {
      try {
        return await wasm.runBertPretrain(strategy, conductor);
      } finally {
        await conductor.close();
      }
    };
    runs.set(run, conductor);
    try {
      // Whether there is a strategy is the first question, so a wrong name is left to the run to refuse; browsers have
      // neither locks nor WebGPU on pages they do not trust.
      const { checkpoint } = options;
      const isLocked = typeof checkpoint === "string" && navigator.locks;
      const model = await (isLocked ? RunFolder.locked(checkpoint.slice("opfs:".length), train) : train());
      if (conductor.aborted) {
        model.free();
        throw new DOMException("the run was aborted", "AbortError");
      }
      const handle = keep(model);
      conductor.end({ fillMask: (question) => fillMask(handle.id, question) });
      return conductor.best ? { ...handle, best: conductor.best } : handle;
    } catch (error) {
      conductor.end(undefined, error);
      throw error;
    } finally {
      runs.delete(run);
    }
  },
  calledBack: (run, answer) => runs.get(run)?.calledBack(answer),
  pauseRun: (run) => runs.get(run)?.pause(),
  resumeRun: (run) => runs.get(run)?.resume(),
  stopRun: (run) => runs.get(run)?.stop(),
  abortRun: (run) => runs.get(run)?.abort(),
  saveRun: (run) => runs.get(run)?.save(),
  fillMaskInRun: (run, question) => runs.get(run)?.fillMask(question),
  examplesInRun: (run, count) => runs.get(run)?.examples(count),

  loadModel: async (source) => keep(typeof source === "string" ? await loadSaved(source) : wasm.loadModel(await readModelFiles(source))),
  fillMask,
  evaluate: (reading, model, { evaluationText, evaluationRecords }, options) =>
    withReading(reading, { text: evaluationText, records: evaluationRecords }, async (opened) => {
      try {
        return (await models.use(model, (kept) => kept.evaluate(opened, options))) as Evaluation;
      } finally {
        await opened.close();
      }
    }),
  exportHuggingFace: (model) => models.use(model, (kept) => kept.exportHuggingFace() as Uint8Array<ArrayBuffer>),
  closeModel: (model) => models.close(model),

  savedRuns: () => RunFolder.list(),
  async renameRun(name, to) {
    checkName(name, "name");
    checkName(to, "to");
    if (name === to) throw new OptionError(`to: the run is called "${to}" already`, "to");
    await RunFolder.locked(name, () =>
      RunFolder.locked(to, async () => {
        const folder = await RunFolder.open(name);
        if (!folder) throw noSuchRun(name);
        if (await (await RunFolder.open(to))?.record()) throw new OptionError(`to: there is a run "${to}" already`, "to");
        await RunFolder.remove(to);
        await folder.copyTo(to);
        await RunFolder.remove(name);
      }),
    );
  },
  async deleteRun(name) {
    checkName(name, "name");
    await RunFolder.locked(name, () => RunFolder.remove(name));
  },
};

/** Opens a text or records for a request, which may be told to end. */
async function withReading<T>(reading: number, given: Given, use: (opened: Reading) => Promise<T>): Promise<T> {
  let stopped = false;
  readings.set(reading, () => (stopped = true));
  try {
    const reader = { tell: (progress: ReadingProgress) => post({ run: reading, event: { kind: "reading", ...progress } }), goesOn: () => !stopped };
    const { text, records } = sourcesOf(given);
    return await use(await (records ? Reading.records(records, reader) : Reading.text(text, reader)));
  } finally {
    readings.delete(reading);
  }
}

/** What a model guesses. */
function fillMask(model: number, { text, topK }: FillMaskQuestion): Promise<MaskGuesses> {
  return models.use(model, (kept) => kept.fillMask(text, topK) as Promise<MaskGuesses>);
}

/** Behind a run's name: its model with the lowest loss in an evaluation. */
const BEST = "/best";

/** The model of a saved run, as it was when it was saved last, or when it was best. */
async function loadSaved(location: string): Promise<wasm.Model> {
  const wantsBest = location.endsWith(BEST);
  const name = nameOf(wantsBest ? location.slice(0, -BEST.length) : location, "source");
  const folder = await RunFolder.open(name);
  const record = await folder?.record();
  if (!folder || !record) throw noSuchRun(name);
  const snapshot = wantsBest ? await folder.best() : await folder.newest();
  if (!snapshot && wantsBest) throw Object.assign(new Error(`the run "${name}" has no best model: it was not evaluated`), { name: "SavedRunError" });
  if (!snapshot) throw damaged(name, "its last state");
  return wasm.loadSnapshot(record.options, record.vocabulary, snapshot.step, snapshot.bytes);
}

const noSuchRun = (name: string): Error => Object.assign(new Error(`there is no saved run "${name}"`), { name: "SavedRunError" });

const keep = (model: wasm.Model): ModelHandle => ({ id: models.keep(model), config: model.config });

const post = (response: Response, transfer: Transferable[] = []): void => self.postMessage(response, transfer);

const ready = init().then(() => {
  wasm.onPanic((message: string) => post({ panic: message }));
  wasm.setHost(host);
  wasm.setKernelStore(kernelStore);
});

/** Calls a method; the types of its parameters went through `postMessage` unseen. */
async function call({ method, parameters }: Request): Promise<unknown> {
  await ready;
  return (methods[method] as (...parameters: unknown[]) => unknown)(...parameters);
}

function describe(error: unknown): Rejection {
  if (error instanceof OptionError) return { name: error.name, message: error.message, field: error.field };
  // What our own code rejects with has these fields already.
  return error instanceof Error ? { name: error.name, message: error.message } : (error as Rejection);
}

/**
 * What stops wasm without a panic, as a stack or a memory that is too small does, leaves it in no state to be called
 * again.
 */
function tellTrap(error: unknown): boolean {
  const isTrap = error instanceof WebAssembly.RuntimeError || error instanceof RangeError;
  if (isTrap) post({ panic: "wgpu-bert ran out of memory: take a smaller text, fewer examples, or a smaller model" });
  return isTrap;
}

self.onmessage = ({ data: request }: MessageEvent<Request>): void => {
  const { id } = request;
  call(request).then(
    (value) => post({ id, value }, value instanceof Uint8Array ? [value.buffer] : []),
    (error: unknown) => tellTrap(error) || post({ id, error: describe(error) }),
  );
};

// Where wasm goes on after a pause nobody waits for what it throws.
self.addEventListener("error", (event) => {
  if (tellTrap(event.error)) event.preventDefault();
});
