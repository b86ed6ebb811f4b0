//! Layer norms of the model, with the dropout and the residual before them, forward and backward.

use super::step::Builder;
use crate::gpu::{Plan, Tensor};
use crate::ops::{DropoutMask, LayerNorm, LayerNormGradient, Residual, layer_norm, layer_norm_backward};

/// What a layer norm's backward needs of its forward.
#[derive(Debug, Clone, Copy)]
pub(super) struct Normalized {
    /// What was normalized, `[rows, H]`.
    h: Tensor,
    /// Mean and 1/deviation of every row.
    stats: Tensor,
    /// The result, `[rows, H]`.
    pub y: Tensor,
}

impl Builder<'_> {
    pub(super) fn hidden_dropout(&self, site: u32) -> Option<DropoutMask> {
        self.dropout_mask(self.config.hidden_dropout_prob, site)
    }

    pub(super) fn attention_dropout(&self, site: u32) -> Option<DropoutMask> {
        self.dropout_mask(self.config.attention_probs_dropout_prob, site)
    }

    pub(super) fn layer_norm(&self, plan: &mut Plan, name: &str, x: Tensor, rows: usize) -> Normalized {
        self.normalize(plan, name, x, None, rows)
    }

    /// Of the token rows after dropout, with a residual added.
    pub(super) fn add_layer_norm(
        &self,
        plan: &mut Plan,
        name: &str,
        x: Tensor,
        add: Tensor,
        site: u32,
    ) -> Normalized {
        let (sum, dropout) = (self.transient(plan, "residual sum", add.len()), self.hidden_dropout(site));
        self.normalize(plan, name, x, Some(Residual { add, sum, dropout }), self.shape.tokens())
    }

    fn normalize(
        &self,
        plan: &mut Plan,
        name: &str,
        x: Tensor,
        residual: Option<Residual>,
        rows: usize,
    ) -> Normalized {
        let width = self.config.hidden_size;
        let (y, stats) =
            (self.transient(plan, name, rows * width), plan.transient("layer norm stats", rows * 2));
        let scale = self.weights.pair(self.table, name);
        let (gamma, beta, epsilon) = (scale.weight, scale.bias, self.config.layer_norm_eps as f32);
        layer_norm(plan, LayerNorm { x, residual, gamma, beta, y, stats, rows, width, epsilon });
        Normalized { h: residual.map_or(x, |r| r.sum), stats, y }
    }

    pub(super) fn layer_norm_backward(
        &self,
        plan: &mut Plan,
        name: &str,
        tape: &Normalized,
        dy: Tensor,
        rows: usize,
    ) -> Tensor {
        self.normalize_backward(plan, name, tape, dy, None, rows)
    }

    /// The gradients of the residual that was added, and of x before its dropout: one tensor where nothing is dropped.
    pub(super) fn add_layer_norm_backward(
        &self,
        plan: &mut Plan,
        name: &str,
        tape: &Normalized,
        dy: Tensor,
        site: u32,
    ) -> [Tensor; 2] {
        let dx = self.hidden_dropout(site).map(|mask| (self.transient(plan, "d dropped", dy.len()), mask));
        let dh = self.normalize_backward(plan, name, tape, dy, dx, self.shape.tokens());
        [dh, dx.map_or(dh, |(dx, _)| dx)]
    }

    fn normalize_backward(
        &self,
        plan: &mut Plan,
        name: &str,
        tape: &Normalized,
        dy: Tensor,
        dx: Option<(Tensor, DropoutMask)>,
        rows: usize,
    ) -> Tensor {
        let width = self.config.hidden_size;
        let dh = self.transient(plan, "d residual sum", rows * width);
        let gamma = self.weights.pair(self.table, name).weight;
        let gradient = self.gradients.pair(self.table, name);
        let (h, stats, dgamma, dbeta) = (tape.h, tape.stats, gradient.weight, gradient.bias);
        layer_norm_backward(
            plan,
            LayerNormGradient { dy, h, stats, gamma, dh, dx, dgamma, dbeta, rows, width },
        );
        dh
    }
}
