// Examples as a person reads them.
import type { Example } from "wgpu-bert";
import { make, unseen } from "./dom.js";

type Token = Example["tokens"][number];

/** Tokens of an example's frame, not of its text. */
const FRAME = ["[CLS]", "[SEP]"];
/** Longer questions do not suit small models. */
const LONGEST_QUESTION = 12;

const isContinuation = (token: string): boolean => token.startsWith("##");
const plain = (token: string): string => token.replace(/^##/, "");
/** Punctuation clings to the word before it. */
const clings = (token: string): boolean => isContinuation(token) || /^[.,;:!?)\]’'”]+$/.test(token);

/** An example as it is read: gaps where something is hidden, filled with the model's guess where it was asked. */
export function describeExample({ tokens }: Example): HTMLElement {
  const parts = tokens.flatMap((token, i) => {
    if (token.token === "[CLS]" || (token.token === "[SEP]" && i === tokens.length - 1)) return [];
    if (token.token === "[SEP]") return [make("span", { className: "between", title: "Does what comes next follow? It learns to tell that, too." }, " ‖ ")];
    // A gap, or a wrong guess, does not tell whether it clings.
    const isApart = !clings(token.token) || (token.hidden && token.guess !== token.token);
    return [isApart ? " " : "", token.hidden ? describeHidden(token) : plain(token.token)];
  });
  return make("li", {}, ...parts);
}

function describeHidden({ token, guess }: Token): HTMLElement {
  if (guess === undefined) return make("mark", { title: `hidden: ${plain(token)}` }, "____", unseen(` (hidden: ${plain(token)})`));
  if (guess === token) return make("mark", { className: "right", title: "guessed right" }, plain(guess), unseen(" (right)"));
  return make("mark", { title: `guessed ${guess}, hidden was ${token}` }, make("s", {}, plain(guess)), unseen(" (wrong; it was)"), ` ${plain(token)}`);
}

/** The beginning of a sentence of the text, with one word hidden. */
export function suggestQuestion(examples: readonly Example[]): string | undefined {
  for (const { tokens } of examples) {
    const body = tokens.slice(FRAME.includes(tokens[0]!.token) ? 1 : 0);
    const end = body.findIndex(({ token }) => FRAME.includes(token));
    const sentence = body.slice(0, Math.min(LONGEST_QUESTION, end < 0 ? body.length : end));
    // A whole word of letters, and not the first: there must be something to guess from.
    const canBeGap = ({ token }: Token, i: number): boolean => i > 0 && /^\p{L}{3,}$/u.test(token) && !isContinuation(sentence[i + 1]?.token ?? "");
    const gap = sentence.map(canBeGap).lastIndexOf(true);
    if (gap < 0) continue;
    return sentence.map(({ token }, i) => `${i === 0 || clings(token) ? "" : " "}${i === gap ? "[MASK]" : plain(token)}`).join("");
  }
  return undefined;
}
