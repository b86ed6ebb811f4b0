// Where a run is saved: opened before it starts, written while it trains.
import type { BestEvaluation } from "./evaluation-types.js";
import { OptionError } from "./option-error.js";
import { RunFolder, sumOf, type RunRecord, type Snapshot } from "./run-folder.js";
import { SOURCES, isEmpty, type Sources } from "./sources.js";

/** What a run is made of. */
export interface RunSource {
  readonly options: Readonly<Record<string, unknown>>;
  readonly sources: Sources;
}

/** Options that change nothing of what a run computes. */
const FREE = ["stepsPerLoop", "recompute", "numEvalPerEpoch"];

export class Checkpoint {
  /** What is saved already. */
  readonly record: RunRecord | undefined;
  readonly snapshot: Snapshot | undefined;
  readonly best: BestEvaluation | undefined;
  /** What to train. */
  readonly source: RunSource;
  #folder: RunFolder | undefined;
  #vocabulary = "";
  readonly #name: string;

  private constructor(name: string, source: RunSource, saved?: { folder: RunFolder; record: RunRecord; snapshot: Snapshot | undefined; best: BestEvaluation | undefined }) {
    this.#name = name;
    this.source = source;
    this.#folder = saved?.folder;
    this.record = saved?.record;
    this.snapshot = saved?.snapshot;
    this.best = saved?.best;
  }

  /**
   * The run saved under a name, or a place for a new one. Where nothing but the name is given, and perhaps another
   * learning rate, the saved run's data and options apply, even if it was broken off before its first snapshot.
   */
  static async open(name: string, resume: boolean, sources: Sources, options: RunSource["options"]): Promise<Checkpoint> {
    const folder = resume ? await RunFolder.open(name) : undefined;
    const record = await folder?.record();
    const snapshot = record && (await folder?.newest());
    const { learningRate, ...others } = options;
    const isBare = isEmpty(sources) && Object.values(others).every((value) => value === undefined);
    if (!folder || !record || !(snapshot || isBare)) return new Checkpoint(name, { options, sources });
    const saved = snapshot?.learningRate === undefined ? record.options : { ...record.options, learningRate: snapshot.learningRate };
    if (!isBare) await compare(name, { ...record, options: saved }, sources, options);
    const same = learningRate === undefined ? saved : { ...saved, learningRate };
    const source = { options: isBare ? same : options, sources: isBare ? await folder.sources(record) : sources };
    // So that the next one goes to the other slot.
    const best = (await folder.best()) && (await folder.bestEvaluation());
    return new Checkpoint(name, source, { folder, record, snapshot, best });
  }

  /** Writes what the run is, unless it goes on. */
  async begin(vocabulary: string): Promise<void> {
    this.#vocabulary = vocabulary;
    this.#folder ??= await this.#create();
  }

  /**
   * Writes a snapshot, and what the run is if there was no room for that before. With a `loss`, that of its evaluation, as
   * the best one.
   */
  async write(snapshot: Snapshot, more: { totalSteps: number; lastLoss: number | undefined }, loss?: number): Promise<void> {
    this.#folder ??= await this.#create();
    const { learningRate } = this.source.options;
    await this.#folder.write({ ...snapshot, ...(typeof learningRate === "number" && { learningRate }) }, more, loss);
  }

  async #create(): Promise<RunFolder> {
    await RunFolder.remove(this.#name);
    const folder = await RunFolder.create(this.#name);
    await folder.begin(this.source.options, this.#vocabulary, this.source.sources);
    return folder;
  }
}

/** Refuses to go on with a run that is another one. */
async function compare(name: string, record: RunRecord, sources: Sources, options: RunSource["options"]): Promise<void> {
  const keys = [...new Set([...Object.keys(record.options), ...Object.keys(options)])];
  const differing = keys.filter((key) => !FREE.includes(key) && canonical(record.options[key]) !== canonical(options[key]));
  const others: string[] = [];
  for (const source of SOURCES) {
    const files = sources[source];
    const sums = files && (await Promise.all(files.map(sumOf)));
    if (record[source]?.map(({ sha256 }) => sha256).join() !== sums?.join()) others.push(source);
  }
  const all = [...others, ...differing];
  if (all.length === 0) return;
  const told = all.map((key) => (others.includes(key) ? key : `${key} (saved: ${canonical(record.options[key]) ?? "not given"})`));
  const message = `checkpoint: the run "${name}" was saved with another ${told.join(", ")}. Take another name, or resume: false to begin anew`;
  throw new OptionError(message, "checkpoint");
}

/** The same text for the same value. */
function canonical(value: unknown): string | undefined {
  return JSON.stringify(value, (_, inner: unknown) =>
    inner && typeof inner === "object" && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
