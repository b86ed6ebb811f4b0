// What a run learns from, and what it is evaluated on.
import { filesOf, type DataFile } from "./files.js";
import type { Given } from "./protocol.js";

/** All that a caller may give, each once. */
export const SOURCES = ["text", "records", "evaluationText", "evaluationRecords"] as const;

export type SourceName = (typeof SOURCES)[number];

/** As files. */
export type Sources = { readonly [S in SourceName]?: readonly DataFile[] | undefined };

export function sourcesOf(given: Given): Sources {
  const sources: { [S in SourceName]?: readonly DataFile[] } = {};
  for (const name of SOURCES) {
    const source = given[name];
    if (source !== undefined) sources[name] = filesOf(source, name.toLowerCase().endsWith("text") ? "text" : "records");
  }
  return sources;
}

export const isEmpty = (sources: Sources): boolean => SOURCES.every((name) => sources[name] === undefined);
