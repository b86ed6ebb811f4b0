//! How the batch of a step is cut into parts, planned without a device.

use super::plan::Wanted;
use super::{PretrainOptions, TrainError};
use crate::model::{BatchShape, StepPlan, Task};
use crate::strategy::{Algorithm, AllReduce, Strategy};

/// The most parts that are chosen where nobody asked for them: more are a mistake, or a batch that hardly divides.
const MOST_PARTS: usize = 256;

/// How a step is spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Parts that a device does one after another of its share of a batch, before the update that the batch has in one
    /// piece. With `None` as few as fit the device,
    /// but not more than 256.
    pub gradient_accumulation_steps: Option<usize>,
    /// How gradients are summed over replicas, where there are several.
    pub all_reduce: AllReduce,
    /// Gradients pass the host with one replica too, where callbacks can change them: see
    /// [`PretrainRun::with_allreduce_callbacks`](super::PretrainRun::with_allreduce_callbacks).
    pub explicit_allreduce: bool,
    /// The reference's arithmetic of several replicas instead of that of one device at the same batch.
    pub compat: Option<SeedCompat>,
}

/// What the reference does with several replicas: the loss of each is normalised by its own counts, its gradients are clipped
/// to [`clip_norm`](crate::optimizer::OptimizerOptions::clip_norm) before they are summed, and their sum is not. With R
/// replicas that is up to R times as large as the gradient of the batch. The loss that is told is the mean of theirs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeedCompat {
    /// The gradients of each of R replicas are divided by R before they are clipped.
    pub scale_loss: bool,
}

impl Distribution {
    /// So many parts one after another.
    pub const fn in_parts(count: usize) -> Self {
        let all_reduce = AllReduce { algorithm: Algorithm::HierarchicalCopy, bytes_per_pack: 0 };
        Self { gradient_accumulation_steps: Some(count), all_reduce, explicit_allreduce: false, compat: None }
    }

    /// Do the gradients of so many replicas pass the host?
    pub(super) fn passes_host(&self, replicas: usize) -> bool {
        replicas > 1 || self.explicit_allreduce
    }
}

/// The parts of a batch.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Parts in all: each replica does the same number.
    pub parts: usize,
    /// Parts that a device does one after another.
    pub accumulation: usize,
    /// One of them.
    pub part: BatchShape,
    /// What to tell of them, where nobody asked for it.
    pub notice: Option<String>,
}

impl Layout {
    /// The parts of batches of `shape` on a strategy's adapters, and for each of these the step that does its own.
    ///
    /// # Errors
    /// [`TrainError::Uneven`], and [`TrainError::DoesNotFit`] where no parts fit, or not those asked for.
    pub fn new(
        strategy: &Strategy,
        options: &PretrainOptions,
        shape: BatchShape,
    ) -> Result<(Self, Vec<StepPlan>), TrainError> {
        let given = options.distribution.gradient_accumulation_steps;
        let replicas = strategy.replicas().count();
        let all = replicas.saturating_mul(strategy.workers());
        let accumulation = given.unwrap_or(1);
        let part = part_of(shape, all.saturating_mul(accumulation))?;
        let plan = |accumulation, part| -> Result<Vec<_>, _> {
            let kind = task(options, all, accumulation);
            let step = |adapter| Wanted::training(adapter, options, kind).fitting(adapter, part);
            strategy.replicas().map(step).collect()
        };
        let layout =
            |accumulation, part, notice| Self { parts: replicas * accumulation, accumulation, part, notice };
        match plan(accumulation, part) {
            Ok(steps) => Ok((layout(accumulation, part, None), steps)),
            Err(TrainError::DoesNotFit { batch_size, largest, source }) if given.is_none() && largest > 0 => {
                let (accumulation, smaller) = fewest_parts(part, largest);
                if accumulation > MOST_PARTS {
                    return Err(TrainError::DoesNotFit { batch_size, largest, source });
                }
                let notice = format!(
                    "A batch of {} does not fit {}: {source}. Its gradients are summed over {accumulation} parts of {}, \
                     which comes to the same.",
                    part.batch_size, strategy.adapter.name, smaller.batch_size
                );
                let steps = plan(accumulation, smaller)?;
                Ok((layout(accumulation, smaller, Some(notice)), steps))
            }
            Err(error) => Err(error),
        }
    }
}

/// What a device does that is one of so many, and does so many parts of a batch one after another.
fn task(options: &PretrainOptions, replicas: usize, accumulation: usize) -> Task {
    let PretrainOptions { mut optimizer, distribution, .. } = *options;
    let passes_host = distribution.passes_host(replicas);
    if passes_host && distribution.compat.is_some() {
        // The host clips before the sum.
        optimizer.clip_norm = None;
    }
    match passes_host || accumulation > 1 {
        true => Task::TrainInParts { optimizer, several: accumulation > 1 },
        false => Task::Train(optimizer),
    }
}

fn part_of(shape: BatchShape, parts: usize) -> Result<BatchShape, TrainError> {
    let batch_size = shape.batch_size;
    if parts == 0 {
        let (option, value) = ("gradient_accumulation_steps", 0);
        return Err(TrainError::Option { option, value, expected: "at least 1" });
    }
    if !batch_size.is_multiple_of(parts) {
        let below = batch_size / parts * parts;
        return Err(TrainError::Uneven { batch_size, parts, below, above: below.saturating_add(parts) });
    }
    Ok(BatchShape { batch_size: batch_size / parts, ..shape })
}

/// The fewest parts of at most `largest` sequences.
fn fewest_parts(shape: BatchShape, largest: usize) -> (usize, BatchShape) {
    let divides = |size: &usize| shape.batch_size.is_multiple_of(*size);
    let batch_size = (1..=largest).rev().find(divides).unwrap_or(1);
    (shape.batch_size / batch_size, BatchShape { batch_size, ..shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: BatchShape = BatchShape { batch_size: 12, seq_length: 8, predictions: 2 };

    #[test]
    fn parts_are_equal_or_the_nearest_batches_are_told() {
        assert_eq!(part_of(SHAPE, 4).unwrap().batch_size, 3);
        assert!(part_of(SHAPE, 0).is_err());
        let error = part_of(SHAPE, 5).unwrap_err().to_string();
        assert!(error.contains("12") && error.contains("10 and 15"), "{error}");
        let error = part_of(SHAPE, 13).unwrap_err().to_string();
        assert!(error.contains("nearest that can is 13"), "{error}");
    }

    #[test]
    fn as_few_parts_as_fit() {
        for (largest, parts) in [(11, 2), (6, 2), (5, 3), (3, 4), (2, 6), (1, 12)] {
            let (found, part) = fewest_parts(SHAPE, largest);
            assert_eq!((found, part.batch_size), (parts, 12 / parts), "at most {largest}");
        }
    }
}
