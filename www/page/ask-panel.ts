// 5 Ask it: guesses for a sentence of the reader's own, and beneath it what the model reads.
import type { MaskGuesses } from "wgpu-bert";
import { debounce, find, make } from "./dom.js";
import { describeExample, suggestQuestion } from "./examples.js";
import { ago, message, percent } from "./format.js";
import { guesser, isBusy, phase, question, text } from "./state.js";

const MASK = "[MASK]";
/** Suits the corpus that comes along. */
const SAMPLE_QUESTION = question.value;
const TOP = 5;
const EXAMPLES = 3;
/** Milliseconds between two questions to a run that is learning. */
const PAUSE = 3000;

/** For each mask the best guess there was before another became the best, and when that was. */
interface Former {
  best: string;
  former?: string;
  since?: Date;
}
let formers: Former[] = [];
/** Counts the questions, so that a late answer to an earlier one is dropped. */
let latest = 0;
let isAsking = false;
/** A question that the reader wrote is not replaced. */
let isOwnQuestion = false;

export function askPanel(): void {
  const input = find<HTMLInputElement>("question");
  const askSoon = debounce(250, () => void ask());
  input.addEventListener("input", () => {
    isOwnQuestion = input.value.trim() !== "";
    question.set(input.value);
  });
  question.watch((now) => {
    if (input.value !== now) input.value = now;
    formers = [];
    askSoon();
  });
  find("insert-mask").addEventListener("click", () => {
    input.setRangeText(MASK, input.selectionStart ?? 0, input.selectionEnd ?? 0, "end");
    input.focus();
    input.dispatchEvent(new Event("input"));
  });
  guesser.watch((now) => {
    if (now) return void ask();
    showNothing();
    showExamples();
  });
  text.watch(() => {
    showExamples();
    if (!isOwnQuestion && text.value.kind === "ready") question.set(suggestion(text.value));
    if (!guesser.value) showNothing();
  });
  phase.watch(({ kind }) => {
    if (kind === "finished") find("examples-title").textContent = "What it read last";
  });
  setInterval(() => {
    if (phase.value.kind === "training" && !document.hidden && !isAsking) void ask();
  }, PAUSE);
}

/** The corpus that comes along has a good question; another text gets one of its own sentences. */
function suggestion({ given, examples }: Extract<typeof text.value, { kind: "ready" }>): string {
  if (given.source === undefined) return SAMPLE_QUESTION;
  return suggestQuestion(examples) ?? SAMPLE_QUESTION;
}

function showNothing(): void {
  formers = [];
  find("ask-hint").textContent = isBusy(phase.value) ? "It guesses as soon as it learns." : "It guesses as soon as it learns, or a model is open.";
  showNoGuesses();
}

/** As many empty rows as there will be guesses, so that nothing moves when they come. */
function showNoGuesses(): void {
  const gap = makeGap();
  gap.className = "vacant";
  gap.ariaHidden = "true";
  gap.querySelector("ol")!.append(...Array.from({ length: TOP }, makeGuess));
  find("guesses").replaceChildren(gap);
}

/** The first examples of the text, until there is a run that reads. */
function showExamples(): void {
  const examples = text.value.kind === "ready" ? text.value.examples : [];
  find("examples-title").textContent = examples.length > 0 ? "What it will read" : "What it is reading now";
  find("examples").replaceChildren(...(examples.length > 0 ? examples.map(describeExample) : [make("li", { className: "hint" }, "Nothing yet.")]));
}

/** People draw a gap by hand, too. */
const readQuestion = (): string => question.value.replace(/_{2,}/g, MASK);

async function ask(): Promise<void> {
  const now = guesser.value;
  if (!now) return;
  const mine = ++latest;
  const sentence = readQuestion();
  const hint = find("ask-hint");
  if (!sentence.includes(MASK)) {
    hint.textContent = `Put ${MASK} or ____ where it is to guess a word.`;
    return showNoGuesses();
  }
  isAsking = true;
  try {
    const guesses = await now.source.fillMask(sentence, { topK: TOP });
    if (mine !== latest || now !== guesser.value) return;
    hint.textContent = guesses.cropped > 0 ? "The sentence is longer than what it reads at a time; it saw the part around the gap." : "";
    showGuesses(guesses);
    if (now.kind !== "run") return;
    const examples = await now.source.examples(EXAMPLES);
    if (now !== guesser.value || examples.length === 0) return;
    find("examples-title").textContent = "What it is reading now";
    find("examples").replaceChildren(...examples.map(describeExample));
  } catch (error) {
    if (mine === latest && now === guesser.value) hint.textContent = message(error);
  } finally {
    isAsking = false;
  }
}

function showGuesses({ masks }: MaskGuesses): void {
  const host = find("guesses");
  const isOne = masks.length === 1;
  host.querySelector(".vacant")?.remove();
  while (host.childElementCount > masks.length) host.lastElementChild!.remove();
  for (const [i, guesses] of masks.entries()) {
    // Elements stay, so that their bars move.
    const gap = host.children[i] ?? host.appendChild(makeGap());
    const list = gap.querySelector("ol")!;
    list.setAttribute("aria-label", isOne ? "Guesses" : `Guesses for gap ${i + 1}`);
    while (list.childElementCount < guesses.length) list.append(makeGuess());
    while (list.childElementCount > guesses.length) list.lastElementChild!.remove();
    for (const [rank, { token, probability }] of guesses.entries()) {
      const [shown, track, value] = list.children[rank]!.children as unknown as HTMLElement[];
      shown!.textContent = token;
      (track!.firstElementChild as HTMLElement).style.setProperty("transform", `scaleX(${probability.toFixed(4)})`);
      value!.textContent = percent(probability);
    }
    const { former, since } = remember(i, guesses[0]?.token ?? "");
    gap.querySelector(".former")!.textContent = former === undefined ? "\u00a0" : `before: “${former}”, until ${ago(since!)}`;
  }
}

const makeGap = (): HTMLElement => make("div", {}, make("ol"), make("p", { className: "former" }));

function makeGuess(): HTMLElement {
  const track = make("span", { className: "track", ariaHidden: "true" }, make("span", { className: "share" }));
  return make("li", {}, make("span", { className: "token" }, "\u00a0"), track, make("span", { className: "value" }));
}

function remember(mask: number, best: string): Former {
  const known = formers[mask];
  if (!known) return (formers[mask] = { best });
  if (known.best !== best) formers[mask] = { best, former: known.best, since: new Date() };
  return formers[mask]!;
}
