import { checkCount } from "./check.js";
import { ask } from "./client.js";
import type { DataReport, Example, PretrainingData } from "./data-types.js";
import type { DataHandle } from "./protocol.js";

/** Examples that live in the worker. */
export class WorkerData implements PretrainingData {
  readonly report: DataReport;
  readonly #id: number;

  constructor({ id, report }: DataHandle) {
    this.#id = id;
    this.report = report;
  }

  async examples(count: number): Promise<Example[]> {
    return ask("examplesOfData", this.#id, checkCount(count, "count"));
  }

  async toTFRecord(): Promise<Blob> {
    return ask("toTFRecord", this.#id);
  }

  close(): void {
    // Where the worker broke down, the examples are gone already.
    ask("closeData", this.#id).catch(() => {});
  }
}
