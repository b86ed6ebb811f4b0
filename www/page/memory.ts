// What the page remembers of a saved run, in IndexedDB under the run's name: what it showed of it. Weights, text and
// options are in the run itself.
import type { DataReport } from "wgpu-bert";
import type { History } from "./history.js";
import type { Options } from "./options.js";
import type { Progress } from "./state.js";

export interface Memory {
  /** What the text is called. */
  readonly textName: string;
  readonly report: DataReport;
  readonly options: Options;
  /** What it was asked last. */
  readonly question: string;
  readonly history: History;
  last?: Progress;
}

const STORE = "runs";

let opened: Promise<IDBDatabase> | undefined;

function open(): Promise<IDBDatabase> {
  return (opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("wgpu-bert-page", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  }));
}

/** Does what `act` asks of the store, and resolves once that is on disk. */
async function transact<T>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const transaction = (await open()).transaction(STORE, mode);
  const request = act(transaction.objectStore(STORE));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

export const recall = (run: string): Promise<Memory | undefined> => transact("readonly", (store) => store.get(run));
export const remember = (run: string, memory: Memory): Promise<unknown> => transact("readwrite", (store) => store.put(memory, run));
export const forget = (run: string): Promise<unknown> => transact("readwrite", (store) => store.delete(run));
