// Takes a text in: looks at it, trains its vocabulary, counts what is in it.
import { type ReadingProgress, createPretrainingData, trainVocabulary } from "wgpu-bert";
import { count, message } from "./format.js";
import { toExampleOptions } from "./options.js";
import { type Given, type Text, isBusy, options, phase, text } from "./state.js";
import { objectTo } from "./text-files.js";

/** How many examples of what it will read are shown. */
const EXAMPLES = 3;

/** Ends what is done with the text given last. */
let latest = new AbortController();

/** Begins with a text. What is returned sets its state, unless another text came in between. */
function begin(): { readonly signal: AbortSignal; tell(state: Text): void } {
  latest.abort();
  latest = new AbortController();
  const { signal } = latest;
  return {
    signal,
    tell: (state) => {
      if (!signal.aborted) text.set(state);
    },
  };
}

/** Takes in a text, up to its report. */
export async function take(given: Given): Promise<void> {
  const { signal, tell } = begin();
  const { vocabSize, doLowerCase } = options.value;
  try {
    const show = (kind: "vocabulary" | "counting") => ({ done, total }: ReadingProgress): void => tell({ kind, given, share: done / total });
    tell({ kind: "vocabulary", given });
    const vocabulary = await trainVocabulary(given.source, { vocabSize, doLowerCase, signal, onProgress: show("vocabulary") });
    tell({ kind: "counting", given });
    // Once through the text is enough to count it, and one document is not refused yet.
    const counting = { ...toExampleOptions(options.value), dupeFactor: 1, useNextSentenceLabel: false };
    const data = await createPretrainingData(given.source, { ...counting, vocabulary, signal, onProgress: show("counting") });
    const examples = await data.examples(EXAMPLES);
    data.close();
    tell({ kind: "ready", given, vocabulary, report: data.report, examples });
  } catch (error) {
    tell({ kind: "failed", given, message: message(error) });
  }
}

/** Takes in files that were chosen or dropped. */
export async function takeFiles(files: readonly File[]): Promise<void> {
  const [first, ...others] = files;
  if (!first || isBusy(phase.value)) return;
  const name = others.length === 0 ? first.name : `${first.name} and ${count(others.length, "other")}`;
  const given = { name, source: files };
  const { signal, tell } = begin();
  tell({ kind: "reading", given });
  const objection = await objectTo(files);
  if (objection) tell({ kind: "failed", given, message: objection });
  else if (!signal.aborted) await take(given);
}

/** Puts back a text that was taken in before. */
export const restore = (state: Text): void => begin().tell(state);
