// Every shader as it is written, in the compilers of real browsers: no message from them, a pipeline of each entry point
// with all constants that the ops use, and a dropout mask equal to the one every other adapter makes.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { FIREFOX_WEBGPU, launchChromium, launchFirefox } from "./browsers.mjs";
import { withPage } from "./page.mjs";

/** The values that the ops give to overridable constants: those of all kernel families, and of every activation. */
const VALUES = {
  LANES: [1, 64], COLUMNS: [1, 16], FUNCTION: [0, 1, 2, 3], REGISTER_WORKGROUP: [32],
  A_TRANSPOSED: [0, 1], B_TRANSPOSED: [0, 1], ACCUMULATE: [0, 1],
};

const FOLDER = new URL("../../shaders/", import.meta.url);
/** Never sent to a browser: it would have to say `enable subgroups`, which naga refuses natively. */
const NATIVE_ONLY = "matmul_subgroup.wgsl";
/** A file after the types that it leaves open, as the ops tell them; nothing where it leaves none open in f16. */
const precede = (code, type) => {
  const open = ["Real", "Product"].filter((name) => new RegExp(`\\b${name}\\b`).test(code.replace(/\/\/.*/g, "")));
  const enable = type === "f16" ? "enable f16;\n" : "";
  return `${enable}${open.map((name) => `alias ${name} = ${type};\n`).join("")}${code}`;
};
const SHADERS = readdirSync(FOLDER).filter((file) => file !== NATIVE_ONLY).map((file) => {
  const code = readFileSync(new URL(file, FOLDER), "utf8");
  const found = (pattern) => Array.from(code.matchAll(pattern), ([, name]) => name);
  return { name: file, code, entries: found(/@compute[^{]*?\bfn\s+(\w+)/g), constants: combine(found(/^override\s+(\w+)/gm)) };
});

/** All combinations of the values of these constants. */
function combine(names) {
  return names.reduce(
    (all, name) => {
      assert.ok(VALUES[name], `which values do the ops give to ${name}?`);
      return all.flatMap((constants) => VALUES[name].map((value) => ({ ...constants, [name]: value })));
    },
    [{}],
  );
}

/** The shaders of which some types are left open in f16, and all of them in f32. */
const inTypes = (shaders, types) => types.flatMap((type) =>
  shaders.map((shader) => ({ ...shader, name: `${shader.name} in ${type}`, code: precede(shader.code, type) }))
    .filter(({ code }) => type === "f32" || code.includes("= f16;")));

/** In the page: what compilers say about the shaders, and how many pipelines there are. */
async function compile({ shaders, features }) {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice({ requiredFeatures: features });
  const complaints = [];
  let pipelines = 0;
  for (const { name, code, entries, constants } of shaders) {
    const module = device.createShaderModule({ code });
    const { messages } = await module.getCompilationInfo();
    complaints.push(...messages.map(({ lineNum, message }) => `${name}, line ${lineNum}: ${message}`));
    for (const entryPoint of entries) {
      for (const values of constants) {
        try {
          await device.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint, constants: values } });
          pipelines++;
        } catch (error) {
          complaints.push(`${name}, ${entryPoint} ${JSON.stringify(values)}: ${error.message}`);
        }
      }
    }
  }
  device.destroy();
  return { complaints, pipelines };
}

const DROPOUT = { length: 1027, site: 3, threshold: 2 ** 30, scale: 4 / 3, key: [0xdeadbeef, 41], part: 2 };

