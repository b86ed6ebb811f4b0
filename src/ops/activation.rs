//! Activation functions and their gradients.

use super::{element_grid, real, require};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "activation", source: include_str!("../../shaders/activation.wgsl") };

/// A function applied to every element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// `x / 2 * (1 + tanh(√(2/π) (x + 0.044715 x³)))`, Hugging Face's `gelu_new`.
    GeluTanh,
    /// `x / 2 * (1 + erf(x / √2))`, Hugging Face's `gelu`; erf within 2e-7.
    GeluErf,
    /// `max(x, 0)`; its derivative at 0 is 0.
    Relu,
    /// `x / (1 + exp(-x))`, also called swish.
    Silu,
    /// `tanh(x)`.
    Tanh,
}

impl Function {
    /// The shader's constant.
    fn number(self) -> u32 {
        match self {
            Self::GeluTanh => 0,
            Self::GeluErf => 1,
            Self::Relu => 2,
            Self::Silu => 3,
            Self::Tanh => 4,
        }
    }
}

/// Append `y = f(x)`; x must be kept for the backward.
///
/// # Panics
/// When the tensors differ in length: a mistake in the caller.
pub fn activation(plan: &mut Plan, function: Function, x: Tensor, y: Tensor) {
    element_wise(plan, function, "forward", x, y);
}

/// Append `dy *= f'(x)`, in place.
///
/// # Panics
/// When the tensors differ in length: a mistake in the caller.
pub fn activation_backward(plan: &mut Plan, function: Function, x: Tensor, dy: Tensor) {
    element_wise(plan, function, "backward", x, dy);
}

fn element_wise(plan: &mut Plan, function: Function, entry: &'static str, x: Tensor, y: Tensor) {
    require("x", x, y.len());
    require("y", y, x.len());
    plan.dispatch(Dispatch {
        kernel: Kernel {
            shader: SHADER,
            entry,
            constants: vec![("FUNCTION", function.number())],
            types: real(&[x, y]),
        },
        bindings: vec![(1, x), (2, y)],
        params: vec![x.len() as u32],
        groups: element_grid(x.len()),
    });
}
