//! What a run is asked to do, and what it tells while it does it.

use std::time::Duration;

use super::{Distribution, Evaluation, ReplicaReport, Suspicion, TrainError};
use crate::checkpoint::NamedTensor;
use crate::gpu::{DeviceOptions, Precision};
use crate::model::config::BertConfig;
use crate::optimizer::{OptimizerOptions, Schedule};

/// The device keeps a record for each of these steps.
const MOST_STEPS_PER_LOOP: usize = 1 << 16;

/// Options of a pre-training run. Sequence length and predictions are those of the data.
#[derive(Debug, Clone, PartialEq)]
pub struct PretrainOptions {
    /// The model.
    pub config: BertConfig,
    /// Sequences in a step.
    pub batch_size: usize,
    /// The update rule.
    pub optimizer: OptimizerOptions,
    /// Learning rates; its `total_steps` is the length of the run.
    pub schedule: Schedule,
    /// Steps of an epoch, which has nothing to do with passes over the data: it paces callbacks and evaluations. The
    /// last epoch is shorter where they do not divide the run.
    pub steps_per_epoch: u64,
    /// How often in an epoch the model is evaluated, where there are examples for that; the last time at its end.
    pub num_eval_per_epoch: u64,
    /// Train the next-sentence task too.
    pub use_next_sentence_label: bool,
    /// Steps between two readings of the metrics. A loop ends where an evaluation is due, so it may have fewer.
    pub steps_per_loop: usize,
    /// Decides initial weights, dropout and the order of the data.
    pub seed: u64,
    /// Compute the layers' activations again for their backward instead of keeping them: see
    /// [`StepKind::recompute`](crate::model::StepKind::recompute).
    pub recompute: bool,
    /// How activations are stored.
    pub precision: Precision,
    /// Where the output bias of the masked-LM head starts.
    pub output_bias_init: OutputBiasInit,
    /// How the device is opened.
    pub device: DeviceOptions,
    /// How a step is spread.
    pub distribution: Distribution,
}

impl PretrainOptions {
    /// Are all numbers in their ranges?
    ///
    /// # Errors
    /// [`TrainError::Config`], [`TrainError::Optimizer`] or [`TrainError::Option`] names the first that is not;
    /// [`TrainError::CompatWithLossScale`].
    pub fn check(&self) -> Result<(), TrainError> {
        self.config.validate()?;
        self.optimizer.check()?;
        self.schedule.check()?;
        if self.optimizer.loss_scale.is_some() && self.distribution.compat.is_some() {
            return Err(TrainError::CompatWithLossScale);
        }
        if self.steps_per_loop > MOST_STEPS_PER_LOOP {
            let (option, value) = ("steps_per_loop", self.steps_per_loop as u64);
            return Err(TrainError::Option { option, value, expected: "at most 65536" });
        }
        for (option, value) in [
            ("train_batch_size", self.batch_size as u64),
            ("num_train_steps", self.schedule.total_steps),
            ("num_steps_per_epoch", self.steps_per_epoch),
            ("steps_per_loop", self.steps_per_loop as u64),
        ] {
            if value == 0 {
                return Err(TrainError::Option { option, value, expected: "at least 1" });
            }
        }
        if !(1..=self.steps_per_epoch).contains(&self.num_eval_per_epoch) {
            let (option, value) = ("num_eval_per_epoch", self.num_eval_per_epoch);
            return Err(TrainError::Option { option, value, expected: "from 1 to num_steps_per_epoch" });
        }
        Ok(())
    }

    /// Steps done when the loop ends whose first step is `step`.
    pub(super) fn end_of_loop(&self, step: u64) -> u64 {
        self.next_evaluation(step).min(step + self.steps_per_loop as u64)
    }

    /// Is an evaluation due after `steps` steps?
    pub(super) fn evaluates_after(&self, steps: u64) -> bool {
        steps > 0 && self.next_evaluation(steps - 1) == steps
    }

    /// The first number of steps beyond `step` after which an evaluation is due: they divide an epoch as evenly as whole
    /// steps can, and the last is that of the run.
    fn next_evaluation(&self, step: u64) -> u64 {
        let (epoch, count) = (u128::from(self.steps_per_epoch), u128::from(self.num_eval_per_epoch));
        let within = u128::from(step) % epoch;
        let next = ((within + 1) * count).div_ceil(epoch) * epoch / count;
        (step + (next - within) as u64).min(self.schedule.total_steps)
    }

