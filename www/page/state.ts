// What the page knows. Panels set their part and watch the others'.
import type { DataReport, Example, Model, Strategy, StrategyError, TextSource, TrainingEvent, TrainingRun } from "wgpu-bert";
import { Observable } from "./observable.js";
import { type Options, defaultsOf } from "./options.js";

/** A text as the reader gave it. */
export interface Given {
  /** What it is called, to show and to name a run after. */
  readonly name: string;
  /** `undefined`: the bundled corpus. */
  readonly source: TextSource | undefined;
}

/** `saved` is the text of a saved run, which only that run can read. */
export type Text =
  | { readonly kind: "empty" }
  | { readonly kind: "reading"; readonly given: Given }
  /** `share`: how much of it is done, once that is known. */
  | { readonly kind: "vocabulary" | "counting"; readonly given: Given; readonly share?: number }
  | { readonly kind: "ready"; readonly given: Given; readonly vocabulary: string; readonly report: DataReport; readonly examples: readonly Example[] }
  | { readonly kind: "saved"; readonly given: Pick<Given, "name">; readonly report: DataReport }
  | { readonly kind: "failed"; readonly given: Given; readonly message: string };

export type Device =
  | { readonly kind: "looking" }
  | { readonly kind: "found"; readonly strategy: Strategy }
  | { readonly kind: "absent"; readonly error: StrategyError }
  | { readonly kind: "failed"; readonly message: string };

/** A run under way, and the name it is saved under. */
interface Underway {
  readonly name: string;
  readonly run: TrainingRun;
}

/** A run from its start to what became of it. */
export type Phase =
  | { readonly kind: "none" }
  | ({ readonly kind: "preparing"; readonly what: string; readonly share?: number } & Underway)
  | ({ readonly kind: "training" | "paused" | "stopping" } & Underway)
  /** The device is lost; on the next one the run goes on, or stays paused. */
  | ({ readonly kind: "recovering"; readonly wasPaused: boolean } & Underway)
  | { readonly kind: "finished"; readonly name: string; readonly stopped: boolean }
  | { readonly kind: "failed"; readonly name: string; readonly message: string; readonly diverged: boolean };

/** The last numbers of a run. */
export type Progress = Extract<TrainingEvent, { kind: "progress" }>;

/** What can guess masked words now: a model, or a run that is learning and whose guesses change by themselves. */
export type Guesser =
  | { readonly kind: "model"; readonly name: string; readonly source: Model }
  | { readonly kind: "run"; readonly name: string; readonly source: TrainingRun };

export const text = new Observable<Text>({ kind: "empty" });
export const options = new Observable<Options>(defaultsOf("nano"));
export const device = new Observable<Device>({ kind: "looking" });
export const phase = new Observable<Phase>({ kind: "none" });
/** The last numbers of the run on the page. */
export const last = new Observable<Progress | undefined>(undefined);
/** What the run on the page last warned of. */
export const notice = new Observable("");
/** What the reader asks, or is suggested to ask. */
export const question = new Observable("the lord spake unto [MASK], saying");
export const guesser = new Observable<Guesser | undefined>(undefined);

/** Is a run under way, so that text and model must stay? */
export const isBusy = (now: Phase): boolean => "run" in now;

/** Another guesser takes over; a model that is no longer asked gives its memory back. */
export function setGuesser(next: Guesser | undefined): void {
  const before = guesser.value;
  guesser.set(next);
  if (before?.kind === "model" && before.source !== next?.source) before.source.close();
}
