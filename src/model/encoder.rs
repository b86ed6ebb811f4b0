//! The embeddings and the transformer layers, forward and backward.
//!
//! Shapes: T = B·S token rows, H hidden, A heads of D = H / A, I intermediate. Post-layer-norm, as in the paper:
//!
//! ```text
//! x  = LayerNorm(word[ids] + position + token_type[types]), dropout
//! P  = softmax(q kᵀ / sqrt(D) + mask), dropout
//! x1 = LayerNorm(x + dropout((P v) Wo + bo))
//! x' = LayerNorm(x1 + dropout(act(x1 W1 + b1) W2 + b2))
//! ```

use super::layer_norm::Normalized;
use super::step::Builder;
use crate::gpu::{Plan, Tensor};
use crate::ops::{
    Embedding, Linear, Matmul, Operand, Softmax, SoftmaxGradient, TableGradient, embedding, matmul, softmax,
    softmax_backward, table_gradient,
};

/// Tensors of the embedding block that its backward needs.
pub(super) struct EmbeddingTape {
    norm: Normalized,
    /// After dropout, `[T, H]`.
    pub output: Tensor,
}

/// Tensors of a layer that its backward needs.
pub(super) struct LayerTape {
    /// `[T, H]`.
    pub input: Tensor,
    /// Query, key and value: one `[T, 3H]` or three `[T, H]`.
    projections: Vec<Tensor>,
    /// `[B, A, S, S]`, and after dropout.
    probabilities: Tensor,
    dropped_probabilities: Tensor,
    /// P v, `[T, H]`.
    context: Tensor,
    attention: Normalized,
    /// `[T, I]`, before and after the activation.
    intermediate: Tensor,
    activated: Tensor,
    /// The layer's end; its `y` is the output, `[T, H]`.
    pub output: Normalized,
}

/// Dropout sites are numbered: 0 the embeddings', then three a layer.
const SITES_PER_LAYER: u32 = 3;

