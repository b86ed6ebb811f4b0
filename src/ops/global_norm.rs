//! The norm of all gradients together, and the factor that clips it.

use super::{Segments, WORKGROUP, grid, segment_sum};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "global_norm", source: include_str!("../../shaders/global_norm.wgsl") };

/// Append `norm[0] = ‖g‖`, over all chunks of all slabs of gradients, and
/// `norm[1] = clip_norm / max(norm[0], clip_norm)`; 1 without a `clip_norm`, of no use where `norm[0]` is not finite.
/// What it returns are the sums of squares, `[chunks, 64]`.
///
/// The slabs' chunks follow each other in one table and start at multiples of 4 words.
pub fn global_norm(
    plan: &mut Plan,
    slabs: &[(Tensor, Segments)],
    clip_norm: Option<f32>,
    norm: Tensor,
) -> Tensor {
    let chunks: usize = slabs.iter().map(|(_, chunks)| chunks.count).sum();
    let partials = plan.transient("global norm partials", chunks * WORKGROUP);
    for (gradients, chunks) in slabs {
        plan.dispatch(Dispatch {
            kernel: Kernel { shader: SHADER, entry: "squares", constants: vec![], types: vec![] },
            bindings: vec![(1, chunks.table), (2, *gradients), (3, partials)],
            params: vec![chunks.first as u32, chunks.count as u32, 0],
            groups: grid(chunks.count),
        });
    }
    let everything = Segments::all(plan.constant("global norm segment", vec![0, chunks as u32, 0, 0]));
    let sums = segment_sum(plan, "global norm", partials, everything);
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "finish", constants: vec![], types: vec![] },
        bindings: vec![(4, sums), (5, norm)],
        params: vec![0, 0, clip_norm.unwrap_or(0.0).to_bits()],
        groups: [1, 1],
    });
    partials
}
