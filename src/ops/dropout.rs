//! Inverted dropout whose mask is computed, not stored.

use super::{Scalar, element_grid, require};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "dropout", source: include_str!("../../shaders/dropout.wgsl") };

/// `y[i] = x[i] / (1 - rate)` with probability `1 - rate`, else 0, decided by a hash of (i, site, key).
///
/// The backward is the same op, with the gradient of y as x and the gradient of x as y.
#[derive(Debug, Clone, Copy)]
pub struct Dropout {
    /// Read.
    pub x: Tensor,
    /// Written; not x, and as long as it.
    pub y: Tensor,
    /// Probability of 0, at least 0 and less than 1.
    pub rate: f32,
    /// Which dropout of the model this is.
    pub site: u32,
    /// Two u32 words the host changes from step to step; equal words give equal masks.
    pub key: [Scalar; 2],
    /// u32, which part of a batch this is, from 0, in the tensor of the first word of the key: parts have the masks of the
    /// batch as a whole, if their lengths are multiples of 4.
    pub part: Scalar,
}

/// Append a dropout.
///
/// # Panics
/// When the tensors differ in length, the rate is out of range, or the part lies elsewhere: a mistake in the caller.
pub fn dropout(plan: &mut Plan, args: Dropout) {
    let Dropout { x, y, rate, site, key: [a, b], part } = args;
    assert!((0.0..1.0).contains(&rate), "a dropout rate of {rate} keeps nothing or is no probability");
    assert_eq!(part.tensor, a.tensor, "part and key must lie in one tensor");
    require("x", x, y.len());
    require("y", y, x.len());
    let threshold = (f64::from(rate) * 4_294_967_296.0) as u32;
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "dropout", constants: vec![], types: vec![] },
        bindings: vec![(1, x), (2, y), (3, a.tensor), (4, b.tensor)],
        params: vec![
            x.len() as u32,
            site,
            threshold,
            (1.0 / (1.0 - rate)).to_bits(),
            a.word,
            b.word,
            part.word,
        ],
        groups: element_grid(x.len()),
    });
}
