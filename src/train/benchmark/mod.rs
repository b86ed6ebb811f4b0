//! A training step, measured: how long it takes, against what the adapter can do at best.

mod best_matmul;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use web_time::Instant;

use self::best_matmul::best_matmul;
use super::measure::random_features;
use super::plan::{Wanted, check};
use super::run::{batch_limits, initial_tensors, step_scalars};
use super::{KnownKernels, PretrainOptions, TrainError, Trainer, measure_kernels};
use crate::checkpoint::NamedTensor;
use crate::data::{Batch, Features};
use crate::gpu::{AdapterReport, KernelTime};
use crate::model::cost::{least_moved_bytes, step_flops};
use crate::model::{BatchShape, StepKind, Task};
use crate::strategy::{Strategy, StrategyError};

/// Steps before those that count.
pub const WARMUP_STEPS: usize = 2;

/// What a benchmark trains on.
#[derive(Debug, Clone)]
pub struct Workload {
    /// The weights it starts from: all of a `BertForPreTraining`.
    pub weights: Vec<NamedTensor>,
    /// The examples; batches of them take turns, and those left over are not used.
    pub features: Features,
}

impl Workload {
    /// Weights and examples that the seed of the options makes.
    pub fn random(options: &PretrainOptions, seq_length: usize, predictions: usize) -> Self {
        let shape = BatchShape { batch_size: options.batch_size, seq_length, predictions };
        Self { weights: initial_tensors(options), features: random_features(shape, options) }
    }
}

/// What was measured. Rates are those of the median step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchmarkReport {
    /// The adapter's name.
    pub adapter: String,
    /// The API it is reached through.
    pub backend: String,
    /// The driver and its version.
    pub driver: String,
    /// The family of the matrix products' kernels.
    pub kernels: String,
    /// Why this one: see [`DeviceOptions::why_on`](crate::gpu::DeviceOptions::why_on).
    pub kernels_why: &'static str,
    /// Trainable parameters.
    pub parameters: u64,
    /// Steps that count.
    pub steps: usize,
    /// Median time of a step, to the end of its work on the device, in milliseconds.
    pub step_ms: f64,
    /// The shortest.
    pub min_step_ms: f64,
    /// Tokens in a second, padding included.
    pub tokens_per_second: f64,
    /// Loss of every step, nats, those to warm up included.
    pub losses: Vec<f32>,
    /// Device memory as planned, in bytes.
    pub planned_bytes: u64,
    /// Device memory as allocated, in bytes, with what goes up and down between host and device; absent where the
    /// backend does not tell.
    pub allocated_bytes: Option<u64>,
    /// Dispatches in a step.
    pub dispatches: usize,
    /// Of them, in a layer's forward.
    pub layer_forward_dispatches: usize,
    /// In its backward.
    pub layer_backward_dispatches: usize,
    /// Bytes that a step's dispatches are given to read and write, see [`Plan::moved_bytes`](crate::gpu::Plan::moved_bytes).
    pub moved_bytes: u64,
    /// The least possible, see [`least_moved_bytes`].
    pub least_moved_bytes: u64,
    /// Floating-point operations of a step, see [`step_flops`].
    pub flops: u64,
    /// In 10⁹ a second.
    pub gflops: f64,
    /// Bytes moved, in 10⁹ a second.
    pub gb_per_second: f64,
    /// The fastest matrix product.
    pub best_matmul: BestMatmul,
    /// Share of its rate that the whole step reaches.
    pub share_of_best_matmul: f64,
    /// Time of every kernel in one step, the longest first; absent where the adapter has no timestamp queries.
    pub kernel_times: Option<Vec<KernelReport>>,
}

/// The fastest of all matrix-product kernels on the products of a feed-forward layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BestMatmul {
    /// 10⁹ floating-point operations a second.
    pub gflops: f64,
    /// The kernel's family.
    pub kernels: String,
    /// Which product: `forward`, `input gradient` or `weight gradient`.
    pub product: &'static str,
    /// Rows, columns and summed dimension.
    pub size: [usize; 3],
}

/// All dispatches of one kernel in a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelReport {
    /// Its shader.
    pub shader: &'static str,
    /// Its entry point.
    pub entry: &'static str,
    /// How often it runs.
    pub dispatches: usize,
    /// How long all of them take, in milliseconds.
    pub ms: f64,
}

