//! How long a step takes on a device: measured, since no formula knows a driver.

use std::sync::Arc;
use std::time::Duration;
use web_time::Instant;

use super::layout::Layout;
use super::plan::check;
use super::run::{batch_limits, initial_tensors, step_scalars};
use super::{KnownKernels, PretrainOptions, TrainError, Trainer, measure_kernels};
use crate::data::{Batch, Batcher, Features, PythonRandom};
use crate::gpu::AdapterReport;
use crate::model::BatchShape;
use crate::strategy::{Strategy, StrategyError};

/// The last, decisive round takes at least this long.
const LONG_ENOUGH: Duration = Duration::from_millis(500);
/// Different batches to take turns.
const BATCHES: usize = 4;

/// Mean time of a step of a run over examples of `seq_length` tokens with `predictions` of them hidden. Trains on random
/// numbers for about a second, or for two steps where they take longer.
///
/// # Errors
/// As [`run_bert_pretrain`](super::run_bert_pretrain).
pub async fn measure_step(
    strategy: Option<&Strategy>,
    options: &PretrainOptions,
    seq_length: usize,
    predictions: usize,
) -> Result<Duration, TrainError> {
    // Of one replica: nobody waits for another.
    let mut one = strategy.ok_or(StrategyError::NotGiven)?.first_alone();
    let shape = BatchShape { batch_size: options.batch_size, seq_length, predictions };
    check(options, shape)?;
    let known = &mut KnownKernels::default();
    measure_kernels(&mut one, options.device, known, AdapterReport::candidates).await;
    let (layout, mut steps) = Layout::new(&one, options, shape)?;
    // All parts of a batch are the same one here: only they need to fit the host's memory.
    let (part, limits) = (layout.part, batch_limits(options));
    let mut batcher = Batcher::new(random_features(part, options), part.batch_size, options.seed, limits)?;
    let mut batch = |step| -> Result<_, TrainError> { Ok(vec![batcher.batch(step)?; layout.accumulation]) };
    let gpu = Arc::new(one.open(options.device).await?);
    let mut trainer = Trainer::compile(gpu, steps.remove(0)).await?;
    trainer.write_weights(&initial_tensors(options));

    // The first step warms caches up; from then on rounds get longer until one is long enough.
    let mut first = 0;
    let mut steps = 1;
    steps_take(&mut trainer, &mut batch, options, first..first + steps).await?;
    loop {
        first += steps;
        let took = steps_take(&mut trainer, &mut batch, options, first..first + steps).await?;
        if took >= LONG_ENOUGH {
            return Ok(took.div_f64(steps as f64));
        }
        let enough = LONG_ENOUGH.as_secs_f64() / took.as_secs_f64().max(1e-3);
        steps = (steps as f64 * (1.2 * enough).clamp(2.0, 10.0)) as u64;
    }
}

/// How long these steps take, to the end of the last.
async fn steps_take(
    trainer: &mut Trainer,
    batch: &mut impl FnMut(u64) -> Result<Vec<Batch>, TrainError>,
    options: &PretrainOptions,
    steps: std::ops::Range<u64>,
) -> Result<Duration, TrainError> {
    let start = Instant::now();
    let last = steps.end - 1;
    for step in steps {
        trainer.submit_parts(&batch(step)?, &step_scalars(options, step, 0), step == last).await?;
    }
    trainer.metrics().await?;
    Ok(start.elapsed())
}

pub(super) fn random_features(shape: BatchShape, options: &PretrainOptions) -> Features {
    let BatchShape { batch_size, seq_length, predictions } = shape;
    let count = BATCHES * batch_size;
    let mut random = PythonRandom::new(options.seed);
    let mut ids = |length| (0..length).map(|_| random.below(options.config.vocab_size) as u32).collect();
    Features {
        origin: "random numbers".into(),
        seq_length,
        predictions,
        input_ids: ids(count * seq_length),
        input_mask: vec![1; count * seq_length],
        segment_ids: vec![0; count * seq_length],
        masked_lm_positions: (0..count * predictions)
            .map(|slot| (slot % predictions % seq_length) as u32)
            .collect(),
        masked_lm_ids: ids(count * predictions),
        masked_lm_weights: vec![1.0; count * predictions],
        next_sentence_labels: vec![0; count],
    }
}
