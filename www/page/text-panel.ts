// 1 Text: ways to give one, and what it amounts to.
import { find, make, makeButton, replaceContent } from "./dom.js";
import { count, integer, percent } from "./format.js";
import { type Text, isBusy, options, phase, text } from "./state.js";
import { take, takeFiles } from "./text-intake.js";

const SAMPLE = "The first five books of the King James Bible";

export function textPanel(): void {
  const [chooser, files] = [find("choose-files"), find<HTMLInputElement>("files")];
  chooser.addEventListener("click", () => files.click());
  files.addEventListener("change", () => {
    void takeFiles([...(files.files ?? [])]);
    // The same file chosen again is a change again.
    files.value = "";
  });
  acceptDrops(chooser);
  find("use-sample").addEventListener("click", () => void take({ name: SAMPLE, source: undefined }));
  acceptPastes();

  const report = find("text-report");
  let shown = text.value;
  const show = (): void => {
    const bar = report.querySelector("progress");
    const now = text.value;
    // Only the bar moves: screen readers say the words once.
    if (bar && now.kind === shown.kind && "share" in now && now.share !== undefined) bar.value = now.share;
    else replaceContent(report, describe(now));
    shown = now;
  };
  text.watch(show);
  phase.watch((now) => {
    for (const control of find("text-panel").querySelectorAll<HTMLButtonElement | HTMLTextAreaElement>("button, textarea")) {
      control.disabled = isBusy(now);
    }
  });
  // Another vocabulary is another report.
  let before = options.value;
  options.watch((now) => {
    const same = now.vocabSize === before.vocabSize && now.doLowerCase === before.doLowerCase;
    before = now;
    if (same || text.value.kind === "empty") show();
    else if (text.value.kind !== "saved") void take(text.value.given);
  });
}

/** Files may be dropped anywhere on the page. */
function acceptDrops(target: HTMLElement): void {
  addEventListener("dragover", (event) => {
    event.preventDefault();
    target.classList.add("over");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) target.classList.remove("over");
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    target.classList.remove("over");
    void takeFiles([...(event.dataTransfer?.files ?? [])]);
  });
}

function acceptPastes(): void {
  const [button, area, pasted] = [find("paste"), find("paste-area"), find<HTMLTextAreaElement>("pasted")];
  const open = (isOpen: boolean): void => {
    area.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) pasted.focus();
  };
  button.addEventListener("click", () => open(area.hidden === true));
  find("use-pasted").addEventListener("click", () => {
    if (pasted.value.trim() === "") return pasted.focus();
    void take({ name: "Pasted text", source: pasted.value });
    open(false);
    button.focus();
  });
}

function describe(state: Text): Node[] {
  if (state.kind === "empty") return [make("p", { className: "hint" }, "No text yet.")];
  const name = make("p", { className: "name" }, state.given.name);
  switch (state.kind) {
    case "reading":
      return [name, waiting("Reading")];
    case "vocabulary":
      return [name, waiting(`Training a vocabulary of up to ${count(options.value.vocabSize, "word piece")}`, state.share)];
    case "counting":
      return [name, waiting("Counting documents and sentences", state.share)];
    case "failed":
      return [name, make("p", { className: "warning" }, state.message)];
    case "saved":
    case "ready": {
      const { documents, sentences, tokens, unknownShare, vocabSize, warnings } = state.report;
      const pieces = `${count(tokens, "word piece")} · ${integer(vocabSize)} different · ${percent(unknownShare, 1)} unknown`;
      const title = "Words, or parts of words where a word is rare. Unknown are those with a character that the vocabulary lacks.";
      return [
        name,
        make("p", {}, `${count(documents, "document")} · ${count(sentences, "sentence")}`),
        make("p", { title }, pieces),
        ...warnings.map((warning) => make("p", { className: "warning" }, warning)),
        // No sentence of such a text has a true next one.
        ...(documents === 1 || documents === sentences ? [remedy()] : []),
      ];
    }
  }
}

function waiting(what: string, share?: number): HTMLElement {
  return make("p", {}, what, make("progress", { ariaLabel: what, ...(share !== undefined && { value: share }) }));
}

/** The fix for texts from which next sentences cannot be learned. */
function remedy(): HTMLElement {
  const { useNextSentenceLabel } = options.value;
  const label = useNextSentenceLabel ? "Train without next sentences" : "Train with them all the same";
  const change = (): void => options.set({ ...options.value, useNextSentenceLabel: !useNextSentenceLabel });
  const done = useNextSentenceLabel ? "" : "Next sentences are off: it learns from hidden words only. ";
  return make("p", {}, done, makeButton(label, change, { disabled: isBusy(phase.value) }));
}
