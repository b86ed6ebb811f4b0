// Numbers as people read them.

const NARROW = "\u202f";
const integers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 18,400 */
export const integer = (value: number): string => integers.format(value);

/** 1 document, 187 documents */
export const count = (value: number, one: string, many = `${one}s`): string => `${integer(value)} ${value === 1 ? one : many}`;

/** 0.4 % */
export const percent = (share: number, digits = 0): string => `${(100 * share).toFixed(digits)}${NARROW}%`;

/** 24 MB; 1.2 GB */
export function bytes(value: number): string {
  if (value >= 1e10) return `${integer(value / 1e9)} GB`;
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} GB`;
  if (value >= 1e7) return `${integer(value / 1e6)} MB`;
  if (value >= 1e5) return `${(value / 1e6).toFixed(1)} MB`;
  return `${integer(Math.ceil(value / 1e3))} kB`;
}

/** 49 k; 1.5 M */
export function weights(value: number): string {
  if (value < 1e6) return `${integer(value / 1e3)}${NARROW}k`;
  return `${(value / 1e6).toFixed(value < 1e7 ? 1 : 0)}${NARROW}M`;
}

/** 2 min; 3.3 h; 13 days */
export function duration(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  const hours = seconds / 3600;
  if (hours < 10) return `${hours.toFixed(1)} h`;
  if (hours < 48) return `${Math.round(hours)} h`;
  return hours < 24 * 365 ? `${integer(hours / 24)} days` : "over a year";
}

/** just now; 2 min ago; on 3 May at 14:02 */
export function ago(date: Date, now = new Date()): string {
  const seconds = (now.getTime() - date.getTime()) / 1000;
  if (seconds < 10) return "just now";
  if (seconds < 12 * 3600) return `${duration(seconds)} ago`;
  return `on ${date.toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" })}`;
}

/** How unsure a model of this loss is, in words. */
export function unsureness(loss: number): string {
  const words = Math.exp(loss);
  return `as unsure as among ${words < 10 ? words.toFixed(1) : integer(words)} words`;
}

/** Words as a sentence: with a capital and a full stop. */
export function sentence(words: string): string {
  const begun = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

/** What `error` says. */
export const message = (error: unknown): string => sentence(error instanceof Error ? error.message : String(error));
