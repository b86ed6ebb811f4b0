//! Rows gathered by index, and scattered back.

use super::{columns, columns_grid, real, require};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "rows", source: include_str!("../../shaders/rows.wgsl") };

/// `dst[i] = src[index[i]]` for `rows` rows. Indices must be inside src.
#[derive(Debug, Clone, Copy)]
pub struct GatherRows {
    /// `[any, width]`.
    pub src: Tensor,
    /// u32 `[rows]`.
    pub index: Tensor,
    /// `[rows, width]`, written.
    pub dst: Tensor,
    /// Rows of dst.
    pub rows: usize,
    /// Columns of both.
    pub width: usize,
}

/// Append a gather of rows.
///
/// # Panics
/// When a tensor is too short: a mistake in the caller.
pub fn gather_rows(plan: &mut Plan, args: GatherRows) {
    let GatherRows { src, index, dst, rows, width } = args;
    require("index", index, rows);
    require("dst", dst, rows * width);
    plan.dispatch(Dispatch {
        kernel: Kernel {
            shader: SHADER,
            entry: "gather",
            constants: vec![("COLUMNS", columns(plan))],
            types: real(&[src, dst]),
        },
        bindings: vec![(1, src), (2, index), (4, dst)],
        params: vec![width as u32, rows as u32],
        groups: columns_grid(plan, rows, width),
    });
}

/// `dst[t] = Σ src[index[j]]` over j in `offsets[t]..offsets[t + 1]`, for `rows` rows; zero where there is none.
///
/// The gradient of [`gather_rows`]: its index, grouped by value on the host.
#[derive(Debug, Clone, Copy)]
pub struct ScatterRows {
    /// `[any, width]`.
    pub src: Tensor,
    /// u32, rows of src grouped by the row of dst they go to.
    pub index: Tensor,
    /// u32 `[rows + 1]`.
    pub offsets: Tensor,
    /// `[rows, width]`, overwritten.
    pub dst: Tensor,
    /// Rows of dst.
    pub rows: usize,
    /// Columns of both.
    pub width: usize,
}

/// Append a scatter of rows.
///
/// # Panics
/// When a tensor is too short: a mistake in the caller.
pub fn scatter_rows(plan: &mut Plan, args: ScatterRows) {
    let ScatterRows { src, index, offsets, dst, rows, width } = args;
    require("offsets", offsets, rows + 1);
    require("dst", dst, rows * width);
    plan.dispatch(Dispatch {
        kernel: Kernel {
            shader: SHADER,
            entry: "scatter",
            constants: vec![("COLUMNS", columns(plan))],
            types: real(&[src, dst]),
        },
        bindings: vec![(1, src), (2, index), (3, offsets), (4, dst)],
        params: vec![width as u32, rows as u32],
        groups: columns_grid(plan, rows, width),
    });
}
