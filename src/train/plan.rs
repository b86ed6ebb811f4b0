//! What a run takes on an adapter: planned without a device, as the run itself plans it.

use super::layout::Layout;
use super::{PretrainOptions, RunMemory, TrainError};
use crate::gpu::{AdapterReport, GpuError, Kernels, Precision};
use crate::model::config::BertConfig;
use crate::model::parameters::parameter_shapes;
use crate::model::{BatchShape, StepKind, StepPlan, Task};
use crate::strategy::{Strategy, StrategyError};

/// Bytes that a training step keeps for each parameter: its weight, its gradient and two moments.
const BYTES_PER_PARAMETER: u64 = 16;

/// What a run would take.
#[derive(Debug)]
pub struct RunPlan {
    /// Trainable parameters.
    pub parameters: u64,
    /// Device memory, in bytes, of all replicas together. Where the run does not fit, that of weights, gradients and moments
    /// alone.
    pub bytes: u64,
    /// What that memory is for; nothing where the run does not fit.
    pub memory: RunMemory,
    /// Dispatches in a step, as in [`Started`](super::Started); 0 where the run does not fit.
    pub dispatches: usize,
    /// Parts of a batch that the device does one after another before the update; 1 where the run does not fit.
    pub gradient_accumulation_steps: usize,
    /// [`TrainError::DoesNotFit`], where it does not.
    pub misfit: Option<TrainError>,
}

/// Plan a run over examples of `seq_length` tokens with `predictions` of them hidden. Nothing is allocated.
///
/// ```
/// use wgpu_bert::gpu::{DeviceOptions, Precision, survey};
/// use wgpu_bert::model::config::BertConfig;
/// use wgpu_bert::optimizer::{OptimizerKind, OptimizerOptions, Schedule};
/// use wgpu_bert::strategy::{StrategyRequest, get_distribution_strategy};
/// use wgpu_bert::train::{Distribution, OutputBiasInit, PretrainOptions, plan_run};
///
/// let options = PretrainOptions {
///     config: BertConfig::preset("tiny", 30522)?,
///     batch_size: 32,
///     optimizer: OptimizerOptions::new(OptimizerKind::AdamW),
///     schedule: Schedule { init_lr: 1e-4, end_lr: 0.0, total_steps: 1000, warmup_steps: 100.0, power: 1.0 },
///     steps_per_epoch: 1000,
///     num_eval_per_epoch: 1,
///     use_next_sentence_label: true,
///     steps_per_loop: 10,
///     seed: 12345,
///     recompute: false,
///     precision: Precision::default(),
///     output_bias_init: OutputBiasInit::Zeros,
///     device: DeviceOptions::default(),
///     distribution: Distribution::default(),
/// };
/// let strategy = get_distribution_strategy(StrategyRequest::Auto, &pollster::block_on(survey()), None)?;
/// let plan = plan_run(Some(&strategy), &options, 128, 20)?;
/// assert_eq!(plan.parameters, 4_433_468);
/// println!("{} bytes", plan.bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`TrainError::Strategy`] without a strategy, and wrong options. That the run does not fit is no error here.
pub fn plan_run(
    strategy: Option<&Strategy>,
    options: &PretrainOptions,
    seq_length: usize,
    predictions: usize,
) -> Result<RunPlan, TrainError> {
    let strategy = strategy.ok_or(StrategyError::NotGiven)?;
    let shape = BatchShape { batch_size: options.batch_size, seq_length, predictions };
    check(options, shape)?;
    let shapes = parameter_shapes(&options.config, options.use_next_sentence_label);
    let parameters = shapes.iter().map(|(_, shape)| words(shape)).fold(0, u64::saturating_add);
    Ok(match Layout::new(strategy, options, shape) {
        Ok((layout, steps)) => {
            let memory_of = |(step, adapter): (&StepPlan, &AdapterReport)| {
                let memory = step.plan.memory(adapter.max_buffer_size, adapter.max_binding_size)?;
                Ok(RunMemory::new(step, &memory))
            };
            let memories = steps.iter().zip(strategy.replicas()).map(memory_of);
            let memory = RunMemory::of_replicas(memories.collect::<Result<_, GpuError>>()?, &steps[0]);
            RunPlan {
                parameters,
                bytes: memory.bytes(),
                memory,
                dispatches: steps[0].plan.dispatches(),
                gradient_accumulation_steps: layout.accumulation,
                misfit: None,
            }
        }
        Err(misfit @ TrainError::DoesNotFit { .. }) => RunPlan {
            parameters,
            bytes: parameters.saturating_mul(BYTES_PER_PARAMETER),
            memory: RunMemory::default(),
            dispatches: 0,
            gradient_accumulation_steps: 1,
            misfit: Some(misfit),
        },
        Err(error) => return Err(error),
    })
}

