//! Which family of kernels multiplies matrices fastest: measured, since neither a GPU's name nor its kind tells.

use std::time::Duration;

use web_time::Instant;

use super::KnownKernels;
use super::products::{Product, compile, shortest};
use crate::gpu::{AdapterReport, DeviceOptions, Gpu, GpuError, KernelFamily, Program};
use crate::ops::Linear;
use crate::strategy::Strategy;

/// Rows of the products: a batch of 8 sequences of 128 tokens.
const ROWS: usize = 1024;
/// Their columns. The faster an adapter is, the wider are models that keep it busy.
const WIDTHS: [usize; 4] = [128, 256, 512, 1024];
/// Products that take less tell more of the driver than of the kernels.
const BUSY: Duration = Duration::from_millis(1);
/// A round takes at least this long.
const LONG_ENOUGH: Duration = Duration::from_millis(20);
/// In a browser without timestamps: Firefox may tell of the end up to 100 ms late.
const LONG_ENOUGH_TO_TELL: Duration = Duration::from_millis(300);
/// A family that takes so many times as long as the best one is not looked at more closely.
const TOO_SLOW: u32 = 3;
/// A family takes the place of the one that the adapter's class has if it takes at most this share of the time: less of a
/// difference may be chance.
const CLEARLY_FASTER: f64 = 0.95;
/// After so long no other family is tried: some drivers take seconds to compile each.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measure, on every adapter of a strategy that has several `candidates`, which of them multiplies matrices fastest, for
/// the devices that will be opened with these options. What is [known](KnownKernels) is not measured again, and what is
/// measured is known from then on. Where kernels are asked for nothing is measured; nor where a measurement fails, and
/// there the adapter's class decides.
///
/// [`run_bert_pretrain`](super::run_bert_pretrain) does this by itself with [`AdapterReport::candidates`] and nothing
/// known.
///
/// ```no_run
/// use wgpu_bert::gpu::{AdapterReport, DeviceOptions, survey};
/// use wgpu_bert::strategy::{StrategyRequest, get_distribution_strategy};
/// use wgpu_bert::train::{KnownKernels, measure_kernels};
///
/// let mut known = KnownKernels::parse(&std::fs::read_to_string("kernels.json").unwrap_or_default());
/// let mut strategy = get_distribution_strategy(StrategyRequest::Auto, &pollster::block_on(survey()), None)?;
/// let options = DeviceOptions::default();
/// pollster::block_on(measure_kernels(&mut strategy, options, &mut known, AdapterReport::candidates));
/// println!("kernels: {}", options.told_on(&strategy.adapter));
/// std::fs::write("kernels.json", known.to_json())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn measure_kernels(
    strategy: &mut Strategy,
    options: DeviceOptions,
    known: &mut KnownKernels,
    candidates: impl Fn(&AdapterReport) -> Vec<KernelFamily>,
) {
    if options.family.is_some() {
        return;
    }
    known.recall(strategy);
    for adapter in strategy.replicas_mut() {
        let candidates = candidates(adapter);
        if adapter.fastest.is_some() || candidates.len() < 2 {
            continue;
        }
        // Adapters alike are measured once.
        adapter.fastest = match known.of(adapter) {
            None => fastest(adapter, options, &candidates).await.ok(),
            known => known,
        };
        adapter.fastest.into_iter().for_each(|family| known.learn(adapter, family));
    }
}

/// The fastest of several families; in doubt the first.
async fn fastest(
    adapter: &AdapterReport,
    options: DeviceOptions,
    candidates: &[KernelFamily],
) -> Result<KernelFamily, GpuError> {
    let (first, others) = (candidates[0], &candidates[1..]);
    // On a device of its own: whatever a kernel does to it ends with the measurement.
    let gpu = Gpu::open(adapter, DeviceOptions { timestamps: true, ..options }).await?;
    let is_told_late = cfg!(target_family = "wasm") && !adapter.features.contains(&"timestamp-query");
    let long_enough = if is_told_late { LONG_ENOUGH_TO_TELL } else { LONG_ENOUGH };

    let mut width = WIDTHS[0];
    let mut program = warm(&gpu, first, width).await?;
    for wider in &WIDTHS[1..] {
        if program.time(&gpu, 1).await? >= BUSY {
            break;
        }
        width = *wider;
        program = warm(&gpu, first, width).await?;
    }
    let mut shortest_time = shortest(&gpu, &program, long_enough).await?.mul_f64(CLEARLY_FASTER);
    let (mut fastest, start) = (first, Instant::now());
    for family in others {
        if start.elapsed() > PATIENCE {
            break;
        }
        let limit = long_enough.max(shortest_time * TOO_SLOW);
        match time_of(&gpu, *family, width, limit, long_enough).await {
            Ok(time) if time < shortest_time => (fastest, shortest_time) = (*family, time),
            Ok(_) => {}
            // The device may be of no use any more.
            Err(_) => break,
        }
    }
    Ok(fastest)
}

/// The time of a run, or of a single one if that takes longer than `limit`.
async fn time_of(
    gpu: &Gpu,
    family: KernelFamily,
    width: usize,
    limit: Duration,
    long_enough: Duration,
) -> Result<Duration, GpuError> {
    let program = warm(gpu, family, width).await?;
    let once = program.time(gpu, 1).await?;
    if once > limit { Ok(once) } else { shortest(gpu, &program, long_enough).await }
}

/// The products of a layer, which have run once.
async fn warm(gpu: &Gpu, family: KernelFamily, width: usize) -> Result<Program, GpuError> {
    let layer = Linear { rows: ROWS, inputs: width, outputs: width };
    let program = compile(gpu, family, &layer, &Product::ALL).await?;
    program.time(gpu, 1).await?;
    Ok(program)
}