impl Builder<'_> {
    pub(super) fn embeddings(&self, plan: &mut Plan) -> EmbeddingTape {
        let (rows, width) = (self.shape.tokens(), self.config.hidden_size);
        let table = |part: &str| self.weight(&format!("bert.embeddings.{part}_embeddings.weight"));
        let x = self.transient(plan, "embedding sum", rows * width);
        let (word_ids, type_ids) = (self.inputs.input_ids, self.inputs.token_type_ids);
        let (word, position, token_type) = (table("word"), table("position"), table("token_type"));
        let seq = self.shape.seq_length;
        embedding(plan, Embedding { word_ids, type_ids, word, position, token_type, x, rows, seq, width });
        let norm = self.layer_norm(plan, "bert.embeddings.LayerNorm", x, rows);
        let output = self.dropout(plan, norm.y, self.hidden_dropout(0));
        EmbeddingTape { norm, output }
    }

    pub(super) fn embeddings_backward(&self, plan: &mut Plan, tape: &EmbeddingTape, d_output: Tensor) {
        let d_norm = self.dropout(plan, d_output, self.hidden_dropout(0));
        let rows = self.shape.tokens();
        let dx = self.layer_norm_backward(plan, "bert.embeddings.LayerNorm", &tape.norm, d_norm, rows);
        for (part, rows_by_id) in ["word", "position", "token_type"].into_iter().zip(self.inputs.rows_by_id) {
            let table = self.gradient(&format!("bert.embeddings.{part}_embeddings.weight"));
            // Rows no token used must be zero. The decoder has filled the words' gradient already.
            if part != "word" {
                plan.clear(table);
            }
            let width = self.config.hidden_size;
            table_gradient(plan, TableGradient { rows_by_id, dx, table, width, accumulate: true });
        }
    }

    pub(super) fn layer(&self, plan: &mut Plan, layer: usize, input: Tensor) -> LayerTape {
        let (rows, hidden) = (self.shape.tokens(), self.config.hidden_size);
        let name = |part: &str| format!("bert.encoder.layer.{layer}.{part}");
        let site = 1 + layer as u32 * SITES_PER_LAYER;

        let weights = self.query_key_value(layer);
        let outputs = 3 * hidden / weights.len();
        let project = |weight: &super::parameters::WeightAndBias| {
            let y = self.transient(plan, "query, key, value", rows * outputs);
            let layer = Linear { rows, inputs: hidden, outputs };
            layer.forward(plan, Operand::rows(input, hidden), weight.weight, weight.bias, y);
            y
        };
        let projections: Vec<_> = weights.iter().map(project).collect();
        let [query, key, value] = self.heads(&projections);
        let probabilities = self.transient(plan, "attention probabilities", self.scores());
        let scale = 1.0 / (self.config.head_size() as f32).sqrt();
        let scores = self.score_matrices(probabilities);
        self.attention_product(plan, query, key.transposed(), scores, scale, false);
        let dropped = self.attention_dropout(site).map(|mask| {
            let dropped = self.transient(plan, "dropped attention probabilities", self.scores());
            (dropped, mask)
        });
        softmax(
            plan,
            Softmax {
                scores: probabilities,
                mask: self.inputs.attention_mask,
                dropped,
                sequences: self.shape.batch_size,
                rows_per_sequence: self.config.num_attention_heads * self.shape.seq_length,
                keys: self.shape.seq_length,
            },
        );
        let dropped_probabilities = dropped.map_or(probabilities, |(dropped, _)| dropped);
        let context = self.transient(plan, "context", rows * hidden);
        let dropped = self.score_matrices(dropped_probabilities);
        self.attention_product(plan, dropped, value, self.head_columns(context, hidden, 0), 1.0, true);

        let attended = self.linear(plan, &name("attention.output.dense"), context, rows, hidden, hidden);
        let norm_name = name("attention.output.LayerNorm");
        let attention = self.add_layer_norm(plan, &norm_name, attended, input, site + 1);

        let width = self.config.intermediate_size;
        let intermediate = self.linear(plan, &name("intermediate.dense"), attention.y, rows, hidden, width);
        let activated = self.activation(plan, intermediate);
        let fed = self.linear(plan, &name("output.dense"), activated, rows, width, hidden);
        let output = self.add_layer_norm(plan, &name("output.LayerNorm"), fed, attention.y, site + 2);
        LayerTape {
            input,
            projections,
            probabilities,
            dropped_probabilities,
            context,
            attention,
            intermediate,
            activated,
            output,
        }
    }

    /// From the gradient of the layer's output to that of its input.
    pub(super) fn layer_backward(
        &self,
        plan: &mut Plan,
        layer: usize,
        tape: &LayerTape,
        d_output: Tensor,
    ) -> Tensor {
        let (rows, hidden, width) =
            (self.shape.tokens(), self.config.hidden_size, self.config.intermediate_size);
        let name = |part: &str| format!("bert.encoder.layer.{layer}.{part}");
        let site = 1 + layer as u32 * SITES_PER_LAYER;

        // Feed-forward. The gradient of its residual sum is also that of the attention's output, in part.
        let norm_name = name("output.LayerNorm");
        let [d_attention, d_fed] =
            self.add_layer_norm_backward(plan, &norm_name, &tape.output, d_output, site + 2);
        let d_activated = self.transient(plan, "d activated", rows * width);
        let output = Linear { rows, inputs: width, outputs: hidden };
        self.linear_backward(
            plan,
            &name("output.dense"),
            &output,
            d_fed,
            Operand::rows(tape.activated, width),
        );
        let weight = self.matrix(&name("output.dense.weight"));
        output.input_gradient(plan, d_fed, weight, Operand::rows(d_activated, width), false);
        self.activation_backward(plan, tape.intermediate, d_activated);
        let intermediate = Linear { rows, inputs: hidden, outputs: width };
        let x = Operand::rows(tape.attention.y, hidden);
        self.linear_backward(plan, &name("intermediate.dense"), &intermediate, d_activated, x);
        // d_fed may be the same tensor without dropout; its last reader is above.
        let weight = self.matrix(&name("intermediate.dense.weight"));
        intermediate.input_gradient(plan, d_activated, weight, Operand::rows(d_attention, hidden), true);

        // Attention.
        let norm_name = name("attention.output.LayerNorm");
        let [d_input, d_attended] =
            self.add_layer_norm_backward(plan, &norm_name, &tape.attention, d_attention, site + 1);
        let output = Linear { rows, inputs: hidden, outputs: hidden };
        let x = Operand::rows(tape.context, hidden);
        self.linear_backward(plan, &name("attention.output.dense"), &output, d_attended, x);
        let d_context = self.transient(plan, "d context", rows * hidden);
        let weight = self.matrix(&name("attention.output.dense.weight"));
        output.input_gradient(plan, d_attended, weight, Operand::rows(d_context, hidden), false);

        let [query, key, value] = self.heads(&tape.projections);
        let d_projections: Vec<_> =
            tape.projections.iter().map(|p| self.transient(plan, "d query, key, value", p.len())).collect();
        let [d_query, d_key, d_value] = self.heads(&d_projections);
        let gradient = self.transient(plan, "d attention probabilities", self.scores());
        let d_scores = self.score_matrices(gradient);
        let context = self.head_columns(d_context, hidden, 0);
        self.attention_product(plan, context, value.transposed(), d_scores, 1.0, false);
        let dropped = self.score_matrices(tape.dropped_probabilities);
        self.attention_product(plan, dropped.transposed(), context, d_value, 1.0, true);
        softmax_backward(
            plan,
            SoftmaxGradient {
                probabilities: tape.probabilities,
                gradient,
                dropout: self.attention_dropout(site),
                rows: self.scores() / self.shape.seq_length,
                keys: self.shape.seq_length,
            },
        );
        let scale = 1.0 / (self.config.head_size() as f32).sqrt();
        self.attention_product(plan, d_scores, key, d_query, scale, true);
        self.attention_product(plan, d_scores.transposed(), query, d_key, scale, true);

        let weights = self.query_key_value(layer);
        let gradients = self.gradients.query_key_value(self.table, layer);
        let layer = Linear { rows, inputs: hidden, outputs: 3 * hidden / weights.len() };
        for ((dy, weight), gradient) in d_projections.into_iter().zip(weights).zip(gradients) {
            let x = Operand::rows(tape.input, hidden);
            layer.weight_gradient(plan, dy, x, gradient.weight, gradient.bias);
            layer.input_gradient(plan, dy, weight.weight, Operand::rows(d_input, hidden), true);
        }
        d_input
    }

    /// Words of the attention scores, `[B, A, S, S]`.
    fn scores(&self) -> usize {
        self.shape.tokens() * self.config.num_attention_heads * self.shape.seq_length
    }

    /// Scores as a batch (B, A) of S x S matrices.
    fn score_matrices(&self, tensor: Tensor) -> Operand {
        let seq = self.shape.seq_length;
        let inner = seq * seq;
        Operand { outer: self.config.num_attention_heads * inner, inner, ..Operand::rows(tensor, seq) }
    }

    /// H columns of a `[T, width]` tensor from `first` on as a batch (B, A) of S x D matrices.
    fn head_columns(&self, tensor: Tensor, width: usize, first: usize) -> Operand {
        let outer = self.shape.seq_length * width;
        Operand { base: first, outer, inner: self.config.head_size(), ..Operand::rows(tensor, width) }
    }

    /// Query, key and value as batches (B, A) of S x D matrices.
    fn heads(&self, projections: &[Tensor]) -> [Operand; 3] {
        let hidden = self.config.hidden_size;
        [0, 1, 2].map(|part| match projections {
            [fused] => self.head_columns(*fused, 3 * hidden, part * hidden),
            separate => self.head_columns(separate[part], hidden, 0),
        })
    }

    /// A product per head: of S x S with S x D where `wide` is false, of D columns where it is true.
    fn attention_product(
        &self,
        plan: &mut Plan,
        a: Operand,
        b: Operand,
        c: Operand,
        alpha: f32,
        to_head: bool,
    ) {
        let (seq, head) = (self.shape.seq_length, self.config.head_size());
        let (n, k) = if to_head { (head, seq) } else { (seq, head) };
        let batch = (self.shape.batch_size, self.config.num_attention_heads);
        matmul(
            plan,
            Matmul { a, b, c, bias: None, sums: None, m: seq, n, k, batch, alpha, accumulate: false },
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::gpu::KernelFamily;
    use crate::model::config::BertConfig;
    use crate::model::{BatchShape, StepKind, StepPlan};

    #[test]
    fn dropout_costs_a_layer_no_dispatch() {
        let shape = BatchShape { batch_size: 2, seq_length: 16, predictions: 3 };
        let dispatches = |rate| {
            let config = BertConfig {
                hidden_dropout_prob: rate,
                attention_probs_dropout_prob: rate,
                ..BertConfig::preset("mini", 100).expect("mini")
            };
            let kind = StepKind::gradients(true);
            StepPlan::new(&config, shape, kind, KernelFamily::Workgroup, 128 << 20).layer_dispatches
        };
        let [forward, backward] = dispatches(0.1);
        assert!((1..=20).contains(&forward) && (1..=20).contains(&backward), "{forward} + {backward}");
        assert_eq!(dispatches(0.0), [forward, backward]);
    }
}
