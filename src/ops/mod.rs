//! One file per shader: typed arguments in, dispatches in a plan out. Knows nothing of BERT.
//!
//! Conventions of all shaders: binding 0 is the uniform `p: Params`; tensors follow from 1 on, row-major. Row
//! kernels give each row `LANES` invocations of a workgroup of 64: all 64 with a reduction through workgroup
//! memory in the workgroup family, one without barriers in the others. Activations and their gradients are stored as
//! `Real`, which is f32 or f16, and computed with as f32.

mod accumulate;
mod activation;
mod adamw;
mod cast;
mod cross_entropy;
mod dropout;
mod embedding;
mod global_norm;
mod guard;
mod lamb;
mod layer_norm;
mod loss_scale;
mod matmul;
mod metrics;
mod rows;
mod segment_sum;
mod softmax;

pub use accumulate::accumulate;
pub use activation::{Function, activation, activation_backward};
pub use adamw::{AdamConstants, AdamInputs, Slab, adamw};
pub use cast::cast;
pub use cross_entropy::{CrossEntropy, cross_entropy};
pub use dropout::{Dropout, DropoutMask, Tokens, dropout};
pub use embedding::{Embedding, RowsById, TableGradient, embedding, table_gradient};
pub use global_norm::global_norm;
pub use guard::{Culprit, Guarded, NORM_WORDS, guard};
pub use lamb::lamb;
pub use layer_norm::{LayerNorm, LayerNormGradient, Residual, layer_norm, layer_norm_backward};
pub use loss_scale::{LOSS_SCALE_WORDS, LossScaling, RATES_KEPT, Unscaled, scale_loss, settle_loss_scale};
pub use matmul::{Linear, Matmul, Operand, matmul};
pub use metrics::{Metrics, RECORD_WORDS, RowMetrics, metrics};
pub use rows::{GatherRows, ScatterRows, gather_rows, scatter_rows};
pub use segment_sum::{Segments, segment_sum};
pub use softmax::{Softmax, SoftmaxGradient, softmax, softmax_backward};

use crate::gpu::{Plan, Precision, RowKernels, Tensor};

/// One word of a tensor that the host writes before every step: a learning rate, a count, a denominator.
#[derive(Debug, Clone, Copy)]
pub struct Scalar {
    /// Where it lies.
    pub tensor: Tensor,
    /// Which word of it.
    pub word: u32,
}

/// Invocations of a row kernel's or an element-wise kernel's workgroup.
const WORKGROUP: usize = 64;

/// The most workgroups a dispatch may have in one dimension (`maxComputeWorkgroupsPerDimension`).
const MAX_GROUPS: usize = 65_535;

/// A grid of at least `groups` workgroups; kernels number them `y * num_workgroups.x + x`.
fn grid(groups: usize) -> [u32; 2] {
    let rows = groups.div_ceil(MAX_GROUPS);
    [groups.div_ceil(rows) as u32, rows as u32]
}

/// Invocations that share a row in a row kernel.
fn lanes(plan: &Plan) -> u32 {
    match plan.kernels.rows {
        RowKernels::Invocation => 1,
        RowKernels::Workgroup => WORKGROUP as u32,
    }
}

/// The grid of a row kernel over `rows` rows.
fn row_grid(plan: &Plan, rows: usize) -> [u32; 2] {
    grid((rows * lanes(plan) as usize).div_ceil(WORKGROUP))
}

/// The grid of an element-wise kernel, whose invocations take 4 neighbours each.
fn element_grid(len: usize) -> [u32; 2] {
    grid(len.div_ceil(4 * WORKGROUP))
}

/// Columns of a row that an invocation takes in a kernel that has to divide its number by their count: processors
/// divide slowly, GPUs want many invocations.
fn columns(plan: &Plan) -> u32 {
    match plan.kernels.rows {
        RowKernels::Invocation => 16,
        RowKernels::Workgroup => 1,
    }
}

/// The grid of such a kernel.
fn columns_grid(plan: &Plan, rows: usize, width: usize) -> [u32; 2] {
    matrix_grid(rows, width.div_ceil(columns(plan) as usize))
}

/// The grid of a kernel with one invocation per element of a matrix.
fn matrix_grid(rows: usize, columns: usize) -> [u32; 2] {
    grid((rows * columns).div_ceil(WORKGROUP))
}

/// How to cut rows into blocks for a sum in two passes: rows of a block and blocks. Neither is much larger than the
/// other, so that no invocation has a long way to go.
fn row_blocks(rows: usize) -> (usize, usize) {
    let block_rows = rows.isqrt().max(16);
    (block_rows, rows.div_ceil(block_rows))
}

/// What `Real` is in a kernel that is given these tensors.
#[track_caller]
fn real(tensors: &[Tensor]) -> Vec<(&'static str, Precision)> {
    let precision = tensors[0].precision();
    assert!(tensors.iter().all(|tensor| tensor.precision() == precision), "tensors of two precisions");
    vec![("Real", precision)]
}

/// Kernels run without bounds checks: refuse a tensor that is shorter than what a kernel will touch.
#[track_caller]
fn require(what: &str, tensor: Tensor, words: usize) {
    assert!(tensor.len() >= words, "{what} has {} words, {words} are needed", tensor.len());
}
