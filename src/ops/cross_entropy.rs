//! Cross entropy over rows of logits, fused with its gradient.

use super::{Scalar, lanes, real, require, row_grid};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader =
    Shader { name: "cross_entropy", source: include_str!("../../shaders/cross_entropy.wgsl") };

/// The loss of every row, `weight * (logsumexp(logits) - logits[label])`, and whether its label has the largest logit.
#[derive(Debug, Clone, Copy)]
pub struct CrossEntropy {
    /// `[rows, stride]`; overwritten with their gradient where there is a `gradient_scale`, else kept.
    pub logits: Tensor,
    /// u32 `[rows]`, below `classes`.
    pub labels: Tensor,
    /// f32 `[rows]`; a row of weight 0 gives exact zeros.
    pub weights: Tensor,
    /// f32; with it, logits become `(softmax(logits) - onehot(label)) * weight * gradient_scale`.
    pub gradient_scale: Option<Scalar>,
    /// `[rows]`, written.
    pub row_loss: Tensor,
    /// `[rows]`, written: the weight where the label is the largest logit (the lowest such index), else 0.
    pub row_hit: Tensor,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub classes: usize,
    /// From one row of logits to the next; what lies between rows gets a gradient of 0.
    pub stride: usize,
}

/// Append a cross entropy.
///
/// # Panics
/// When a tensor is too short: a mistake in the caller.
pub fn cross_entropy(plan: &mut Plan, args: CrossEntropy) {
    let CrossEntropy { logits, labels, weights, gradient_scale, row_loss, row_hit, rows, classes, stride } =
        args;
    assert!(classes <= stride, "{classes} columns of {stride}");
    require("logits", logits, rows * stride);
    for (what, tensor) in
        [("labels", labels), ("weights", weights), ("row_loss", row_loss), ("row_hit", row_hit)]
    {
        require(what, tensor, rows);
    }
    let mut bindings = vec![(1, logits), (2, labels), (3, weights), (4, row_loss), (5, row_hit)];
    bindings.extend(gradient_scale.map(|scale| (6, scale.tensor)));
    let entry = if gradient_scale.is_some() { "loss_gradient" } else { "loss" };
    plan.dispatch(Dispatch {
        kernel: Kernel {
            shader: SHADER,
            entry,
            constants: vec![("LANES", lanes(plan))],
            types: real(&[logits]),
        },
        bindings,
        params: vec![
            rows as u32,
            classes as u32,
            stride as u32,
            gradient_scale.map_or(0, |scale| scale.word),
        ],
        groups: row_grid(plan, rows),
    });
}
