//! How fast the adapter multiplies matrices, with the best kernel there is.

use std::time::Duration;

use super::super::products::{Product, compile, shortest};
use super::BestMatmul;
use crate::gpu::{Gpu, GpuError};
use crate::model::BatchShape;
use crate::model::config::BertConfig;
use crate::ops::Linear;

/// A round takes at least this long.
const LONG_ENOUGH: Duration = Duration::from_millis(50);

/// The fastest of all kernels on the three products of a feed-forward layer's first half.
pub async fn best_matmul(gpu: &Gpu, config: &BertConfig, shape: BatchShape) -> Result<BestMatmul, GpuError> {
    let layer =
        Linear { rows: shape.tokens(), inputs: config.hidden_size, outputs: config.intermediate_size };
    let mut best: Option<BestMatmul> = None;
    for family in gpu.adapter.families() {
        for product in Product::ALL {
            let program = compile(gpu, family, &layer, &[product]).await?;
            program.time(gpu, 1).await?;
            let (product, size) = (product.name(), product.size(&layer));
            let flops = size.iter().fold(2.0, |flops, size| flops * *size as f64);
            let gflops = flops / shortest(gpu, &program, LONG_ENOUGH).await?.as_secs_f64() / 1e9;
            if best.as_ref().is_none_or(|best| gflops > best.gflops) {
                best = Some(BestMatmul { gflops, kernels: family.name().into(), product, size });
            }
        }
    }
    Ok(best.expect("there are kernels"))
}
