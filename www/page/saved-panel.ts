// Saved runs: listed, gone on with, asked, downloaded, renamed, deleted.
import { type SavedRun, deleteRun, loadModel, renameRun } from "wgpu-bert";
import { find, make, makeButton } from "./dom.js";
import { ago, bytes, integer } from "./format.js";
import { download, tell } from "./keeping.js";
import { forget, recall, remember } from "./memory.js";
import { toRunName, unusedName } from "./names.js";
import { canGoOn, leaving, refreshSaved, saved } from "./saved.js";
import { device, isBusy, phase, setGuesser } from "./state.js";
import { showStorage } from "./storage.js";
import { goOn } from "./training.js";

/** How long a deletion can be taken back. */
const UNDO_SECONDS = 10;

/** A run's row stays the same element while the run is listed, so that what has the focus keeps it. */
interface Row {
  readonly element: HTMLElement;
  show(run: SavedRun): void;
}
const rows = new Map<string, Row>();

export function savedPanel(): void {
  for (const watched of [saved, phase, device]) watched.watch(show);
  saved.watch(() => void showStorage());
  // "2 min ago" becomes three.
  setInterval(show, 30_000);
}

function show(): void {
  const shown = saved.value;
  const names = new Set(shown.map(({ name }) => name));
  for (const [name, { element }] of rows) {
    if (names.has(name)) continue;
    element.remove();
    rows.delete(name);
  }
  const list = find("saved");
  for (const [i, run] of shown.entries()) {
    if (!rows.has(run.name)) rows.set(run.name, makeRow(run.name));
    const { element, show } = rows.get(run.name)!;
    if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
    show(run);
  }
  find("saved-count").textContent = shown.length > 0 ? integer(shown.length) : "";
  find("saved-none").hidden = shown.length > 0;
}

function makeRow(name: string): Row {
  // Buttons of several rows must sound different.
  const button = (label: string, act: () => void): HTMLButtonElement => makeButton(label, act, { ariaLabel: `${label}: ${name}` });
  const facts = make("p", { className: "hint" });
  const go = makeButton("Go on", () => void goOn(name));
  const ask = button("Ask", () => void tell("Opening the model", () => openRun(name)));
  const save = button("Download", () => void tell("Packing the model", () => downloadRun(name)));
  const rename = button("Rename", () => renaming.open());
  const remove = button("Delete", () => leave(name));
  const words = make("div", {}, make("p", { className: "name" }, name), facts);
  const buttons = make("div", { className: "buttons" }, go, ask, save, rename, remove);
  const element = make("li", {}, words, buttons);
  const renaming = renamer(name, element, rename);
  return {
    element,
    show(run) {
      facts.textContent = describe(run);
      const step = `Go on from step ${integer(run.step)}`;
      go.textContent = step;
      go.ariaLabel = `${step}: ${name}`;
      // Whatever runs may not be touched; the rest may, to make room for it.
      const isIt = "run" in phase.value && phase.value.name === name;
      go.hidden = isBusy(phase.value) || !canGoOn(run);
      for (const one of [go, ask, save]) one.disabled = isBusy(phase.value) || device.value.kind !== "found";
      for (const one of [rename, remove]) one.disabled = isIt;
    },
  };
}

function describe({ step, totalSteps, lastLoss, bytes: size, savedAt }: SavedRun): string {
  const done = step < totalSteps ? `step ${integer(step)} of ${integer(totalSteps)}` : `all ${integer(step)} steps`;
  const loss = lastLoss === undefined ? [] : [`loss ${lastLoss.toFixed(2)}`];
  return [done, ...loss, bytes(size), ago(savedAt)].join(" · ");
}

async function openRun(name: string): Promise<string> {
  setGuesser({ kind: "model", name, source: await loadModel(`opfs:${name}`) });
  return `${name} is open: ask it above.`;
}

async function downloadRun(name: string): Promise<string> {
  const model = await loadModel(`opfs:${name}`);
  try {
    return await download(model, name);
  } finally {
    model.close();
  }
}

/** A form that takes the place of a row's content. */
function renamer(name: string, row: HTMLElement, button: HTMLElement): { open(): void } {
  const before = [...row.childNodes];
  const input = make("input", { type: "text", value: name, maxLength: 48, ariaLabel: `New name of ${name}` });
  const close = (): void => {
    row.replaceChildren(...before);
    button.focus();
  };
  const form = make("form", { className: "buttons" }, input, make("button", { type: "submit" }, "Rename"), makeButton("Leave it", close));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void tell("Renaming", () => rename(name, input.value));
    close();
  });
  form.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") close();
  });
  return {
    open() {
      row.replaceChildren(form);
      input.select();
    },
  };
}

/** A name that is taken or no name of a file is changed until it is neither. */
async function rename(name: string, wish: string): Promise<string> {
  const others = new Set(saved.value.map((run) => run.name).filter((other) => other !== name));
  const to = unusedName(toRunName(wish), others);
  if (to === name) return "";
  await renameRun(name, to);
  const memory = await recall(name);
  if (memory) await remember(to, memory);
  await forget(name);
  await refreshSaved();
  find("saved").querySelector<HTMLElement>(`[aria-label="Rename: ${to}"]`)?.focus();
  return `${name} is now ${to}.`;
}

/** Deletes a run after a while in which that can be taken back. */
function leave(name: string): void {
  leaving.add(name);
  saved.set(saved.value.filter((run) => run.name !== name));
  const line = make("span", {}, `${name} is deleted. `);
  const timer = setTimeout(() => {
    line.remove();
    void tell("Deleting", async () => {
      await deleteRun(name).finally(() => leaving.delete(name));
      await forget(name);
      await refreshSaved();
      return `${name} is gone.`;
    });
  }, 1000 * UNDO_SECONDS);
  const undo = makeButton("Undo", () => {
    clearTimeout(timer);
    line.remove();
    leaving.delete(name);
    void refreshSaved().then(() => rows.get(name)?.element.querySelector("button")?.focus());
  });
  line.append(undo);
  find("undo").append(line);
  undo.focus();
}
