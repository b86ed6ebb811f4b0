//! What a training step must compute and move, whatever kernels do it.
//!
//! T = B·S token rows, R = B·M prediction rows; H, I, L, A, V as in [`BertConfig`].

use super::config::BertConfig;
use super::inputs::BatchShape;
use super::parameters::parameter_shapes;
use crate::gpu::Precision;

/// The matrix products of one kind: how many, and the rows, columns and summed dimension of each.
struct Products {
    count: u64,
    m: u64,
    n: u64,
    k: u64,
}

/// Those of the forward. The backward has two for each, of the same three matrices.
fn products(config: &BertConfig, shape: BatchShape) -> [Products; 10] {
    let [hidden, width, heads, layers, vocabulary] = [
        config.hidden_size,
        config.intermediate_size,
        config.num_attention_heads,
        config.num_hidden_layers,
        config.vocab_size,
    ]
    .map(|size| size as u64);
    let [sequences, seq, tokens, slots] =
        [shape.batch_size, shape.seq_length, shape.tokens(), shape.slots()].map(|size| size as u64);
    let head = hidden / heads;
    let of = |count, (m, n, k)| Products { count, m, n, k };
    [
        of(layers, (tokens, 3 * hidden, hidden)),
        of(layers * sequences * heads, (seq, seq, head)),
        of(layers * sequences * heads, (seq, head, seq)),
        of(layers, (tokens, hidden, hidden)),
        of(layers, (tokens, width, hidden)),
        of(layers, (tokens, hidden, width)),
        of(1, (slots, hidden, hidden)),
        of(1, (slots, vocabulary, hidden)),
        of(1, (sequences, hidden, hidden)),
        of(1, (sequences, 2, hidden)),
    ]
}

/// Floating-point operations of a training step with the next-sentence task, those of matrix products alone, a
/// multiplication and an addition being two:
///
/// ```text
/// forward = 2·T·L·(4H² + 2H·I) + 4·T·S·H·L + 2·R·H·(H + V) + 2·B·H·(H + 2)
/// step    = 3 · forward
/// ```
///
/// The backward of a product is two of the same size. What is computed twice, or for padding, counts once, as it would
/// without.
pub fn step_flops(config: &BertConfig, shape: BatchShape) -> u64 {
    3 * products(config, shape).iter().map(|Products { count, m, n, k }| count * 2 * m * n * k).sum::<u64>()
}

/// The least bytes that a training step with the next-sentence task can move, if no kernel kept more than a row or a
/// tile to itself: each operand of each matrix product once, each other activation written once and read once per use,
/// each parameter with its gradient and moments once, and its gradient once more for the norm. What is updated in place
/// counts once, as in [`Plan::moved_bytes`](crate::gpu::Plan::moved_bytes). Operands and activations are stored in
/// `precision`, parameters in f32.
pub fn least_moved_bytes(config: &BertConfig, shape: BatchShape, precision: Precision) -> u64 {
    let operands = |Products { count, m, n, k }: &Products| count * (m * k + k * n + m * n);
    let matmuls = 3 * products(config, shape).iter().map(operands).sum::<u64>();
    let [tokens, slots, hidden] = [shape.tokens(), shape.slots(), config.hidden_size].map(|size| size as u64);
    let scores = tokens * (config.num_attention_heads * shape.seq_length) as u64;
    let layer =
        // Softmax in place; its backward reads probabilities, too.
        3 * scores
        // The activation reads and writes; its backward reads its input and works in place.
        + 4 * tokens * config.intermediate_size as u64
        // Two layer norms with a residual: four tensors forward, three backward.
        + 14 * tokens * hidden;
    // The sum of three tables and its layer norm, and both backward.
    let embeddings = 8 * tokens * hidden;
    // Gather, activation, layer norm, cross entropy in place, scatter.
    let head = 12 * slots * hidden + slots * config.vocab_size as u64 + tokens * hidden;
    let shapes = parameter_shapes(config, true);
    let parameters: u64 = shapes.iter().map(|(_, shape)| shape.iter().product::<usize>() as u64).sum();
    let layers = config.num_hidden_layers as u64 * layer;
    precision.bytes() as u64 * (matmuls + layers + embeddings + head) + 4 * 5 * parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: BatchShape = BatchShape { batch_size: 8, seq_length: 128, predictions: 20 };

    #[test]
    fn flops_follow_the_formula() {
        for (name, vocab_size, gflops) in [("tiny", 8192, 3.84), ("tiny", 30522, 6.58), ("mini", 8192, 23.0)]
        {
            let config = BertConfig::preset(name, vocab_size).unwrap();
            let flops = step_flops(&config, SHAPE);
            assert!((flops as f64 / 1e9 / gflops - 1.0).abs() < 5e-3, "{name}, {vocab_size}: {flops}");
            let [h, i, l, v] =
                [config.hidden_size, config.intermediate_size, config.num_hidden_layers, config.vocab_size];
            let (t, s, r, b) = (1024, 128, 160, 8);
            let forward = 2 * t * l * (4 * h * h + 2 * h * i)
                + 4 * t * s * h * l
                + 2 * r * h * (h + v)
                + 2 * b * h * (h + 2);
            assert_eq!(flops, 3 * forward as u64);
        }
    }

    #[test]
    fn the_least_is_less_than_what_each_part_moves_alone() {
        let config = BertConfig::preset("tiny", 8192).unwrap();
        let parameters = 1_552_898;
        let least = least_moved_bytes(&config, SHAPE, Precision::F32);
        let logits = 4 * 160 * 8192;
        let half = least_moved_bytes(&config, SHAPE, Precision::F16);
        assert_eq!(2 * half, least + 20 * parameters, "what is updated stays in f32");
        assert!(least > 20 * parameters + 4 * logits, "{least}");
        let none = BertConfig { num_hidden_layers: 0, ..config.clone() };
        let two = BertConfig { num_hidden_layers: 4, ..config };
        assert_eq!(
            least_moved_bytes(&two, SHAPE, Precision::F32) - least,
            least - least_moved_bytes(&none, SHAPE, Precision::F32)
        );
    }
}