/// Are the options' numbers in their ranges?
pub(super) fn check(options: &PretrainOptions, shape: BatchShape) -> Result<(), TrainError> {
    options.check()?;
    for (option, value) in
        [("max_seq_length", shape.seq_length as u64), ("max_predictions_per_seq", shape.predictions as u64)]
    {
        if value == 0 {
            return Err(TrainError::Option { option, value, expected: "at least 1" });
        }
    }
    Ok(())
}

/// A step that is to be planned.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub config: &'a BertConfig,
    pub kind: StepKind,
    pub kernels: Kernels,
}

impl<'a> Wanted<'a> {
    /// A step of a run.
    pub fn training(adapter: &AdapterReport, options: &'a PretrainOptions, task: Task) -> Self {
        let kind = StepKind {
            next_sentence: options.use_next_sentence_label,
            task,
            records: options.steps_per_loop,
            recompute: options.recompute,
            precision: options.precision,
        };
        Self { config: &options.config, kind, kernels: options.device.kernels_on(adapter) }
    }

    /// The step; [`TrainError::DoesNotFit`] where its tensors do not fit the adapter, and
    /// [`TrainError::Precision`] where it has no such numbers.
    pub fn fitting(self, adapter: &AdapterReport, shape: BatchShape) -> Result<StepPlan, TrainError> {
        if !adapter.precisions().contains(&self.kind.precision) {
            let source = GpuError::NoShaderF16 { adapter: adapter.name.clone() };
            return Err(TrainError::Precision(source));
        }
        self.plan(adapter, shape).map_err(|source| self.does_not_fit(adapter, shape, source))
    }

    fn plan(self, adapter: &AdapterReport, shape: BatchShape) -> Result<StepPlan, GpuError> {
        check_size(adapter, self.config, shape, self.kind.precision)?;
        let step = StepPlan::new(self.config, shape, self.kind, self.kernels, adapter.max_slab());
        step.plan.memory(adapter.max_buffer_size, adapter.max_binding_size)?;
        Ok(step)
    }

    fn does_not_fit(self, adapter: &AdapterReport, shape: BatchShape, source: GpuError) -> TrainError {
        let fits =
            |batch_size: &usize| self.plan(adapter, BatchShape { batch_size: *batch_size, ..shape }).is_ok();
        let batch_size = shape.batch_size;
        TrainError::DoesNotFit { batch_size, largest: largest_below(batch_size, fits), source }
    }
}

/// The largest tensors, before a plan is made of them, which would be as large, and whose sizes would be beyond what
/// counts on a machine of 32 bits.
fn check_size(
    adapter: &AdapterReport,
    config: &BertConfig,
    shape: BatchShape,
    precision: Precision,
) -> Result<(), GpuError> {
    let BatchShape { batch_size, seq_length, predictions } = shape;
    let activations = [
        ("bert.encoder.layer.0.intermediate.dense", vec![batch_size, seq_length, config.intermediate_size]),
        ("context", vec![batch_size, seq_length, config.hidden_size]),
        ("attention probabilities", vec![batch_size, config.num_attention_heads, seq_length, seq_length]),
        ("masked-LM logits", vec![batch_size, predictions, config.vocab_size]),
    ];
    let activations = activations.into_iter().map(|(name, shape)| (name.to_owned(), shape, precision));
    let parameters = parameter_shapes(config, true).into_iter();
    let parameters = parameters.map(|(name, shape)| (name, shape, Precision::F32));
    for (what, shape, precision) in parameters.chain(activations) {
        let bytes = words(&shape).saturating_mul(precision.bytes() as u64);
        for (limit_name, limit) in [
            ("maxStorageBufferBindingSize", adapter.max_binding_size),
            ("maxBufferSize", adapter.max_buffer_size),
        ] {
            if bytes > limit {
                return Err(GpuError::TooLarge { what, bytes, limit_name, limit });
            }
        }
    }
    Ok(())
}

fn words(shape: &[usize]) -> u64 {
    shape.iter().fold(1, |words: u64, size| words.saturating_mul(*size as u64))
}

/// The largest number from 1 to `limit - 1` for which `holds`, which must hold up to some number and not beyond; 0 if
/// for none.
fn largest_below(limit: usize, holds: impl Fn(&usize) -> bool) -> usize {
    let (mut low, mut high) = (0, limit);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(&middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_fits_is_found() {
        for answer in 0..20 {
            assert_eq!(largest_below(20, |n| *n <= answer), answer.min(19));
        }
    }
}
