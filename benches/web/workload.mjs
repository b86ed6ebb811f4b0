// The same seeded weights and batch for every library, so that their losses must agree. No dropout; Adam with a constant
// rate of 1e-3, without decay and clipping; exact GELU.

export const CONFIGS = {
  nano: { layers: 1, hidden: 32, heads: 2, intermediate: 64 },
  tiny: { layers: 2, hidden: 128, heads: 2, intermediate: 512 },
  mini: { layers: 4, hidden: 256, heads: 4, intermediate: 1024 },
  small: { layers: 4, hidden: 512, heads: 8, intermediate: 2048 },
};
export const BATCH = { sequences: 8, tokens: 128, predictions: 20 };
export const ADAM = { rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-6 };
export const WARMUP_STEPS = 2;
const POSITIONS = 512;
const [FIRST_WORD, MASK] = [5, 4];

/** Uniform numbers in [0, 1): mulberry32. */
function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Tokens of a skewed distribution; the last 8 of every other sequence are padding. */
export function batch(vocabSize) {
  const { sequences, tokens, predictions } = BATCH;
  const random = uniform(1);
  const of = (length) => new Int32Array(sequences * length);
  const made = { ids: of(tokens), segments: of(tokens), mask: of(tokens), positions: of(predictions), labels: of(predictions), next: of(1) };
  for (let b = 0; b < sequences; b++) {
    made.next[b] = random() < 0.5 ? 0 : 1;
    const length = b % 2 ? tokens - 8 : tokens;
    for (let s = 0; s < length; s++) {
      made.ids[b * tokens + s] = FIRST_WORD + Math.floor(random() ** 3 * (vocabSize - FIRST_WORD));
      made.segments[b * tokens + s] = s < tokens / 2 ? 0 : 1;
      made.mask[b * tokens + s] = 1;
    }
    for (let p = 0; p < predictions; p++) {
      const [slot, position] = [b * predictions + p, 1 + 6 * p];
      made.positions[slot] = position;
      made.labels[slot] = made.ids[b * tokens + position];
      made.ids[b * tokens + position] = MASK;
    }
  }
  return made;
}

/** Names and shapes as Hugging Face's, but matrices of linear layers `[inputs, outputs]`, as both peers want them. */
function* shapes({ layers, hidden, intermediate }, vocabSize) {
  const linear = function* (name, inputs, outputs) {
    yield [`${name}.weight`, [inputs, outputs]];
    yield [`${name}.bias`, [outputs], 0];
  };
  const norm = function* (name) {
    yield [`${name}.weight`, [hidden], 1];
    yield [`${name}.bias`, [hidden], 0];
  };
  yield ["bert.embeddings.word_embeddings.weight", [vocabSize, hidden]];
  yield ["bert.embeddings.position_embeddings.weight", [POSITIONS, hidden]];
  yield ["bert.embeddings.token_type_embeddings.weight", [2, hidden]];
  yield* norm("bert.embeddings.LayerNorm");
  for (let layer = 0; layer < layers; layer++) {
    const name = `bert.encoder.layer.${layer}`;
    for (const part of ["self.query", "self.key", "self.value", "output.dense"]) yield* linear(`${name}.attention.${part}`, hidden, hidden);
    yield* norm(`${name}.attention.output.LayerNorm`);
    yield* linear(`${name}.intermediate.dense`, hidden, intermediate);
    yield* linear(`${name}.output.dense`, intermediate, hidden);
    yield* norm(`${name}.output.LayerNorm`);
  }
  yield* linear("bert.pooler.dense", hidden, hidden);
  yield* linear("cls.predictions.transform.dense", hidden, hidden);
  yield* norm("cls.predictions.transform.LayerNorm");
  yield ["cls.predictions.bias", [vocabSize], 0];
  yield* linear("cls.seq_relationship", hidden, 2);
}

/** Is it a matrix of a linear layer? */
export const isLinear = (name, shape) => shape.length === 2 && !name.includes("_embeddings");

/** `{ name: { shape, data } }`: normal with a deviation of 0.02, but biases 0 and scales 1. */
export function weights(config, vocabSize) {
  const random = uniform(7);
  const normal = () => 0.02 * Math.sqrt(-2 * Math.log(Math.max(random(), 1e-12))) * Math.cos(2 * Math.PI * random());
  const made = {};
  for (const [name, shape, value] of shapes(config, vocabSize)) {
    const length = shape.reduce((product, size) => product * size, 1);
    made[name] = { shape, data: Float32Array.from({ length }, value === undefined ? normal : () => value) };
  }
  return made;
}

/** Enough time for a library whose every step takes long. */
const LONG_ENOUGH_MS = 100_000;

/**
 * Calls `step`, which resolves to the loss, `WARMUP_STEPS` times and then `steps` times, or fewer where that takes too
 * long. Before each it waits for `turn()`, which the page is given.
 */
export async function timeSteps(step, steps) {
  const [losses, times] = [[], []];
  let counted = 0;
  while (times.length < WARMUP_STEPS + steps && (counted < LONG_ENOUGH_MS || times.length <= WARMUP_STEPS)) {
    await turn();
    const start = performance.now();
    losses.push(await step(times.length));
    times.push(performance.now() - start);
    if (times.length > WARMUP_STEPS) counted += times.at(-1);
  }
  const sorted = times.slice(WARMUP_STEPS).sort((a, b) => a - b);
  const median = (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
  return { steps: sorted.length, step_ms: median, min_step_ms: sorted[0], first_step_ms: times[0], losses };
}
