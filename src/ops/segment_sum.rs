//! Sums over segments of a tensor, in a fixed order and without barriers.

use super::{WORKGROUP, grid};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "segment_sum", source: include_str!("../../shaders/segment_sum.wgsl") };

/// Rows `first .. first + count` of a table of segments: rows of four words, the first two a segment's start
/// and length.
#[derive(Debug, Clone, Copy)]
pub struct Segments {
    /// `[rows, 4]`.
    pub table: Tensor,
    /// The first row.
    pub first: usize,
    /// Number of rows.
    pub count: usize,
}

impl Segments {
    /// The whole of a table.
    pub fn all(table: Tensor) -> Self {
        Self { table, first: 0, count: table.len() / 4 }
    }
}

/// Sum rows of 64 partial sums, `[rows, 64]`, then sum segments of the rows' sums: 64 partial sums of each
/// segment remain, `[segments, 64]`, for the kernel that uses the sums to add up.
pub fn segment_sum(plan: &mut Plan, name: &str, partials: Tensor, segments: Segments) -> Tensor {
    let rows = partials.len() / WORKGROUP;
    let sums = plan.transient(&format!("{name} sums of rows"), rows);
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "fold", constants: vec![], types: vec![] },
        bindings: vec![(4, partials), (5, sums)],
        params: vec![0, rows as u32],
        groups: grid(rows.div_ceil(WORKGROUP)),
    });
    let spread = plan.transient(&format!("{name} sums of segments"), segments.count * WORKGROUP);
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "spread", constants: vec![], types: vec![] },
        bindings: vec![(1, segments.table), (2, sums), (3, spread)],
        params: vec![segments.first as u32, segments.count as u32],
        groups: grid(segments.count),
    });
    spread
}
