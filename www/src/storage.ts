// What the browser grants a run that is saved: whether its files are safe, and whether there is room for them.
import type { TrainingEvent } from "./types.js";

/** Bytes of each number that is trained: itself and two moments. */
const BYTES = 12;

/** Asks the browser not to clear the storage. Some ask a person, who may take their time, so nobody waits for it. */
export async function askToPersist(): Promise<boolean> {
  return (await globalThis.navigator?.storage?.persist?.().catch(() => false)) ?? false;
}

/**
 * Tells, before the first step, what the storage grants a run of so many numbers, of which `slots` more snapshots are to
 * be kept, as soon as that is known; and in words when there is too little room.
 */
export async function tellStorage(parameters: number, slots: number, persisted: Promise<boolean>, tell: (event: TrainingEvent) => void): Promise<void> {
  const { quota, usage = 0 } = (await globalThis.navigator?.storage?.estimate?.().catch(() => undefined)) ?? {};
  if (quota === undefined) return;
  const [needed, available] = [parameters * BYTES * slots, Math.max(quota - usage, 0)];
  if (needed > available) {
    const rest = "Training starts all the same, but may not be saved. Deleting saved runs, or other data of this site, makes room.";
    tell({ kind: "notice", message: `Saving this run takes ${megabytes(needed)}, and the browser has room for ${megabytes(available)} more. ${rest}` });
  }
  tell({ kind: "storage", persisted: await persisted, needed, available });
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toLocaleString("en", { maximumFractionDigits: bytes < 1e7 ? 1 : 0 })} MB`;
