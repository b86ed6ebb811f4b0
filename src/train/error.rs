//! Why a run cannot start, or stopped.

use super::self_test::SelfTestError;
use crate::checkpoint::CheckpointError;
use crate::data;
use crate::gpu::{Gpu, GpuError};
use crate::model::config::ConfigError;
use crate::optimizer::{LossScale, OptimizerError};
use crate::strategy::{StrategyError, WorkersError};

/// An error of a run or a prediction.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// There is no strategy.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The model's configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The optimizer's or the schedule's numbers are wrong.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    /// The data is wrong.
    #[error(transparent)]
    Data(#[from] data::Error),
    /// Weights that are no model's.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// An option is out of its range.
    #[error("{option} is {value}; it must be {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        expected: &'static str,
    },
    /// The reference's order of clipping and summing, for gradients that are scaled.
    #[error(
        "--compat seed clips gradients before they are summed, when those of fp16 are still scaled: take one of the two"
    )]
    CompatWithLossScale,
    /// A batch that cannot be cut into equal parts.
    #[error(
        "a batch of {batch_size} cannot be cut into {parts} equal parts; {}",
        nearest(*.below, *.above)
    )]
    Uneven {
        /// The batch.
        batch_size: usize,
        /// Its parts: as many as all devices do together.
        parts: usize,
        /// The next smaller batch that can be cut so; 0 when there is none.
        below: usize,
        /// The next larger one.
        above: usize,
    },
    /// Replicas whose weights are no longer the same.
    #[error(
        "the replicas {} and {} have different weights in {parameter}, though they made the same updates: one of the \
         adapters computes wrong numbers. Train without it (--adapter)",
        .replicas[0], .replicas[1]
    )]
    Drift {
        /// Two that differ, with their adapters.
        replicas: [String; 2],
        /// The first parameter in which they do.
        parameter: String,
    },
    /// Another process of the run has failed.
    #[error(transparent)]
    Workers(#[from] WorkersError),
    /// A process of the run that is not asked for the same.
    #[error(
        "rank {rank} was started with other {what} than rank 0: start all ranks with the same options on the same data"
    )]
    OtherRank {
        /// Which one.
        rank: usize,
        /// What differs.
        what: &'static str,
    },
    /// The step needs more memory than the adapter grants.
    #[error("a batch of {batch_size} does not fit this adapter: {source}. {}", fitting(*.largest))]
    DoesNotFit {
        /// The batch asked for.
        batch_size: usize,
        /// The largest one that fits; 0 when none does.
        largest: usize,
        /// What does not fit.
        source: GpuError,
    },
    /// The adapter has no numbers of the precision asked for.
    #[error(transparent)]
    Precision(GpuError),
    /// The device computed wrong numbers on a case whose result is known.
    #[error(
        "{adapter} computes wrong numbers, so training on it would be useless: {worst}. Update its driver or choose another adapter with --adapter"
    )]
    WrongNumbers {
        /// The adapter.
        adapter: String,
        /// The worst differences.
        worst: String,
    },
    /// The check before the run could not be carried out.
    #[error("self-test: {0}")]
    SelfTest(SelfTestError),
    /// Weights or a snapshot of another model.
    #[error("the weights are of another model: their {parameter} is missing or has another shape")]
    OtherModel {
        /// The first parameter that does not fit.
        parameter: String,
    },
    /// A loss or a gradient is no longer a number.
    #[error(
        "diverged in step {step}, on batch {batch} of pass {pass} over the data: {what} is not finite. {}. Try a lower \
         learning rate, or more warm-up steps{}",
        left_out(*.in_a_row),
        match .loss_scale {
            None => "",
            Some(LossScale::Dynamic) => ", or --dtype fp32",
            Some(LossScale::Fixed(_)) => ", or a smaller --loss_scale, or --dtype fp32",
        }
    )]
    Diverged {
        /// The step, from 1.
        step: u64,
        /// Its batch, from 1.
        batch: u64,
        /// In which pass over the data, from 1.
        pass: u64,
        /// The first number that is not finite, in words.
        what: String,
        /// Steps that were left out one after the other, up to this one.
        in_a_row: u64,
        /// By what the loss was scaled, as it is in fp16.
        loss_scale: Option<LossScale>,
    },
    /// An update was made by which a weight is no longer a number.
    #[error(
        "diverged: after step {step} a weight is not finite. Try a lower learning rate, or more warm-up steps"
    )]
    BadWeights {
        /// Steps done.
        step: u64,
    },
    /// Callbacks for gradients that do not pass them.
    #[error(
        "callbacks on gradients were given, but these are summed without them: ask for an explicit all-reduce          (explicit_allreduce), or leave them out"
    )]
    ImplicitAllReduce,
    /// A callback could not do its work, so the run was ended.
    #[error("a callback failed in {method}: {source}")]
    Callback {
        /// The method.
        method: &'static str,
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Logits that are no probabilities.
    #[error(
        "the model's answer to {prompt:?} is not a number: its weights are damaged, or its training had diverged"
    )]
    NoAnswer {
        /// The prompt.
        prompt: String,
    },
    /// A loss that is none.
    #[error("the model's loss is not a number: its weights are damaged, or its training had diverged")]
    NoLoss,
    /// A prompt without a mask.
    #[error("no [MASK] in {prompt:?}: put [MASK] where a word is to be guessed")]
    NoMask {
        /// The prompt.
        prompt: String,
    },
    /// Masks of a prompt further apart than the model reads.
    #[error("the [MASK]s of {prompt:?} are {tokens} tokens apart, but the model reads {limit} at a time")]
    MasksTooFarApart {
        /// The prompt.
        prompt: String,
        /// Tokens from the first mask to the last.
        tokens: usize,
        /// Tokens the model reads, without `[CLS]` and `[SEP]`.
        limit: usize,
    },
    /// The device was lost, and the one after it, and so on, without a step done in between that was new.
    #[error("the device was lost {losses} times in a row, after step {step}; the last time: {message}")]
    LostAgain {
        /// How often.
        losses: u32,
        /// Steps done.
        step: u64,
        /// What the last one was.
        message: String,
    },
    /// The device was lost, and none could be opened in its place, though that was tried again for a while.
    #[error("the device was lost, and no other could be opened: {why}")]
    NotReplaced {
        /// Why not, the last time.
        why: String,
    },
    /// The device failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl TrainError {
    /// Is it that the device was lost? A run goes on on a new one then; who asked it something may ask again.
    pub fn is_loss(&self) -> bool {
        self.of_device().is_some_and(GpuError::is_loss)
    }

    /// The same, or the loss of the device that is behind it.
    pub(super) async fn or_loss_of(self, gpu: &Gpu) -> Self {
        match self.of_device() {
            Some(error) if !error.is_loss() => gpu.loss().await.map_or(self, Self::Gpu),
            _ => self,
        }
    }

    /// What the device said, be it to a callback.
    fn of_device(&self) -> Option<&GpuError> {
        match self {
            Self::Gpu(error) | Self::SelfTest(SelfTestError::Gpu(error)) => Some(error),
            Self::Callback { source, .. } => match source.downcast_ref::<Self>() {
                Some(error) => error.of_device(),
                None => source.downcast_ref(),
            },
            _ => None,
        }
    }

    /// That in words.
    pub(super) fn device_message(&self) -> String {
        self.of_device().map_or_else(|| self.to_string(), GpuError::to_string)
    }

    /// Is it of the device, whatever of it? One that follows a lost one may be broken as well, and say so in other words.
    pub(super) fn is_of_device(&self) -> bool {
        matches!(self, Self::Gpu(_) | Self::SelfTest(_)) || self.is_loss()
    }
}

fn left_out(in_a_row: u64) -> String {
    match in_a_row {
        1 => "Its update was not made, so the weights are as they were before".into(),
        steps => format!("The updates of {steps} steps in a row were left out"),
    }
}

fn nearest(below: usize, above: usize) -> String {
    match below {
        0 => format!("the nearest that can is {above}"),
        below => format!("the nearest that can are {below} and {above}"),
    }
}

fn fitting(largest: usize) -> String {
    match largest {
        0 => "Not even a batch of 1 fits; use a shorter sequence or a smaller model".into(),
        largest => format!("The largest that fits is {largest}"),
    }
}
