//! Layer normalization with the dropout and the residual addition before it, and its gradients.

use super::{DropoutMask, lanes, matrix_grid, real, require, row_blocks, row_grid};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "layer_norm", source: include_str!("../../shaders/layer_norm.wgsl") };

/// `y = gamma * (h - mean) * rstd + beta` in every row, with `rstd = 1 / sqrt(variance + epsilon)` and the biased
/// variance; `h = x`, or `x + residual` where there is one, or `dropout(x) + residual`.
#[derive(Debug, Clone, Copy)]
pub struct LayerNorm {
    /// `[rows, width]`.
    pub x: Tensor,
    /// The residual to add and where to keep the sum.
    pub residual: Option<Residual>,
    /// `[width]`.
    pub gamma: Tensor,
    /// `[width]`.
    pub beta: Tensor,
    /// `[rows, width]`, written.
    pub y: Tensor,
    /// `[rows, 2]`, written: mean and rstd of every row, for the backward.
    pub stats: Tensor,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub width: usize,
    /// Added to the variance.
    pub epsilon: f32,
}

/// What is added before a layer normalization.
#[derive(Debug, Clone, Copy)]
pub struct Residual {
    /// `[rows, width]`, added to x.
    pub add: Tensor,
    /// `[rows, width]`, written: h = x + add, which the backward needs.
    pub sum: Tensor,
    /// A dropout of x before it.
    pub dropout: Option<DropoutMask>,
}

/// Append a layer normalization.
///
/// # Panics
/// When a tensor is too short: a mistake in the caller.
pub fn layer_norm(plan: &mut Plan, args: LayerNorm) {
    let LayerNorm { x, residual, gamma, beta, y, stats, rows, width, epsilon } = args;
    for (what, tensor) in [("x", x), ("y", y)].into_iter().chain(residual.map(|r| ("residual", r.add))) {
        require(what, tensor, rows * width);
    }
    require("gamma", gamma, width);
    require("beta", beta, width);
    require("stats", stats, rows * 2);
    let h = residual.map_or(x, |r| r.sum);
    require("h", h, rows * width);
    let mut bindings = vec![(1, h), (2, gamma), (3, beta), (4, y), (5, stats)];
    let mut params = vec![rows as u32, width as u32, 0, epsilon.to_bits()];
    let mut entry = "forward";
    if let Some(Residual { add, dropout, .. }) = residual {
        bindings.extend([(6, x), (7, add)]);
        entry = "add_forward";
        if let Some(mask) = dropout {
            bindings.push((8, mask.words()));
            params.extend(mask.row_params(rows, width));
            entry = "dropout_add_forward";
        }
    }
    plan.dispatch(Dispatch {
        kernel: Kernel {
            shader: SHADER,
            entry,
            constants: vec![("LANES", lanes(plan))],
            types: real(&[h, x, y, residual.map_or(x, |r| r.add)]),
        },
        bindings,
        params,
        groups: row_grid(plan, rows),
    });
}

/// The gradients of a [`LayerNorm`], for h (which are also those of the residual, and without a dropout of x) and for its
/// parameters.
#[derive(Debug, Clone, Copy)]
pub struct LayerNormGradient {
    /// `[rows, width]`, the gradient of y.
    pub dy: Tensor,
    /// `[rows, width]`, what was normalized: x, or the sum with the residual.
    pub h: Tensor,
    /// `[rows, 2]`, as the forward wrote it.
    pub stats: Tensor,
    /// `[width]`.
    pub gamma: Tensor,
    /// `[rows, width]`, overwritten: the gradient of h.
    pub dh: Tensor,
    /// `[rows, width]`, overwritten: the gradient of x, where it went through a dropout.
    pub dx: Option<(Tensor, DropoutMask)>,
    /// `[width]`, overwritten.
    pub dgamma: Tensor,
    /// `[width]`, overwritten.
    pub dbeta: Tensor,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub width: usize,
}

/// Append the backward of a layer normalization.
///
/// # Panics
/// When a tensor is too short: a mistake in the caller.
pub fn layer_norm_backward(plan: &mut Plan, args: LayerNormGradient) {
    let LayerNormGradient { dy, h, stats, gamma, dh, dx, dgamma, dbeta, rows, width } = args;
    for (what, tensor) in [("dy", dy), ("h", h), ("dh", dh)] {
        require(what, tensor, rows * width);
    }
    for (what, tensor) in [("gamma", gamma), ("dgamma", dgamma), ("dbeta", dbeta)] {
        require(what, tensor, width);
    }
    require("stats", stats, rows * 2);
    let types = real(&[dy, h, dh, dx.map_or(dh, |(dx, _)| dx)]);
    let (block_rows, blocks) = row_blocks(rows);
    let params = vec![rows as u32, width as u32, block_rows as u32, 0];
    let mut bindings = vec![(1, dy), (2, h), (3, stats), (4, gamma), (5, dh)];
    let mut row_params = params.clone();
    let mut entry = "backward";
    if let Some((dx, mask)) = dx {
        require("dx", dx, rows * width);
        bindings.extend([(6, dx), (8, mask.words())]);
        row_params.extend(mask.row_params(rows, width));
        entry = "backward_dropout";
    }
    plan.dispatch(Dispatch {
        kernel: Kernel {
            shader: SHADER,
            entry,
            constants: vec![("LANES", lanes(plan))],
            types: types.clone(),
        },
        bindings,
        params: row_params,
        groups: row_grid(plan, rows),
    });
    let partial = plan.transient("layer norm parameter sums", blocks * 2 * width);
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "parameters_block", constants: vec![], types: types.clone() },
        bindings: vec![(1, dy), (2, h), (3, stats), (4, partial)],
        params: params.clone(),
        groups: matrix_grid(blocks, width),
    });
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "parameters", constants: vec![], types: types.clone() },
        bindings: vec![(1, partial), (2, dgamma), (3, dbeta)],
        params,
        groups: matrix_grid(1, width),
    });
}
