// The step in TensorFlow.js on its WebGPU backend.
import "@tensorflow/tfjs-backend-webgpu";
import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops";
import "@tensorflow/tfjs-core/dist/register_all_gradients";
import { ADAM, BATCH, CONFIGS, batch, timeSteps, weights } from "./workload.mjs";

export async function measure({ config, vocabSize, steps }) {
  if (!(await tf.setBackend("webgpu"))) throw new Error("TensorFlow.js finds no WebGPU");
  await tf.ready();
  const { layers, hidden, heads } = CONFIGS[config];
  const { sequences, tokens, predictions } = BATCH;
  const parameters = Object.fromEntries(
    Object.entries(weights(CONFIGS[config], vocabSize)).map(([name, { data, shape }]) => [name, tf.variable(tf.tensor(data, shape), true, name)]),
  );
  const ints = (data) => tf.tensor1d(Int32Array.from(data), "int32");
  const { ids, segments, mask, positions, labels, next } = batch(vocabSize);
  const rowsOf = { word: ints(ids), position: ints(ids.map((_, i) => i % tokens)), token_type: ints(segments) };
  const predictionRows = ints(positions.map((position, slot) => Math.floor(slot / predictions) * tokens + position));
  const firstRows = ints(Array.from({ length: sequences }, (_, b) => b * tokens));
  const targets = { masked: ints(labels), next: ints(next) };
  const bias = tf.tensor(Float32Array.from(mask, (one) => (one - 1) * 10_000), [sequences, 1, 1, tokens]);

  const linear = (x, name) => x.matMul(parameters[`${name}.weight`]).add(parameters[`${name}.bias`]);
  const norm = (x, name) => {
    const centred = x.sub(x.mean(-1, true));
    const normal = centred.mul(centred.square().mean(-1, true).add(1e-12).rsqrt());
    return normal.mul(parameters[`${name}.weight`]).add(parameters[`${name}.bias`]);
  };
  const gelu = (x) => x.mul(0.5).mul(x.mul(Math.SQRT1_2).erf().add(1));
  const split = (x) => x.reshape([sequences, tokens, heads, hidden / heads]).transpose([0, 2, 1, 3]);
  const crossEntropy = (logits, labels, classes) => tf.oneHot(labels, classes).mul(tf.logSoftmax(logits)).sum().neg().div(labels.size);
  const loss = () => {
    const table = (part) => tf.gather(parameters[`bert.embeddings.${part}_embeddings.weight`], rowsOf[part]);
    let x = norm(table("word").add(table("position")).add(table("token_type")), "bert.embeddings.LayerNorm");
    for (let layer = 0; layer < layers; layer++) {
      const name = `bert.encoder.layer.${layer}`;
      const [query, key, value] = ["query", "key", "value"].map((part) => split(linear(x, `${name}.attention.self.${part}`)));
      const scores = tf.matMul(query, key, false, true).mul(1 / Math.sqrt(hidden / heads));
      const context = tf.matMul(tf.softmax(scores.add(bias)), value).transpose([0, 2, 1, 3]).reshape([sequences * tokens, hidden]);
      x = norm(x.add(linear(context, `${name}.attention.output.dense`)), `${name}.attention.output.LayerNorm`);
      x = norm(x.add(linear(gelu(linear(x, `${name}.intermediate.dense`)), `${name}.output.dense`)), `${name}.output.LayerNorm`);
    }
    const transformed = norm(gelu(linear(tf.gather(x, predictionRows), "cls.predictions.transform.dense")), "cls.predictions.transform.LayerNorm");
    const words = parameters["bert.embeddings.word_embeddings.weight"];
    const logits = tf.matMul(transformed, words, false, true).add(parameters["cls.predictions.bias"]);
    const pooled = linear(tf.gather(x, firstRows), "bert.pooler.dense").tanh();
    return crossEntropy(logits, targets.masked, vocabSize).add(crossEntropy(linear(pooled, "cls.seq_relationship"), targets.next, 2));
  };
  const optimizer = tf.train.adam(ADAM.rate, ADAM.beta1, ADAM.beta2, ADAM.epsilon);
  const step = async (number) => {
    // It adds epsilon after the bias of the second moment is corrected, TensorFlow and the others before.
    optimizer.epsilon = ADAM.epsilon / Math.sqrt(1 - ADAM.beta2 ** (number + 1));
    const value = optimizer.minimize(loss, true);
    const [result] = await value.data();
    value.dispose();
    return result;
  };
  return timeSteps(step, steps);
}
