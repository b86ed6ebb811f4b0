// The runs that this browser has saved.
import { type SavedRun, savedRuns } from "wgpu-bert";
import { Observable } from "./observable.js";

/** Those saved last first. */
export const saved = new Observable<readonly SavedRun[]>([]);

/** Names of runs that are as good as deleted: as long as nobody takes that back, they are not listed. */
export const leaving = new Set<string>();

export async function refreshSaved(): Promise<void> {
  const runs = await savedRuns();
  saved.set(runs.filter(({ name }) => !leaving.has(name)));
}

/** Has it steps left? */
export const canGoOn = ({ step, totalSteps }: SavedRun): boolean => step < totalSteps;
