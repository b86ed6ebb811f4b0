// Names of runs, which are names of folders too.

/** What every file system takes, and people can read: letters and digits of any script, and single hyphens. */
export function toRunName(words: string): string {
  const plain = words.normalize("NFC").replace(/\.(txt|gz|md)\b/gi, "");
  return plain.replace(/[^\p{L}\p{M}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 48).replace(/-+$/, "") || "run";
}

/** `name`, or else `name-2`, `name-3`, … */
export function unusedName(name: string, used: ReadonlySet<string>): string {
  let candidate = name;
  for (let i = 2; used.has(candidate); i++) candidate = `${name}-${i}`;
  return candidate;
}