/// Measure `steps` training steps on a workload, after [`WARMUP_STEPS`] others, each waited for; then the kernels one by
/// one, where the adapter can, and the best matrix product. `before_step` is awaited before each step, outside its time.
///
/// # Errors
/// As [`run_bert_pretrain`](super::run_bert_pretrain).
pub async fn benchmark(
    strategy: Option<&Strategy>,
    options: &PretrainOptions,
    workload: &Workload,
    steps: usize,
    mut before_step: impl AsyncFnMut(),
) -> Result<BenchmarkReport, TrainError> {
    let mut strategy = strategy.ok_or(StrategyError::NotGiven)?.first_alone();
    let Workload { weights, features } = workload;
    let (seq_length, predictions) = (features.seq_length, features.predictions);
    let shape = BatchShape { batch_size: options.batch_size, seq_length, predictions };
    check(options, shape)?;
    if steps == 0 {
        return Err(TrainError::Option { option: "steps", value: 0, expected: "at least 1" });
    }
    let known = &mut KnownKernels::default();
    measure_kernels(&mut strategy, options.device, known, AdapterReport::candidates).await;
    let wanted = Wanted::training(&strategy.adapter, options, Task::Train(options.optimizer));
    // Each step's record is read before the next.
    let step = Wanted { kind: StepKind { records: 1, ..wanted.kind }, ..wanted }
        .fitting(&strategy.adapter, shape)?;
    let batches = batches(options, features)?;
    let mut device = options.device;
    device.timestamps = true;
    let gpu = Arc::new(strategy.open(device).await?);
    let mut trainer = Trainer::compile(gpu.clone(), step).await?;
    trainer.check_fit(weights)?;
    trainer.write_weights(weights);

    let (mut times, mut losses) = (Vec::new(), Vec::new());
    for (step, batch) in (0..(WARMUP_STEPS + steps) as u64).zip(batches.iter().cycle()) {
        before_step().await;
        let start = Instant::now();
        trainer.submit(batch, &step_scalars(options, step, 0), true).await?;
        let metrics = trainer.metrics().await?;
        times.push(start.elapsed());
        losses.extend(metrics.iter().map(|m| m.lm_example_loss + m.next_sentence_loss));
    }
    let allocated_bytes = gpu.allocated_bytes();
    let plan = &trainer.step().plan;
    let kernel_times = trainer.program().profile(&gpu, plan).await?.map(|times| {
        let report = |KernelTime { shader, entry, dispatches, seconds }| KernelReport {
            shader,
            entry,
            dispatches,
            ms: seconds * 1e3,
        };
        times.into_iter().map(report).collect()
    });
    let best_matmul = best_matmul(&gpu, &options.config, shape).await?;

    let (median, min) = median_and_min(times.split_off(WARMUP_STEPS));
    let [layer_forward_dispatches, layer_backward_dispatches] = trainer.step().layer_dispatches;
    let (flops, moved_bytes) = (step_flops(&options.config, shape), plan.moved_bytes());
    let giga_per_second = |amount: u64| amount as f64 / median.as_secs_f64() / 1e9;
    Ok(BenchmarkReport {
        adapter: gpu.adapter.name.clone(),
        backend: gpu.adapter.backend.clone(),
        driver: gpu.adapter.driver.clone(),
        kernels: gpu.kernels.products.name().into(),
        kernels_why: device.why_on(&gpu.adapter),
        parameters: trainer.step().table.elements() as u64,
        steps,
        step_ms: median.as_secs_f64() * 1e3,
        min_step_ms: min.as_secs_f64() * 1e3,
        tokens_per_second: shape.tokens() as f64 / median.as_secs_f64(),
        losses,
        planned_bytes: trainer.memory().bytes(),
        allocated_bytes,
        dispatches: plan.dispatches(),
        layer_forward_dispatches,
        layer_backward_dispatches,
        moved_bytes,
        least_moved_bytes: least_moved_bytes(&options.config, shape, options.precision),
        flops,
        gflops: giga_per_second(flops),
        gb_per_second: giga_per_second(moved_bytes),
        share_of_best_matmul: giga_per_second(flops) / best_matmul.gflops,
        best_matmul,
        kernel_times,
    })
}

fn batches(options: &PretrainOptions, features: &Features) -> Result<Vec<Batch>, TrainError> {
    let records: Vec<usize> = (0..features.count()).collect();
    let whole = records.chunks_exact(options.batch_size);
    let batches: Result<Vec<_>, _> =
        whole.map(|records| Batch::new(features, records, &batch_limits(options))).collect();
    let batches = batches?;
    if batches.is_empty() {
        let (option, value) = ("train_batch_size", options.batch_size as u64);
        return Err(TrainError::Option { option, value, expected: "at most the number of examples" });
    }
    Ok(batches)
}

fn median_and_min(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    let (low, high) = (times[(times.len() - 1) / 2], times[times.len() / 2]);
    ((low + high) / 2, times[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        let times = |list: &[u64]| list.iter().map(|ms| Duration::from_millis(*ms)).collect();
        let ms = Duration::from_millis;
        assert_eq!(median_and_min(times(&[7])), (ms(7), ms(7)));
        assert_eq!(median_and_min(times(&[9, 1, 4])), (ms(4), ms(1)));
        assert_eq!(median_and_min(times(&[9, 2, 4, 6])), (ms(5), ms(2)));
    }
}
