// Models as files to keep, and the line that says what is being done about it.
import type { Model } from "wgpu-bert";
import { find, make } from "./dom.js";
import { bytes, message } from "./format.js";
import { toRunName } from "./names.js";

/** Says what is being done, and what came of it. */
export async function tell(what: string, act: () => Promise<string>): Promise<void> {
  const hint = find("keep-hint");
  hint.textContent = `${what} …`;
  hint.classList.remove("warning");
  try {
    hint.textContent = await act();
  } catch (error) {
    hint.textContent = message(error);
    hint.classList.add("warning");
  }
}

/** Hands a model to the browser as a zip archive to save. */
export async function download(model: Model, name: string): Promise<string> {
  const zip = await model.exportHuggingFace();
  const url = URL.createObjectURL(zip);
  const file = `${toRunName(name)}.zip`;
  make("a", { href: url, download: file }).click();
  // The browser needs the address until it has read the file.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  return `${file}, ${bytes(zip.size)}: unpacked, it opens with BertForPreTraining.from_pretrained.`;
}
