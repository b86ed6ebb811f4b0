// Reads apt's configuration of package sources, in both of its forms, to learn which suites it has and from which
// mirror, so that the backports suite can be added from the same place.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** The source files that apt reads under `root`, as `{ name, text }`. */
export function readSourceFiles(root = "/etc/apt") {
  const folder = join(root, "sources.list.d");
  let names = [];
  try {
    names = readdirSync(folder).filter((name) => /\.(list|sources)$/.test(name)).sort();
  } catch {
    // A machine without the folder has its sources in sources.list alone.
  }
  const files = [];
  for (const path of [join(root, "sources.list"), ...names.map((name) => join(folder, name))]) {
    try {
      files.push({ name: path, text: readFileSync(path, "utf8") });
    } catch {
      // Either of the two places may be missing, and a file that cannot be read is none of ours to use.
    }
  }
  return files;
}

/**
 * The binary package sources in `files`. Each has its `uris` and `suites`, and `withSuite(suite)`: the text of a
 * source file for another suite of the same mirror, with the same keys and options.
 */
export function parseSources(files) {
  return files.flatMap(({ name, text }) => (name.endsWith(".sources") ? parseStanzas(text) : parseLines(text)));
}

/** One-line form: `deb [options] uri suite component...`. */
function parseLines(text) {
  return text.split("\n").flatMap((line) => {
    const match = /^\s*deb\s+(\[[^\]]*\]\s+)?(\S+)\s+(\S+)/.exec(line.replace(/#.*/, ""));
    if (!match) return [];
    const [, options = "", uri, suite] = match;
    return [{ uris: [uri], suites: [suite], extension: "list", withSuite: (s) => `deb ${options}${uri} ${s} main\n` }];
  });
}

/** deb822 form: stanzas of `Field: value`, where a line that starts with a blank goes on with the field above. */
function parseStanzas(text) {
  const plain = text.split("\n").filter((line) => !line.startsWith("#")).join("\n");
  return plain.split(/\n\s*\n/).flatMap((stanza) => {
    const fields = [...stanza.matchAll(/^([\w-]+):((?:.*)(?:\n[ \t].*)*)/gm)].map(([, name, value]) => [name, value]);
    const words = (name) => {
      const field = fields.find(([other]) => other.toLowerCase() === name);
      return field ? field[1].trim().split(/\s+/) : [];
    };
    if (!words("types").includes("deb") || words("enabled")[0] === "no") return [];
    const replaced = ["types", "suites", "components"];
    const kept = fields.filter(([name]) => !replaced.includes(name.toLowerCase()));
    const withSuite = (suite) =>
      [["Types", " deb"], ...kept, ["Suites", ` ${suite}`], ["Components", " main"]]
        .map(([name, value]) => `${name}:${value}\n`)
        .join("");
    return [{ uris: words("uris"), suites: words("suites"), extension: "sources", withSuite }];
  });
}

/**
 * What it takes to use `<codename>-backports`: `{ configured: true }`, a source file to write as
 * `{ configured: false, extension, text }`, or `undefined` when no source names a mirror of the release.
 */
export function backportsSource(codename, sources) {
  const suite = `${codename}-backports`;
  if (sources.some((source) => source.suites.includes(suite))) return { configured: true };
  const release = sources.find(
    (source) => source.suites.includes(codename) && !source.uris.some((uri) => uri.startsWith("cdrom:")),
  );
  return release && { configured: false, extension: release.extension, text: release.withSuite(suite) };
}
