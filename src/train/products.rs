//! The matrix products of a linear layer, by themselves, to measure kernels with.

use std::time::Duration;

use crate::gpu::{Gpu, GpuError, KernelFamily, Plan, Program};
use crate::ops::{Linear, Operand};

/// Rounds that count.
const ROUNDS: usize = 3;

/// One of the products.
#[derive(Debug, Clone, Copy)]
pub(super) enum Product {
    Forward,
    InputGradient,
    WeightGradient,
}

impl Product {
    pub const ALL: [Self; 3] = [Self::Forward, Self::InputGradient, Self::WeightGradient];

    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::InputGradient => "input gradient",
            Self::WeightGradient => "weight gradient",
        }
    }

    /// Rows, columns and summed dimension.
    pub fn size(self, layer: &Linear) -> [usize; 3] {
        let Linear { rows, inputs, outputs } = *layer;
        match self {
            Self::Forward => [rows, outputs, inputs],
            Self::InputGradient => [rows, inputs, outputs],
            Self::WeightGradient => [outputs, inputs, rows],
        }
    }
}

/// A program of some of the products, of operands that are all one.
pub(super) async fn compile(
    gpu: &Gpu,
    family: KernelFamily,
    layer: &Linear,
    products: &[Product],
) -> Result<Program, GpuError> {
    let Linear { rows, inputs, outputs } = *layer;
    let mut plan = Plan::new(family);
    let mut tensor = |name, words| plan.persistent(name, words);
    let [x, dx] = ["x", "dx"].map(|name| tensor(name, rows * inputs));
    let [y, dy] = ["y", "dy"].map(|name| tensor(name, rows * outputs));
    let [weight, d_weight] = ["weight", "d_weight"].map(|name| tensor(name, outputs * inputs));
    let [bias, d_bias] = ["bias", "d_bias"].map(|name| tensor(name, outputs));
    let [x, dx] = [x, dx].map(|tensor| Operand::rows(tensor, inputs));
    for product in products {
        match product {
            Product::Forward => layer.forward(&mut plan, x, weight, bias, y),
            Product::InputGradient => layer.input_gradient(&mut plan, dy, weight, dx, false),
            Product::WeightGradient => layer.weight_gradient(&mut plan, dy, x, d_weight, d_bias),
        }
    }
    let program = plan.compile(gpu).await?;
    program.fill(gpu, 1.0_f32.to_bits());
    Ok(program)
}

/// The mean time of a run in the shortest of some rounds, each of which takes at least `long_enough`.
pub(super) async fn shortest(
    gpu: &Gpu,
    program: &Program,
    long_enough: Duration,
) -> Result<Duration, GpuError> {
    let mut runs = 1;
    let mut shortest = program.time(gpu, runs).await?;
    while shortest < long_enough {
        runs *= 2;
        shortest = program.time(gpu, runs).await?;
    }
    for _ in 1..ROUNDS {
        shortest = shortest.min(program.time(gpu, runs).await?);
    }
    Ok(shortest / runs)
}
