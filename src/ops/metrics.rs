//! One step's numbers, written into a ring on the device that the host reads every few steps.

use super::{NORM_WORDS, Scalar, lanes, require};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "metrics", source: include_str!("../../shaders/metrics.wgsl") };

/// Words of a record.
pub const RECORD_WORDS: usize = 8;

/// The rows of one task, as [`super::cross_entropy`] wrote them, and what to multiply their sums with.
#[derive(Debug, Clone, Copy)]
pub struct RowMetrics {
    /// `[rows]`.
    pub row_loss: Tensor,
    /// `[rows]`.
    pub row_hit: Tensor,
    /// f32, factor of the sum of the losses.
    pub loss_scale: Scalar,
    /// f32, factor of the sum of the hits.
    pub hit_scale: Scalar,
}

/// Record number `slot` of the ring: `[Σ mlm loss, Σ mlm hit, Σ nsp loss, Σ nsp hit, gradient norm, step, why, loss
/// scale]`, the sums scaled, all words f32 but the step and why the update was left out, which are u32.
#[derive(Debug, Clone, Copy)]
pub struct Metrics {
    /// Masked language model rows.
    pub mlm: RowMetrics,
    /// Next sentence rows; without them their sums are 0.
    pub nsp: Option<RowMetrics>,
    /// `[NORM_WORDS]`, the norm of the gradients and the verdict on the step; zeros without an update.
    pub norm: Tensor,
    /// u32, the step's number.
    pub step: Scalar,
    /// u32, the record to write, below the number of records.
    pub slot: Scalar,
    /// `[records, 8]`, one record written.
    pub ring: Tensor,
}

/// Append the writing of a record.
///
/// # Panics
/// When scalars lie in different tensors, or losses and hits differ in number: a mistake in the caller.
pub fn metrics(plan: &mut Plan, args: Metrics) {
    let Metrics { mlm, nsp, norm, step, slot, ring } = args;
    let scalars = slot.tensor;
    let word = |scalar: Scalar| {
        assert_eq!(scalar.tensor, scalars, "the step's scalars must lie in one tensor");
        scalar.word
    };
    // Without next sentence rows something must still be bound in their place; none of it is read.
    let second = nsp.unwrap_or(mlm);
    for rows in [mlm, second] {
        require("row_hit", rows.row_hit, rows.row_loss.len());
        require("row_loss", rows.row_loss, rows.row_hit.len());
    }
    require("ring", ring, RECORD_WORDS);
    require("norm", norm, NORM_WORDS);
    let scales = [mlm.loss_scale, mlm.hit_scale, second.loss_scale, second.hit_scale];
    let mut params = scales.map(word).to_vec();
    params.extend([mlm.row_loss.len() as u32, nsp.map_or(0, |rows| rows.row_loss.len() as u32)]);
    params.extend([slot.word, word(step)]);
    plan.dispatch(Dispatch {
        kernel: Kernel {
            shader: SHADER,
            entry: "metrics",
            constants: vec![("LANES", lanes(plan))],
            types: vec![],
        },
        bindings: vec![
            (1, mlm.row_loss),
            (2, mlm.row_hit),
            (3, second.row_loss),
            (4, second.row_hit),
            (5, scalars),
            (6, norm),
            (7, ring),
        ],
        params,
        groups: [1, 1],
    });
}
