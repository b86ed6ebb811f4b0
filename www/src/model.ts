import { checkCount, checkHeldOut, checkOptions, checkString } from "./check.js";
import { ask } from "./client.js";
import { OptionError } from "./option-error.js";
import type { FillMaskQuestion, ModelHandle } from "./protocol.js";
import type { Evaluation, EvaluationOptions } from "./evaluation-types.js";
import { reading } from "./reading.js";
import type { FillMaskOptions, MaskGuesses, Model, ModelConfig } from "./types.js";

const DEFAULT_TOP_K = 5;

/** What `fillMask` was asked. */
export function fillMaskQuestion(text: string, options: FillMaskOptions): FillMaskQuestion {
  const { topK = DEFAULT_TOP_K, ...unknown } = checkOptions(options);
  for (const name of Object.keys(unknown)) throw new OptionError(`${name}: unknown option, expected topK`, name);
  return { text: checkString(text, "text"), topK: checkCount(topK, "topK") };
}

/** A model that lives in the worker. */
export class WorkerModel implements Model {
  readonly config: ModelConfig;
  readonly #id: number;

  constructor({ id, config }: ModelHandle) {
    this.#id = id;
    this.config = config;
  }

  async fillMask(text: string, options: FillMaskOptions = {}): Promise<MaskGuesses> {
    return ask("fillMask", this.#id, fillMaskQuestion(text, options));
  }

  async evaluate(options: EvaluationOptions): Promise<Evaluation> {
    const { text, records, signal, onProgress, ...rest } = checkOptions(options);
    const given = checkHeldOut(text, records);
    return reading(signal, onProgress, (number) => ask("evaluate", number, this.#id, given, rest), () => {});
  }

  async exportHuggingFace(): Promise<Blob> {
    return new Blob([await ask("exportHuggingFace", this.#id)], { type: "application/zip" });
  }

  close(): void {
    // Where the worker broke down, the model is gone already.
    ask("closeModel", this.#id).catch(() => {});
  }
}
