// The command line, for comparison with what a browser computes.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { findDrivers } from "../../scripts/drivers.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Runs `wgpu-bert` on lavapipe where there is one, and gives back the JSON lines it wrote to stdout. */
export const wgpuBert = (...args) => wgpuBertReading("", ...args);

/** The same, with `input` on stdin. */
export async function wgpuBertReading(input, ...args) {
  const [driver] = findDrivers().lavapipe;
  const env = { ...process.env, ...(driver && { VK_DRIVER_FILES: driver, VK_ICD_FILENAMES: driver }) };
  const child = spawn("cargo", ["run", "--quiet", "--locked", "--", ...args, "--json"], { cwd: ROOT, env });
  child.stdin.end(input);
  const [output, complaints] = await Promise.all([child.stdout, child.stderr].map(text));
  const code = child.exitCode ?? (await new Promise((resolve) => child.once("close", resolve)));
  if (code !== 0) throw new Error(`wgpu-bert ${args[0]} ended with ${code}: ${complaints}`);
  return output.trim().split("\n").map((line) => JSON.parse(line));
}

async function text(stream) {
  let all = "";
  for await (const part of stream.setEncoding("utf8")) all += part;
  return all;
}
