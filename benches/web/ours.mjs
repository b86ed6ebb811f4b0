// The package's own program, on the workload.
import init, { benchmark } from "/dist/wgpu_bert.js";
import { ADAM, BATCH, CONFIGS, batch, isLinear, weights } from "./workload.mjs";

/** The bytes of a model.safetensors; linear layers are `[outputs, inputs]` there. */
function safetensors(tensors) {
  const header = {};
  const parts = [];
  let end = 0;
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    const [rows, columns] = shape;
    const transposed = isLinear(name, shape);
    parts.push(transposed ? Float32Array.from(data, (_, i) => data[(i % rows) * columns + Math.floor(i / rows)]) : data);
    header[name] = { dtype: "F32", shape: transposed ? [columns, rows] : shape, data_offsets: [end, (end += data.byteLength)] };
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + json.length + end);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(json.length), true);
  bytes.set(json, 8);
  let at = 8 + json.length;
  for (const part of parts) {
    bytes.set(new Uint8Array(part.buffer), at);
    at += part.byteLength;
  }
  return bytes;
}

export async function measure({ config, vocabSize, steps }) {
  await init();
  const { layers, hidden, heads, intermediate } = CONFIGS[config];
  const { ids, segments, mask, positions, labels, next } = batch(vocabSize);
  const options = {
    config: {
      hiddenSize: hidden, numHiddenLayers: layers, numAttentionHeads: heads, intermediateSize: intermediate,
      hiddenAct: "gelu", hiddenDropoutProb: 0, attentionProbsDropoutProb: 0,
    },
    vocabSize, batchSize: BATCH.sequences, maxSeqLength: BATCH.tokens, maxPredictionsPerSeq: BATCH.predictions,
    learningRate: ADAM.rate, endLr: ADAM.rate, warmupSteps: 0, beta1: ADAM.beta1, beta2: ADAM.beta2, weightDecay: 0, clipNorm: 0,
  };
  const workload = {
    weights: safetensors(weights(CONFIGS[config], vocabSize)),
    inputIds: [...ids], inputMask: [...mask], segmentIds: [...segments],
    maskedLmPositions: [...positions], maskedLmIds: [...labels], nextSentenceLabels: [...next],
  };
  return benchmark("auto", options, workload, steps, { next: () => turn() });
}
