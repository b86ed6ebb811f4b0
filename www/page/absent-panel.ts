// Takes the place of 3 to 5 where there is nothing to train on: why, what to do, and the other way.
import { look } from "./device-panel.js";
import { find } from "./dom.js";
import { sentence } from "./format.js";
import { device } from "./state.js";

/** The panels that make no sense without a device. */
const REPLACED = ["device-panel", "learning-panel", "ask-panel"];

export function absentPanel(): void {
  const columns = document.querySelector<HTMLElement>(".columns")!;
  const panel = find("absent-panel");
  // Where the columns are stacked, it stands where the first of those panels stood.
  if (!matchMedia("(min-width: 860px)").matches) find("device-panel").after(panel);
  device.watch((now) => {
    if (now.kind === "looking") return;
    const absent = now.kind === "absent";
    // What stands below must not jump into view.
    columns.style.minHeight = absent ? `${Math.min(columns.offsetHeight, innerHeight)}px` : "";
    for (const id of REPLACED) find(id).hidden = absent;
    panel.hidden = !absent;
    if (!absent) return;
    // The message ends with the advice, which has a heading of its own here.
    find("absent-message").textContent = now.error.message.split("\nWhat to do: ")[0]!;
    find("absent-advice").textContent = sentence(now.error.advice);
  });
  find("look-again").addEventListener("click", () => void look());
  find("copy-diagnosis").addEventListener("click", () => void copyDiagnosis());
}

async function copyDiagnosis(): Promise<void> {
  if (device.value.kind !== "absent") return;
  const { code, reason, message } = device.value.error;
  const facts = [`code: ${code}`, `reason: ${reason}`, `browser: ${navigator.userAgent}`, `secure context: ${isSecureContext}`];
  const diagnosis = [message, "", ...facts].join("\n");
  const note = find("copied");
  try {
    await navigator.clipboard.writeText(diagnosis);
    note.textContent = "Copied.";
  } catch {
    // A page that is not secure has no clipboard, but its reader can copy what is selected.
    const shown = find("absent-message");
    shown.textContent = diagnosis;
    getSelection()?.selectAllChildren(shown);
    note.textContent = "Copy what is selected.";
  }
}
