// What a run has told so far: points of its curves, and what happened beside.
import { Observable } from "./observable.js";

/** A value per step told; `null` where there is none. */
export type Series = (number | null)[];

export interface Happening {
  readonly step: number;
  readonly text: string;
  /** Not worth to be read aloud, and told once only: the last is the one that counts. */
  readonly isRoutine: boolean;
}

export interface History {
  readonly steps: number[];
  readonly loss: Series;
  readonly maskedLmAccuracy: Series;
  readonly nextSentenceAccuracy: Series;
  happenings: readonly Happening[];
  /** Losses of one who finds all words alike, and of one who knows only how frequent they are. */
  uniformLoss?: number;
  unigramLoss?: number;
}

export interface Point {
  readonly step: number;
  readonly lmExampleLoss: number;
  readonly maskedLmAccuracy: number;
  readonly nextSentenceAccuracy?: number | null | undefined;
}

/** More points than this no curve can show. */
const LIMIT = 4000;

export const emptyHistory = (): History => ({ steps: [], loss: [], maskedLmAccuracy: [], nextSentenceAccuracy: [], happenings: [] });

/** The history of the run on the page. It is added to in place; `changes` counts how often. */
export const history = new Observable<History>(emptyHistory());
export const changes = new Observable(0);

export const changed = (): void => changes.set(changes.value + 1);

/** Adds a point, and forgets those that lie behind it: a run that goes on goes back to its last snapshot. */
export function add(to: History, { step, lmExampleLoss, maskedLmAccuracy, nextSentenceAccuracy }: Point): void {
  const series = [to.steps, to.loss, to.maskedLmAccuracy, to.nextSentenceAccuracy];
  while (to.steps.length > 0 && to.steps.at(-1)! >= step) for (const values of series) values.pop();
  to.steps.push(step);
  to.loss.push(lmExampleLoss);
  to.maskedLmAccuracy.push(maskedLmAccuracy);
  to.nextSentenceAccuracy.push(nextSentenceAccuracy ?? null);
  if (to.steps.length > LIMIT) for (const values of series) halve(values);
}

function halve(values: unknown[]): void {
  const kept = values.filter((_, i) => i % 2 === 1);
  values.splice(0, values.length, ...kept);
}

/** Remembers what happened, at the step told last where no other is given. */
export function note(text: string, isRoutine = false, step = history.value.steps.at(-1) ?? 0): void {
  const { happenings } = history.value;
  const others = isRoutine ? happenings.filter((one) => !one.isRoutine) : happenings;
  history.value.happenings = [...others, { step, text, isRoutine }];
  changed();
}