    /// The epoch, from 1, whose first step is `step`.
    pub(super) fn epoch_beginning_at(&self, step: u64) -> Option<u64> {
        step.is_multiple_of(self.steps_per_epoch).then(|| step / self.steps_per_epoch + 1)
    }

    /// The epoch, from 1, of which all is done after `steps` steps; the run ends its last one.
    pub(super) fn epoch_ending_at(&self, steps: u64) -> Option<u64> {
        let ends = steps.is_multiple_of(self.steps_per_epoch) || steps == self.schedule.total_steps;
        ends.then(|| steps.div_ceil(self.steps_per_epoch))
    }
}

/// Where the output bias of the masked-LM head starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputBiasInit {
    /// At zero, as the reference's.
    Zeros,
    /// At the log frequency of each token among the masked ones, so that the first steps need not learn it.
    Unigram,
}

/// How far the kernels of a step are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compiling {
    /// Kernels compiled.
    pub done: usize,
    /// Kernels in all.
    pub total: usize,
}

/// What a run tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The kernels are being compiled: told by [`PretrainRun::prepare`](super::PretrainRun::prepare) alone, before anything
    /// else.
    Compiling(Compiling),
    /// Everything is set up; the first step follows.
    Started(Started),
    /// The step of this number, from 0, is about to be handed to the device: the first time, or again after a loss of the
    /// device.
    Step(u64),
    /// Some steps are done, for the first time.
    Progress(Progress),
    /// What was measured makes one doubt that anything is learned; told once.
    Suspicious(Suspicion),
    /// The model is being evaluated on examples that it does not learn from.
    Evaluating {
        /// Examples done.
        done: usize,
        /// Examples in all.
        instances: usize,
    },
    /// It was evaluated; to stop in between breaks an evaluation off.
    Evaluated(Evaluation),
    /// The device was lost: the driver was restarted, say. The run opens another and goes on from the state that it kept
    /// last, and ends with the same bits as if nothing had happened. What fails by a loss in a listener is to be tried
    /// again with a later event. Where the run is to stop, it does the steps first that it had done before.
    DeviceLost {
        /// Steps done in the state that it goes on from.
        step: u64,
        /// What happened.
        message: String,
    },
    /// After a loss no other device can be opened yet; it is tried again.
    DeviceAwaited {
        /// Why not.
        why: String,
        /// When it is tried again.
        after: Duration,
    },
    /// Everything is set up on the other device; the steps from there on follow.
    DeviceReplaced(Started),
    /// All steps are done that will be; the answer changes nothing. Told again where the device is lost then.
    Ended,
}

/// What is known before the first step.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// The adapter's name; of several replicas all names, with `+` between.
    pub adapter: String,
    /// The kernels of each replica, in words: see [`DeviceOptions::told_on`]. Of several that are alike once.
    pub kernels: String,
    /// Trainable parameters.
    pub parameters: usize,
    /// Device memory of the run, in bytes, of all replicas together.
    pub bytes: u64,
    /// Dispatches in a step; where its batch is done in parts, for one of them and for the update.
    pub dispatches: usize,
    /// Parts of a batch that a device does one after another before the update.
    pub gradient_accumulation_steps: usize,
    /// What else there is to know about how the batch is cut.
    pub notice: Option<String>,
    /// Loss of a model that finds all V words equally likely: ln V, in nats.
    pub uniform_loss: f64,
    /// Loss of a model that knows word frequencies only, in nats.
    pub unigram_loss: f64,
}

/// Means over the steps since the last one; not a number where all of them were left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub step: u64,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// Masked-LM plus next-sentence loss, nats.
    pub loss: f32,
    /// Masked-LM loss, nats.
    pub lm_example_loss: f32,
    /// Share of masked tokens guessed right.
    pub masked_lm_accuracy: f32,
    /// Next-sentence loss, nats, where the task is trained.
    pub next_sentence_loss: Option<f32>,
    /// Share of its labels guessed right.
    pub next_sentence_accuracy: Option<f32>,
    /// Global norm of the gradients before clipping.
    pub grad_norm: f32,
    /// Steps left out of training and of these means, as a loss or a gradient of theirs was not finite.
    pub left_out: u64,
    /// What the loss of the next step is scaled with, where it is.
    pub loss_scale: Option<f32>,
    /// The rate of the next step, as the reference logs it.
    pub learning_rate: f32,
    /// Tokens trained on in a second, padding included.
    pub tokens_per_second: f64,
    /// Time spent training since the first step, before an interruption too; pauses are left out.
    pub elapsed: Duration,
}

