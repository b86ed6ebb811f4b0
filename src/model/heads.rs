//! The masked-LM and next-sentence heads with their losses, forward and backward.
//!
//! Only masked positions reach the vocabulary: their R = B·M rows are gathered first.
//!
//! ```text
//! logits  = LayerNorm(act(x[rows] Wt + bt)) Eᵀ + bias        E: the word embedding, tied
//! logits2 = tanh(x[:, 0] Wp + bp) Wn + bn
//! loss    = Σ w·ce(logits) / Σ w  +  mean ce(logits2)
//! ```

use super::inputs::StepWord;
use super::layer_norm::Normalized;
use super::parameters::padded_vocabulary;
use super::step::Builder;
use crate::gpu::{Plan, Tensor};
use crate::ops::{
    CrossEntropy, Function, GatherRows, Linear, Operand, RowMetrics, Scalar, ScatterRows, activation,
    activation_backward, cross_entropy, gather_rows, scatter_rows,
};

/// Tensors of the masked-LM head that its backward needs.
pub(super) struct MlmTape {
    gathered: Tensor,
    transformed: Tensor,
    norm: Normalized,
    /// `[R, V]`, V padded.
    pub logits: Tensor,
}

/// Tensors of the next-sentence head that its backward needs.
pub(super) struct NspTape {
    /// Before tanh, `[B, H]`.
    pooler: Tensor,
    /// After it.
    pub pooled: Tensor,
    /// `[B, 2]`.
    pub logits: Tensor,
}

const TRANSFORM: &str = "cls.predictions.transform.dense";
const TRANSFORM_NORM: &str = "cls.predictions.transform.LayerNorm";
const POOLER: &str = "bert.pooler.dense";
const NEXT_SENTENCE: &str = "cls.seq_relationship";

