// The step in jax-js. Its fastest correct way: the embeddings and their gradient eager, since `jit` takes no scatter; the
// rest of the gradient in one `jit`, Adam in another.
//
// An array is used up by what takes it, unless its `ref` is given instead.
import * as jax from "@jax-js/jax";
import { ADAM, BATCH, CONFIGS, batch, timeSteps, weights } from "./workload.mjs";

const { numpy: np, nn } = jax;
const EMBEDDINGS = ["word", "position", "token_type"].map((part) => `bert.embeddings.${part}_embeddings.weight`);
const [WORDS] = EMBEDDINGS;

const ints = (data) => np.array(Int32Array.from(data), { dtype: np.int32 });

/** `indices` as rows that select by a product. Its own `oneHot` would make a square matrix first. */
const oneHot = (indices, classes) => np.equal(indices.reshape([-1, 1]), np.arange(classes)).astype(np.float32);

function layerNorm(x, scale, bias) {
  const centred = x.ref.sub(np.mean(x, -1, { keepdims: true }));
  const variance = np.mean(np.square(centred.ref), -1, { keepdims: true });
  return centred.div(np.sqrt(variance.add(1e-12))).mul(scale).add(bias);
}

/** Loss of a model whose embeddings are summed already, in `parameters.x`. */
function lossOf({ layers, hidden, heads }, vocabSize, parameters, data) {
  const { sequences, tokens, predictions } = BATCH;
  const weight = (name) => parameters[name].ref;
  const linear = (x, name) => np.matmul(x, weight(`${name}.weight`)).add(weight(`${name}.bias`));
  const norm = (x, name) => layerNorm(x, weight(`${name}.weight`), weight(`${name}.bias`));
  const gelu = (x) => nn.gelu(x, { approximate: false });
  const split = (x) => np.transpose(x.reshape([sequences, tokens, heads, hidden / heads]), [0, 2, 1, 3]);
  const crossEntropy = (logits, labels, classes) => np.sum(oneHot(labels, classes).mul(nn.logSoftmax(logits, -1))).mul(-1);

  let x = norm(weight("x"), "bert.embeddings.LayerNorm");
  for (let layer = 0; layer < layers; layer++) {
    const name = `bert.encoder.layer.${layer}`;
    const [query, key, value] = ["query", "key", "value"].map((part) => split(linear(x.ref, `${name}.attention.self.${part}`)));
    const scores = np.matmul(query, np.transpose(key, [0, 1, 3, 2])).mul(1 / Math.sqrt(hidden / heads));
    const attended = np.matmul(nn.softmax(scores.add(data.mask.ref), -1), value);
    const context = np.transpose(attended, [0, 2, 1, 3]).reshape([sequences * tokens, hidden]);
    x = norm(x.add(linear(context, `${name}.attention.output.dense`)), `${name}.attention.output.LayerNorm`);
    const fed = linear(gelu(linear(x.ref, `${name}.intermediate.dense`)), `${name}.output.dense`);
    x = norm(x.add(fed), `${name}.output.LayerNorm`);
  }
  data.mask.dispose();
  const rows = (indices) => np.matmul(oneHot(indices, sequences * tokens), x.ref);
  const transformed = norm(gelu(linear(rows(data.predictionRows), "cls.predictions.transform.dense")), "cls.predictions.transform.LayerNorm");
  const logits = np.matmul(transformed, np.transpose(weight(WORDS), [1, 0])).add(weight("cls.predictions.bias"));
  const pooled = np.tanh(linear(rows(data.firstRows), "bert.pooler.dense"));
  x.dispose();
  const masked = crossEntropy(logits, data.labels, vocabSize).mul(1 / (sequences * predictions));
  const next = crossEntropy(linear(pooled, "cls.seq_relationship"), data.next, 2).mul(1 / sequences);
  for (const parameter of Object.values(parameters)) parameter.dispose();
  return masked.add(next);
}

/** Adam as TensorFlow has it: epsilon is added to the root of the second moment before its bias is corrected. */
function adam(parameters, firsts, seconds, gradients, step) {
  const { rate, beta1, beta2, epsilon } = ADAM;
  const correction = (beta) => np.power(beta, step.ref).mul(-1).add(1);
  const scaled = np.sqrt(correction(beta2)).div(correction(beta1)).mul(rate);
  step.dispose();
  const [p, m, v] = [{}, {}, {}];
  for (const name of Object.keys(gradients)) {
    m[name] = firsts[name].mul(beta1).add(gradients[name].ref.mul(1 - beta1));
    v[name] = seconds[name].mul(beta2).add(np.square(gradients[name]).mul(1 - beta2));
    p[name] = parameters[name].sub(m[name].ref.div(np.sqrt(v[name].ref).add(epsilon)).mul(scaled.ref));
  }
  scaled.dispose();
  return [p, m, v];
}

export async function measure({ config, vocabSize, steps }) {
  const devices = await jax.init();
  if (!devices.includes("webgpu")) throw new Error("jax-js finds no WebGPU");
  jax.defaultDevice("webgpu");
  const made = weights(CONFIGS[config], vocabSize);
  const each = (make) => Object.fromEntries(Object.entries(made).map(([name, tensor]) => [name, make(tensor)]));
  let state = [each(({ data, shape }) => np.array(data, { shape })), each(({ shape }) => np.zeros(shape)), each(({ shape }) => np.zeros(shape))];

  const { sequences, tokens, predictions } = BATCH;
  const { ids, segments, mask, positions, labels, next } = batch(vocabSize);
  const bias = np.array(Float32Array.from(mask, (one) => (one - 1) * 10_000), { shape: [sequences, 1, 1, tokens] });
  const data = {
    mask: bias,
    predictionRows: ints(positions.map((position, slot) => Math.floor(slot / predictions) * tokens + position)),
    labels: ints(labels),
    firstRows: ints(Array.from({ length: sequences }, (_, b) => b * tokens)),
    next: ints(next),
  };
  const rowsOf = [ints(ids), ints(ids.map((_, i) => i % tokens)), ints(segments)];
  const embed = (...tables) => tables.map((table, i) => np.take(table, rowsOf[i].ref, 0)).reduce((sum, rows) => sum.add(rows));
  const gradientOf = jax.jit((parameters, data) => jax.valueAndGrad((p, d) => lossOf(CONFIGS[config], vocabSize, p, d))(parameters, data));
  const update = jax.jit(adam);

  const step = async (number) => {
    const [parameters, firsts, seconds] = state;
    const [x, backward] = jax.vjp(embed, EMBEDDINGS.map((name) => parameters[name].ref));
    const { [EMBEDDINGS[1]]: _, [EMBEDDINGS[2]]: __, ...others } = parameters;
    const [loss, { x: dx, ...gradients }] = gradientOf({ ...jax.tree.ref(others), x }, jax.tree.ref(data));
    const [dWords, dPositions, dTypes] = backward(dx);
    backward.dispose?.();
    gradients[WORDS] = gradients[WORDS].add(dWords);
    gradients[EMBEDDINGS[1]] = dPositions;
    gradients[EMBEDDINGS[2]] = dTypes;
    state = update(parameters, firsts, seconds, gradients, np.array(number + 1, { dtype: np.float32 }));
    const [value] = await loss.data();
    await jax.blockUntilReady(state);
    return value;
  };
  return timeSteps(step, steps);
}
