// 6 Keep it: the model as a download, and models opened again.
import { loadModel } from "wgpu-bert";
import { find } from "./dom.js";
import { download, tell } from "./keeping.js";
import { savedPanel } from "./saved-panel.js";
import { device, guesser, isBusy, phase, setGuesser } from "./state.js";

export function keepPanel(): void {
  const [save, open, files] = [find<HTMLButtonElement>("download"), find<HTMLButtonElement>("open"), find<HTMLInputElement>("model-files")];
  save.addEventListener("click", () => {
    const now = guesser.value;
    if (now?.kind === "model") void tell("Packing the model", () => download(now.source, now.name));
  });
  open.addEventListener("click", () => files.click());
  files.addEventListener("change", () => {
    const chosen = [...(files.files ?? [])];
    files.value = "";
    if (chosen.length > 0) void tell("Opening the model", () => openFiles(chosen));
  });
  const show = (): void => {
    save.disabled = guesser.value?.kind !== "model";
    open.disabled = isBusy(phase.value) || device.value.kind !== "found";
  };
  for (const watched of [guesser, phase, device]) watched.watch(show);
  savedPanel();
}

async function openFiles(files: readonly File[]): Promise<string> {
  const [first] = files;
  const source = files.length === 1 && first!.name.toLowerCase().endsWith(".zip") ? first! : files;
  const name = files.length === 1 ? first!.name.replace(/\.zip$/i, "") : "The model";
  setGuesser({ kind: "model", name, source: await loadModel(source) });
  return `${name} is open: ask it above.`;
}
