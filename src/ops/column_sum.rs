//! Sums over the rows of a matrix: gradients of biases.

use super::{matrix_grid, require, row_blocks};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "column_sum", source: include_str!("../../shaders/column_sum.wgsl") };

/// `out[j] = Σ_r x[r, j]`.
#[derive(Debug, Clone, Copy)]
pub struct ColumnSum {
    /// `[rows, columns]`.
    pub x: Tensor,
    /// `[columns]`, overwritten.
    pub out: Tensor,
    /// Rows of x.
    pub rows: usize,
    /// Columns of x.
    pub columns: usize,
}

/// Append the sums of a matrix's columns.
///
/// # Panics
/// When a tensor is too short: a mistake in the caller.
pub fn column_sum(plan: &mut Plan, args: ColumnSum) {
    let ColumnSum { x, out, rows, columns } = args;
    require("x", x, rows * columns);
    require("out", out, columns);
    let (block_rows, blocks) = row_blocks(rows);
    if blocks == 1 {
        return sum_blocks(plan, (x, rows), columns, block_rows, out);
    }
    let partial = plan.transient("column sums of blocks", blocks * columns);
    sum_blocks(plan, (x, rows), columns, block_rows, partial);
    sum_blocks(plan, (partial, blocks), columns, blocks, out);
}

fn sum_blocks(plan: &mut Plan, (x, rows): (Tensor, usize), columns: usize, block_rows: usize, out: Tensor) {
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "block", constants: vec![] },
        bindings: vec![(1, x), (2, out)],
        params: [rows, columns, block_rows].map(|word| word as u32).to_vec(),
        groups: matrix_grid(rows.div_ceil(block_rows), columns),
    });
}