/** In the page: what dropout makes of ones. */
async function dropOnes({ code, length, site, threshold, scale, key, part }) {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice();
  const pipeline = device.createComputePipeline({ layout: "auto", compute: { module: device.createShaderModule({ code }) } });
  const { UNIFORM, STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
  const buffer = (usage, content) => {
    const made = device.createBuffer({ size: content.byteLength, usage: usage | COPY_DST });
    device.queue.writeBuffer(made, 0, content);
    return made;
  };
  // Nothing was cut off: as many elements in the whole, and none to skip after a group of four.
  const params = new Uint32Array([length, site, threshold, 0, 0, 1, 2, length, 1, 0]);
  new Float32Array(params.buffer)[3] = scale;
  const ones = new Float32Array(length).fill(1);
  const y = buffer(STORAGE | COPY_SRC, ones);
  const words = buffer(STORAGE, new Uint32Array([...key, part]));
  const buffers = [buffer(UNIFORM, params), buffer(STORAGE, ones), y, words];
  const entries = buffers.map((buffer, binding) => ({ binding, resource: { buffer } }));
  const copy = device.createBuffer({ size: 4 * length, usage: MAP_READ | COPY_DST });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
  pass.dispatchWorkgroups(Math.ceil(length / 256));
  pass.end();
  encoder.copyBufferToBuffer(y, 0, copy, 0, 4 * length);
  device.queue.submit([encoder.finish()]);
  await copy.mapAsync(GPUMapMode.READ);
  const result = Array.from(new Float32Array(copy.getMappedRange()));
  device.destroy();
  return result;
}

/** The hash pcg4d as published; tests/gpu/dropout.rs holds native adapters to the same. */
function pcg4d(key) {
  const v = new Uint32Array(key.map((word) => Math.imul(word, 1664525) + 1013904223));
  const mix = () => {
    for (const [to, a, b] of [[0, 1, 3], [1, 2, 0], [2, 0, 1], [3, 1, 2]]) v[to] += Math.imul(v[a], v[b]);
  };
  mix();
  for (let i = 0; i < 4; i++) v[i] ^= v[i] >>> 16;
  mix();
  return v;
}

/** Nothing but SwiftShader gets it: lavapipe takes seconds for each of its pipelines. */
const CHROMIUM_ONLY = "matmul_tile.wgsl";

/** Chromium's SwiftShader has no f16. */
for (const [browser, launch, types] of [
  ["Chromium", () => launchChromium({ webgpu: true }), ["f32"]],
  ["Firefox", () => launchFirefox({ prefs: FIREFOX_WEBGPU }), ["f32", "f16"]],
]) {
  test(`${browser} compiles every shader without a word`, { timeout: 300_000 }, (t) =>
    withPage({ launch }, async (page, messages) => {
      const written = SHADERS.filter(({ name }) => browser === "Chromium" || name !== CHROMIUM_ONLY);
      const shaders = inTypes(written, types);
      const features = types.includes("f16") ? ["shader-f16"] : [];
      const expected = shaders.reduce((sum, { entries, constants }) => sum + entries.length * constants.length, 0);
      const { complaints, pipelines } = await page.evaluate(compile, { shaders, features });
      t.diagnostic(`${pipelines} pipelines of ${shaders.length} shaders`);
      assert.deepEqual(complaints, []);
      for (const { name, code, entries } of shaders) assert.equal(entries.length, code.split("@compute").length - 1, name);
      assert.equal(pipelines, expected);
      assert.deepEqual(messages, []);
    }));

  test(`${browser} drops what every adapter drops`, { timeout: 120_000 }, (t) =>
    withPage({ launch }, async (page) => {
      const { code } = SHADERS.find(({ name }) => name === "dropout.wgsl");
      const y = await page.evaluate(dropOnes, { code: precede(code, "f32"), ...DROPOUT });
      const { length, site, threshold, scale, key, part } = DROPOUT;
      // By the number of an element in the whole; this part begins within four neighbours.
      const numbers = Array.from({ length }, (_, i) => part * length + i);
      const kept = numbers.map((i) => pcg4d([i >> 2, site, ...key])[i % 4] >= threshold);
      assert.deepEqual(y, kept.map((isKept) => (isKept ? Math.fround(scale) : 0)));
      const share = kept.filter(Boolean).length / length;
      t.diagnostic(`${(100 * share).toFixed(1)} % kept`);
      assert.ok(Math.abs(share - 0.75) < 0.07);
    }));
}
