// 2 Model: its size, and behind "More" the options of the run.
import { find, make } from "./dom.js";
import { bytes, duration, weights } from "./format.js";
import { type Options, type Size, countWeights, defaultsOf } from "./options.js";
import { expectedTime, pace, plan, vocabSizeNow } from "./plan.js";
import { isBusy, options, phase, text } from "./state.js";

interface Field {
  readonly label: string;
  readonly explanation: string;
  /** Of a number: the smallest and the largest, and whether it is whole. */
  readonly range?: readonly [min: number, max: number, step: number | "any"];
  /** Of a choice. */
  readonly choices?: readonly string[];
}

/** Options under the names that `runBertPretrain` has for them. */
const FIELDS: Readonly<Record<Exclude<keyof Options, "size">, Field>> = {
  steps: { label: "Steps", explanation: "Updates of the weights in the whole run.", range: [1, 1e7, 1] },
  batchSize: { label: "Batch size", explanation: "Examples in a step. More take more memory.", range: [1, 4096, 1] },
  learningRate: { label: "Learning rate", explanation: "How far a step moves the weights. Too high, and the loss grows instead of falling.", range: [1e-7, Number.MAX_VALUE, "any"] },
  warmupSteps: { label: "Warm-up steps", explanation: "Steps in which the learning rate grows from 0.", range: [0, 1e7, 1] },
  maxSeqLength: { label: "Sequence length", explanation: "Word pieces in an example. Longer ones see more context and take more memory.", range: [8, 512, 1] },
  maskedLmProb: { label: "Hidden share", explanation: "Share of the word pieces that it must guess.", range: [0.01, 0.9, "any"] },
  vocabSize: { label: "Vocabulary", explanation: "The most different word pieces. A new vocabulary is trained when this changes.", range: [128, 60_000, 1] },
  seed: { label: "Seed", explanation: "Decides first weights, dropout and the order of the examples. The same seed gives the same run.", range: [0, Number.MAX_SAFE_INTEGER, 1] },
  optimizerType: { label: "Optimizer", explanation: "AdamW, or LAMB, which suits very large batches.", choices: ["adamw", "lamb"] },
  doLowerCase: { label: "Lower case", explanation: "Lower-case the text and strip accents." },
  doWholeWordMask: { label: "Hide whole words", explanation: "Hide all pieces of a word, not single ones." },
  useNextSentenceLabel: { label: "Next sentences", explanation: "Also learn whether one sentence follows another." },
};

type FieldName = keyof typeof FIELDS;

export function modelPanel(): void {
  const segments = find("model-panel").querySelector("fieldset")!;
  const sizes = [...segments.querySelectorAll("input")];
  for (const input of sizes) prepareSize(input, input.value as Size);
  const inputs = Object.entries(FIELDS).map(([name, field]) => makeField(name as FieldName, field));
  find("options").append(...inputs.map(({ label }) => label));

  const show = (): void => {
    for (const input of sizes) {
      input.checked = input.value === options.value.size;
      input.labels![0]!.querySelector(".weights")!.textContent = weights(countWeights(...planned(input.value as Size)));
      input.labels![0]!.querySelector(".time")!.textContent = timeOf(input.value as Size);
    }
    find("model-size").textContent = describe();
  };
  // Nothing else fills them: what is being typed stays.
  options.watch((now) => {
    for (const { fill } of inputs) fill(now);
  });
  for (const watched of [options, text, plan, pace]) watched.watch(show);
  phase.watch((now) => {
    segments.disabled = isBusy(now);
    for (const { input } of inputs) input.disabled = isBusy(now);
  });
}

/** The options and the vocabulary of a run of a size; of those not chosen what they start with. */
function planned(size: Size): [options: Options, vocabSize: number] {
  const defaults = defaultsOf(size);
  return size === options.value.size ? [options.value, vocabSizeNow()] : [defaults, defaults.vocabSize];
}

function timeOf(size: Size): string {
  const expected = expectedTime(...planned(size));
  if (!expected) return "\u00a0";
  return `${expected.isMeasured ? "" : "≈ "}${duration(expected.seconds)}`;
}

function describe(): string {
  const now = options.value;
  const expected = expectedTime(now, vocabSizeNow());
  const facts = [`${weights(countWeights(now, vocabSizeNow()))} weights`];
  if (plan.value.kind === "made" && plan.value.fits) facts.push(`${bytes(plan.value.bytes)} of memory`);
  if (expected) facts.push(`${expected.isMeasured ? "" : "very roughly "}${duration(expected.seconds)} on this device`);
  return facts.join(" · ");
}

function prepareSize(input: HTMLInputElement, size: Size): void {
  input.addEventListener("change", () => {
    // Whether next sentences can be learned is the text's matter.
    const { useNextSentenceLabel } = options.value;
    options.set({ ...defaultsOf(size), useNextSentenceLabel });
  });
}

/** A warm-up of a tenth of the run stays that when the run gets another length. */
function withSteps(name: FieldName, value: unknown): Partial<Options> {
  const { steps, warmupSteps } = options.value;
  const follows = name === "steps" && warmupSteps === Math.ceil(steps / 10);
  return follows ? { warmupSteps: Math.ceil(Number(value) / 10) } : {};
}

function makeField(name: FieldName, { label: words, explanation, range, choices }: Field) {
  const input = choices ? make("select", {}, ...choices.map((value) => make("option", { value }, value))) : make("input");
  input.id = `option-${name}`;
  const note = make("small", { id: `note-${name}` }, explanation);
  input.setAttribute("aria-describedby", note.id);
  if (input instanceof HTMLInputElement) {
    input.type = range ? "number" : "checkbox";
    if (range) [input.min, input.max, input.step] = range.map(String) as [string, string, string];
  }
  const fill = (now: Options): void => {
    if (input instanceof HTMLInputElement && input.type === "checkbox") input.checked = now[name] === true;
    else input.value = String(now[name]);
  };
  input.addEventListener("change", () => {
    if (!input.reportValidity() || input.value === "") return fill(options.value);
    const value = input instanceof HTMLSelectElement ? input.value : range ? input.valueAsNumber : input.checked;
    options.set({ ...options.value, ...withSteps(name, value), [name]: value });
  });
  return { input, fill, label: make("label", { htmlFor: input.id }, make("span", { title: name }, words), input, note) };
}