impl Builder<'_> {
    fn decoder(&self) -> Linear {
        let (inputs, outputs) = (self.config.hidden_size, padded_vocabulary(self.config));
        Linear { rows: self.shape.slots(), inputs, outputs }
    }

    pub(super) fn mlm_head(&self, plan: &mut Plan, sequence_output: Tensor) -> MlmTape {
        let (rows, width) = (self.shape.slots(), self.config.hidden_size);
        let gathered = self.transient(plan, "masked positions", rows * width);
        let (src, index) = (sequence_output, self.inputs.mlm_rows);
        gather_rows(plan, GatherRows { src, index, dst: gathered, rows, width });
        let transformed = self.linear(plan, TRANSFORM, gathered, rows, width, width);
        let activated = self.activation(plan, transformed);
        let norm = self.layer_norm(plan, TRANSFORM_NORM, activated, rows);
        let logits = self.transient(plan, "masked-LM logits", rows * padded_vocabulary(self.config));
        let words = self.matrices.decoder(self.table).weight;
        let bias = self.weights.decoder(self.table).bias;
        self.decoder().forward(plan, Operand::rows(norm.y, width), words, bias, logits);
        MlmTape { gathered, transformed, norm, logits }
    }

    /// From the gradient of the logits, which the loss left in their place, to that of the sequence output.
    pub(super) fn mlm_head_backward(&self, plan: &mut Plan, tape: &MlmTape) -> Tensor {
        let (rows, width) = (self.shape.slots(), self.config.hidden_size);
        let gradient = self.gradients.decoder(self.table);
        let x = Operand::rows(tape.norm.y, width);
        self.decoder().weight_gradient(plan, tape.logits, x, gradient.weight, gradient.bias);
        let d_norm = self.transient(plan, "d masked-LM norm", rows * width);
        let words = self.matrices.decoder(self.table).weight;
        self.decoder().input_gradient(plan, tape.logits, words, Operand::rows(d_norm, width), false);
        let d_transformed = self.layer_norm_backward(plan, TRANSFORM_NORM, &tape.norm, d_norm, rows);
        self.activation_backward(plan, tape.transformed, d_transformed);
        let transform = Linear { rows, inputs: width, outputs: width };
        let x = Operand::rows(tape.gathered, width);
        self.linear_backward(plan, TRANSFORM, &transform, d_transformed, x);
        let d_gathered = self.transient(plan, "d masked positions", rows * width);
        let weight = self.matrix(&format!("{TRANSFORM}.weight"));
        transform.input_gradient(plan, d_transformed, weight, Operand::rows(d_gathered, width), false);
        let d_output = self.transient(plan, "d sequence output", self.shape.tokens() * width);
        let (offsets, index) = self.inputs.predictions_by_row;
        let rows = self.shape.tokens();
        scatter_rows(plan, ScatterRows { src: d_gathered, index, offsets, dst: d_output, rows, width });
        d_output
    }

    /// The first token of every sequence as a `[B, H]` matrix.
    fn first_tokens(&self, tensor: Tensor) -> Operand {
        let width = self.config.hidden_size;
        Operand { row: self.shape.seq_length * width, ..Operand::rows(tensor, width) }
    }

    pub(super) fn nsp_head(&self, plan: &mut Plan, sequence_output: Tensor) -> NspTape {
        let (rows, width) = (self.shape.batch_size, self.config.hidden_size);
        let (pooler, pooled) =
            (self.transient(plan, "pooler", rows * width), self.transient(plan, "pooled", rows * width));
        let weights = self.weight_and_bias(POOLER);
        let layer = Linear { rows, inputs: width, outputs: width };
        layer.forward(plan, self.first_tokens(sequence_output), weights.weight, weights.bias, pooler);
        activation(plan, Function::Tanh, pooler, pooled);
        let logits = self.linear(plan, NEXT_SENTENCE, pooled, rows, width, 2);
        NspTape { pooler, pooled, logits }
    }

    /// Adds to the gradient of the sequence output.
    pub(super) fn nsp_head_backward(
        &self,
        plan: &mut Plan,
        tape: &NspTape,
        sequence_output: Tensor,
        d_output: Tensor,
    ) {
        let (rows, width) = (self.shape.batch_size, self.config.hidden_size);
        let classifier = Linear { rows, inputs: width, outputs: 2 };
        let x = Operand::rows(tape.pooled, width);
        self.linear_backward(plan, NEXT_SENTENCE, &classifier, tape.logits, x);
        let d_pooled = self.transient(plan, "d pooled", rows * width);
        let weight = self.matrix(&format!("{NEXT_SENTENCE}.weight"));
        classifier.input_gradient(plan, tape.logits, weight, Operand::rows(d_pooled, width), false);
        activation_backward(plan, Function::Tanh, tape.pooler, d_pooled);
        let pooler = Linear { rows, inputs: width, outputs: width };
        self.linear_backward(plan, POOLER, &pooler, d_pooled, self.first_tokens(sequence_output));
        let weight = self.matrix(&format!("{POOLER}.weight"));
        pooler.input_gradient(plan, d_pooled, weight, self.first_tokens(d_output), true);
    }

    /// Losses of the masked predictions; with `gradients` the logits become their gradient.
    pub(super) fn mlm_loss(&self, plan: &mut Plan, logits: Tensor, gradients: bool) -> RowMetrics {
        let loss_scale = self.inputs.scalar(StepWord::MlmScale);
        let hit_scale = self.inputs.scalar(StepWord::MlmHitScale);
        let targets = (self.inputs.mlm_ids, self.inputs.mlm_weights);
        let classes = self.config.vocab_size;
        let gradient_scale = self.loss_scaling.map_or(loss_scale, |scaled| scaled.factors[0]);
        let (row_loss, row_hit) =
            self.loss(plan, logits, classes, targets, gradients.then_some(gradient_scale));
        RowMetrics { row_loss, row_hit, loss_scale, hit_scale }
    }

    /// Losses of the next-sentence predictions, likewise.
    pub(super) fn nsp_loss(&self, plan: &mut Plan, logits: Tensor, gradients: bool) -> RowMetrics {
        let scale = self.inputs.scalar(StepWord::NspScale);
        let targets = (self.inputs.nsp_labels, self.inputs.nsp_weights);
        let gradient_scale = self.loss_scaling.map_or(scale, |scaled| scaled.factors[1]);
        let (row_loss, row_hit) = self.loss(plan, logits, 2, targets, gradients.then_some(gradient_scale));
        RowMetrics { row_loss, row_hit, loss_scale: scale, hit_scale: scale }
    }

    fn loss(
        &self,
        plan: &mut Plan,
        logits: Tensor,
        classes: usize,
        (labels, weights): (Tensor, Tensor),
        gradient_scale: Option<Scalar>,
    ) -> (Tensor, Tensor) {
        let rows = labels.len();
        let stride = logits.len() / rows;
        let (row_loss, row_hit) = (plan.transient("row loss", rows), plan.transient("row hit", rows));
        cross_entropy(
            plan,
            CrossEntropy {
                logits,
                labels,
                weights,
                gradient_scale,
                row_loss,
                row_hit,
                rows,
                classes,
                stride,
            },
        );
        (row_loss, row_hit)
    }
}