impl Progress {
    /// Were all its steps left out?
    pub fn has_no_loss(&self) -> bool {
        self.loss.is_nan()
    }

    /// What there is to say of steps that were left out, if any were.
    pub fn left_out_notice(&self) -> Option<String> {
        let Self { step, left_out, loss_scale, .. } = self;
        let were = if *left_out == 1 { "was" } else { "were" };
        let scale = loss_scale.map(|scale| format!(" The loss scale of the next step is {scale}."));
        let scale = scale.unwrap_or_default();
        (*left_out > 0).then(|| {
            format!("{left_out} of the steps up to {step} {were} left out: a loss or a gradient was not finite.{scale}")
        })
    }
}

/// The answer to an [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// Finish the steps under way and end the run.
    Stop,
}

/// What a run leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// All parameters of a `BertForPreTraining`. Without the next-sentence task its head and the pooler are as they
    /// started.
    pub tensors: Vec<NamedTensor>,
    /// Steps done.
    pub steps: u64,
    /// Was the run ended before its last step?
    pub stopped: bool,
    /// The last progress told.
    pub last: Option<Progress>,
    /// What the replicas took, where there were several; since the last loss of a device.
    pub replicas: Option<ReplicaReport>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::{LossScale, OptimizerKind};
    use crate::train::SeedCompat;

    fn options(total_steps: u64, steps_per_epoch: u64, num_eval_per_epoch: u64) -> PretrainOptions {
        PretrainOptions {
            config: BertConfig::preset("tiny", 100).unwrap(),
            batch_size: 1,
            optimizer: OptimizerOptions::new(OptimizerKind::AdamW),
            schedule: Schedule { init_lr: 1e-3, end_lr: 0.0, total_steps, warmup_steps: 1.0, power: 1.0 },
            steps_per_epoch,
            num_eval_per_epoch,
            use_next_sentence_label: true,
            steps_per_loop: 4,
            seed: 1,
            recompute: false,
            precision: Precision::default(),
            output_bias_init: OutputBiasInit::Zeros,
            device: DeviceOptions::default(),
            distribution: Distribution::default(),
        }
    }

    #[test]
    fn scaled_gradients_are_not_clipped_before_they_are_summed() {
        let mut options = options(40, 20, 4);
        options.optimizer.loss_scale = Some(LossScale::Dynamic);
        assert!(options.check().is_ok());
        options.distribution.compat = Some(SeedCompat::default());
        assert!(matches!(options.check(), Err(TrainError::CompatWithLossScale)));
    }

    #[test]
    fn evaluations_divide_an_epoch() {
        for (total, per_epoch, count, expected) in [
            // The reference's own example.
            (40, 20, 4, &[5, 10, 15, 20, 25, 30, 35, 40][..]),
            (20, 10, 1, &[10, 20]),
            // Where it would miss the end of an epoch.
            (20, 10, 3, &[3, 6, 10, 13, 16, 20]),
            (4, 3, 3, &[1, 2, 3, 4]),
            // A last epoch cut short.
            (13, 10, 2, &[5, 10, 13]),
            (7, u64::MAX, u64::MAX, &[1, 2, 3, 4, 5, 6, 7]),
        ] {
            let options = options(total, per_epoch, count);
            let due: Vec<_> = (0..=total).filter(|steps| options.evaluates_after(*steps)).collect();
            assert_eq!(due, expected, "{count} in {per_epoch} of {total}");
            let mut loops = vec![0];
            while loops[loops.len() - 1] < total {
                loops.push(options.end_of_loop(loops[loops.len() - 1]));
            }
            assert!(due.iter().all(|step| loops.contains(step)), "{loops:?}");
            assert!(loops.windows(2).all(|pair| (1..=4).contains(&(pair[1] - pair[0]))), "{loops:?}");
        }
    }
}
