//! Sums over the parts of a batch.

use super::{Scalar, element_grid, require};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "accumulate", source: include_str!("../../shaders/accumulate.wgsl") };

/// Append `sum = x` where the scalar `adds` is 0, which the host sets for the first part of a batch, and `sum += x` where
/// it is 1. `sum` may be longer than `x`; what is beyond is left alone.
pub fn accumulate(plan: &mut Plan, x: Tensor, sum: Tensor, adds: Scalar) {
    require("sum", sum, x.len());
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "accumulate", constants: vec![], types: vec![] },
        bindings: vec![(1, x), (2, sum), (3, adds.tensor)],
        params: vec![x.len() as u32, adds.word],
        groups: element_grid(x.len()),
    });
}
