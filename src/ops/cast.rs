//! Numbers in another precision.

use super::{element_grid, real, require};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "cast", source: include_str!("../../shaders/cast.wgsl") };

/// Append `y = x`, x being f32 and y stored as it is told.
///
/// # Panics
/// When the tensors differ in length: a mistake in the caller.
pub fn cast(plan: &mut Plan, x: Tensor, y: Tensor) {
    require("x", x, y.len());
    require("y", y, x.len());
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "store", constants: vec![], types: real(&[y]) },
        bindings: vec![(1, x), (2, y)],
        params: vec![x.len() as u32],
        groups: element_grid(x.len()),
    });
}
