//! How fast the adapter multiplies matrices, with the best kernel there is.

use std::time::Duration;

use web_time::Instant;

use super::BestMatmul;
use crate::gpu::{Gpu, GpuError, Plan, Program, Tensor};
use crate::model::BatchShape;
use crate::model::config::BertConfig;
use crate::ops::{Linear, Operand};

/// A round takes at least this long.
const LONG_ENOUGH: Duration = Duration::from_millis(50);
/// Rounds that count.
const ROUNDS: usize = 3;

/// The fastest of all kernels on the three products of a feed-forward layer's first half.
pub async fn best_matmul(gpu: &Gpu, config: &BertConfig, shape: BatchShape) -> Result<BestMatmul, GpuError> {
    let (rows, inputs, outputs) = (shape.tokens(), config.hidden_size, config.intermediate_size);
    let layer = Linear { rows, inputs, outputs };
    let products = [
        ("forward", [rows, outputs, inputs]),
        ("input gradient", [rows, inputs, outputs]),
        ("weight gradient", [outputs, inputs, rows]),
    ];
    let mut best: Option<BestMatmul> = None;
    for family in gpu.adapter.families() {
        for (product, size) in products {
            let mut plan = Plan::new(family);
            let [x, y, weight] = [rows * inputs, rows * outputs, outputs * inputs]
                .map(|words| plan.persistent("an operand", words));
            let bias = plan.persistent("bias", outputs);
            match product {
                "forward" => {
                    layer.forward(&mut plan, Operand::rows(x, inputs), weight, bias, y);
                }
                "input gradient" => {
                    layer.input_gradient(&mut plan, y, weight, Operand::rows(x, inputs), false);
                }
                _ => layer.weight_gradient(&mut plan, y, Operand::rows(x, inputs), weight, bias),
            }
            let program = plan.compile(gpu).await?;
            program.fill(gpu, 1.0_f32.to_bits());
            let flops = size.iter().fold(2.0, |flops, size| flops * *size as f64);
            let gflops = flops / shortest(gpu, &program, x).await?.as_secs_f64() / 1e9;
            if best.as_ref().is_none_or(|best| gflops > best.gflops) {
                best = Some(BestMatmul { gflops, kernels: family.name().into(), product, size });
            }
        }
    }
    Ok(best.expect("there are kernels"))
}

/// The mean time of a run in the shortest of some rounds.
async fn shortest(gpu: &Gpu, program: &Program, any: Tensor) -> Result<Duration, GpuError> {
    let mut runs = 1;
    round(gpu, program, any, runs).await?;
    while round(gpu, program, any, runs).await? < LONG_ENOUGH {
        runs *= 2;
    }
    let mut shortest = Duration::MAX;
    for _ in 0..ROUNDS {
        shortest = shortest.min(round(gpu, program, any, runs).await?);
    }
    Ok(shortest / runs)
}

/// How long some runs take together. Reading a word back waits for their end.
async fn round(gpu: &Gpu, program: &Program, any: Tensor, runs: u32) -> Result<Duration, GpuError> {
    let start = Instant::now();
    for _ in 0..runs {
        program.run(gpu);
    }
    gpu.read(&program.range(any.part(0, 1))).await?;
    Ok(start.elapsed())
}
