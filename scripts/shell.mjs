// Other programs: what they say, and running them.
import { spawnSync } from "node:child_process";

/** Tells the person at the terminal. stdout belongs to whatever is started after a script, so this goes to stderr. */
export const say = (text) => process.stderr.write(`setup: ${text}\n`);

/** What a command prints, or `undefined` when it is missing or fails. */
export function ask(command, ...args) {
  const { status, stdout } = spawnSync(command, args, { encoding: "utf8" });
  return status === 0 ? stdout : undefined;
}
