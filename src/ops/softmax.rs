//! Masked softmax over attention scores, in place, with the dropout that follows it, and its gradient.

use super::{DropoutMask, lanes, real, require, row_grid};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "softmax", source: include_str!("../../shaders/softmax.wgsl") };

/// Scores become probabilities over keys: `softmax(scores + (1 - mask) * -1e9)`.
///
/// A sequence's mask holds for all its rows; a row whose keys are all masked becomes uniform.
#[derive(Debug, Clone, Copy)]
pub struct Softmax {
    /// `[sequences, rows_per_sequence, keys]`, in place.
    pub scores: Tensor,
    /// u32 `[sequences, keys]`: 1 for a key that may be attended to, 0 for one that may not.
    pub mask: Tensor,
    /// As the scores, written: the probabilities after a dropout.
    pub dropped: Option<(Tensor, DropoutMask)>,
    /// Sequences in the batch.
    pub sequences: usize,
    /// Rows of a sequence: heads times queries.
    pub rows_per_sequence: usize,
    /// Columns.
    pub keys: usize,
}

/// Append a masked softmax.
///
/// # Panics
/// When a tensor is too short: a mistake in the caller.
pub fn softmax(plan: &mut Plan, args: Softmax) {
    let Softmax { scores, mask, dropped, sequences, rows_per_sequence, keys } = args;
    let rows = sequences * rows_per_sequence;
    require("scores", scores, rows * keys);
    require("mask", mask, sequences * keys);
    let mut bindings = vec![(1, scores), (2, mask)];
    let mut params = [rows, keys, rows_per_sequence].map(|word| word as u32).to_vec();
    let mut entry = "forward";
    if let Some((dropped, mask)) = dropped {
        require("dropped", dropped, rows * keys);
        bindings.extend([(3, dropped), (4, mask.words())]);
        params.extend(mask.row_params(rows, mask.tokens.in_whole(keys)));
        entry = "forward_dropout";
    }
    plan.dispatch(Dispatch {
        kernel: Kernel {
            shader: SHADER,
            entry,
            constants: vec![("LANES", lanes(plan))],
            types: real(&[scores, dropped.map_or(scores, |(dropped, _)| dropped)]),
        },
        bindings,
        params,
        groups: row_grid(plan, rows),
    });
}

/// `dS = P * (dP - Σ P dP)` in every row, written over dP. Masked keys have P = 0, so they get no gradient.
#[derive(Debug, Clone, Copy)]
pub struct SoftmaxGradient {
    /// P `[rows, keys]`, as [`softmax`] wrote it.
    pub probabilities: Tensor,
    /// dP `[rows, keys]`, or where there is a dropout the gradient after it; in place: dS afterwards.
    pub gradient: Tensor,
    /// The dropout.
    pub dropout: Option<DropoutMask>,
    /// Rows: sequences times heads times queries.
    pub rows: usize,
    /// Columns.
    pub keys: usize,
}

/// Append the backward of a softmax.
///
/// # Panics
/// When a tensor is too short: a mistake in the caller.
pub fn softmax_backward(plan: &mut Plan, args: SoftmaxGradient) {
    let SoftmaxGradient { probabilities, gradient, dropout, rows, keys } = args;
    require("probabilities", probabilities, rows * keys);
    require("gradient", gradient, rows * keys);
    let mut bindings = vec![(1, probabilities), (2, gradient)];
    let mut params = vec![rows as u32, keys as u32, 1];
    let mut entry = "backward";
    if let Some(mask) = dropout {
        bindings.push((4, mask.words()));
        params.extend(mask.row_params(rows, mask.tokens.in_whole(keys)));
        entry = "backward_dropout";
    }
    plan.dispatch(Dispatch {
        kernel: Kernel {
            shader: SHADER,
            entry,
            constants: vec![("LANES", lanes(plan))],
            types: real(&[probabilities, gradient]),
        },
        bindings,
        params,
        groups: row_grid(plan, rows),
    });
}
