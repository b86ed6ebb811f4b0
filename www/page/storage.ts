// What the browser says of the room for saved runs, and whether it keeps them.
import { find } from "./dom.js";
import { bytes } from "./format.js";

/** Says it anew; nothing where the browser says nothing. */
export async function showStorage(): Promise<void> {
  const storage = (navigator as Partial<Navigator>).storage;
  const [estimate, persisted] = await Promise.all([storage?.estimate?.(), storage?.persisted?.()].map((asked) => asked?.catch(() => undefined))) as [StorageEstimate | undefined, boolean | undefined];
  if (estimate?.quota === undefined) return;
  const room = bytes(Math.max(estimate.quota - (estimate.usage ?? 0), 0));
  const fate = persisted ? "keeps them until you delete them" : "may clear them when this device runs short of space";
  find("storage").textContent = `The browser has room for ${room} more, and ${fate}.`;
}
