//! A run under way, as a listener may use it between two steps.

use std::future::Future;
use std::sync::Arc;

use web_time::Instant;

use super::evaluate::Evaluator;
use super::gradients::AllReduceCallbacks;
use super::ledger::{Ledger, diverged};
use super::mirror::Mirror;
use super::on_device::OnDevice;
use super::ranks::compare;
use super::{
    Guesses, PretrainOptions, Progress, RunMemory, Snapshot, Started, StepMetrics, TrainError, Trainer,
};
use crate::checkpoint::NamedTensor;
use crate::data::{Batcher, Example, Tokenizer, TrainingData, Vocabulary};
use crate::gpu::Gpu;
use crate::model::config::BertConfig;
use crate::model::parameters::parameter_shapes;
use crate::strategy::Team;

/// The run as a listener may use it between two steps.
pub struct Running<'a> {
    pub(super) options: &'a PretrainOptions,
    pub(super) batcher: Batcher,
    /// What the model is evaluated on.
    pub(super) held_out: Option<TrainingData>,
    pub(super) device: OnDevice,
    /// The processes of the run, where there are several.
    pub(super) team: Option<Team>,
    pub(super) all_reduce_callbacks: AllReduceCallbacks<'a>,
    pub(super) ledger: Ledger<'a>,
    pub(super) untrained: Vec<NamedTensor>,
    pub(super) step: u64,
    /// Steps of a loop whose measurements are on their way.
    pub(super) untold: usize,
    /// Those measurements, where they were read before their time.
    pub(super) measured: Vec<StepMetrics>,
    /// Steps done at the last evaluation.
    pub(super) evaluated: u64,
    /// Loss of a model that knows word frequencies only, in nats.
    pub(super) unigram_loss: f64,
}

impl Running<'_> {
    /// Steps submitted so far; the device has done them by the time anything is read.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The device that trains; after a loss it is another one.
    pub fn gpu(&self) -> &Arc<Gpu> {
        self.trainer().gpu()
    }

    /// What trains each replica, the first one first; a single one in a run on one device.
    pub fn trainers(&self) -> impl Iterator<Item = &Trainer> {
        let OnDevice { trainer, mirror, .. } = &self.device;
        std::iter::once(trainer).chain(mirror.iter().flat_map(Mirror::others))
    }

    /// What the model guesses now for the masks of some prompts.
    ///
    /// # Errors
    /// As [`fill_masks`](super::fill_masks).
    pub async fn fill_masks(
        &mut self,
        tokenizer: &Tokenizer,
        prompts: &[&str],
        top_k: usize,
    ) -> Result<Vec<Guesses>, TrainError> {
        let OnDevice { trainer, predictor, .. } = &mut self.device;
        predictor.fill_masks(trainer, &self.options.config, tokenizer, prompts, top_k).await
    }

    /// The first `count` examples of the batch that is learned from now, with what the model guesses for every hidden
    /// token. A batch may have fewer.
    ///
    /// # Errors
    /// [`TrainError::BadWeights`] when an answer is not a number, or what the device says.
    pub async fn examples(
        &mut self,
        vocabulary: &Vocabulary,
        count: usize,
    ) -> Result<Vec<Example>, TrainError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let batch = self.batcher.first(count)?;
        let OnDevice { trainer, predictor, .. } = &mut self.device;
        let examples = predictor.examples(trainer, &self.options.config, vocabulary, &batch).await?;
        examples.ok_or(TrainError::BadWeights { step: self.step })
    }

    /// Wait for something that is no training, such as the end of a pause, while the device rests. The time does not
    /// count as time of the run.
    ///
    /// # Errors
    /// What the device says.
    pub async fn pause<T>(&mut self, until: impl Future<Output = T>) -> Result<T, TrainError> {
        // Reading waits for the steps under way, which are training.
        self.trainer().read(self.trainer().step().ring).await?;
        let start = Instant::now();
        let value = self.gpu().while_it_lives(until).await;
        self.ledger.clock.paused_since(start);
        Ok(value?)
    }

    /// Everything a later run needs to go on from here. Of several processes the first one's is to be taken; while any of
    /// them takes one, the others wait.
    ///
    /// # Errors
    /// What the device says, and [`TrainError::Diverged`] where a step before did, after which nothing was updated.
    pub async fn snapshot(&self) -> Result<Snapshot, TrainError> {
        let mut snapshot = Snapshot::take(self.trainer(), self.step).await?;
        if let Some((step, culprit)) = self.trainer().halted().await? {
            return Err(diverged(self.trainer(), &self.batcher, self.options, step, culprit, 1));
        }
        if let Some(mirror) = &self.device.mirror {
            mirror.check(self.trainer(), &snapshot.weights).await?;
        }
        if let Some(team) = &self.team {
            team.ask_for_check()?;
            compare(team, self.trainer()).await?;
        }
        snapshot.elapsed = self.ledger.clock.elapsed();
        snapshot.evaluated = self.evaluated == self.step;
        snapshot.weights = complete(&self.options.config, snapshot.weights, &self.untrained);
        Ok(snapshot)
    }

    /// What is told when everything is set up.
    pub(super) fn started(&self) -> Started {
        let OnDevice { trainer, evaluator, layout, .. } = &self.device;
        let names: Vec<_> = self.trainers().map(|trainer| &trainer.gpu().adapter.name[..]).collect();
        let told = |trainer: &Trainer| self.options.device.told_on(&trainer.gpu().adapter);
        let mut kernels: Vec<_> = self.trainers().map(told).collect();
        kernels.dedup();
        let memory = RunMemory::of_replicas(self.trainers().map(Trainer::memory).collect(), trainer.step());
        Started {
            adapter: names.join(" + "),
            kernels: kernels.join(" + "),
            parameters: trainer.step().table.elements(),
            bytes: memory.bytes() + evaluator.as_ref().map_or(0, Evaluator::bytes),
            dispatches: trainer.step().plan.dispatches(),
            gradient_accumulation_steps: layout.accumulation,
            notice: layout.notice.clone(),
            uniform_loss: (self.options.config.vocab_size as f64).ln(),
            unigram_loss: self.unigram_loss,
        }
    }

    /// Is an evaluation due that was not made?
    pub(super) fn owes_evaluation(&self) -> bool {
        let is_due = self.device.evaluator.is_some() && self.options.evaluates_after(self.step);
        is_due && self.evaluated < self.step
    }

    /// The measurements of the loop not yet told of.
    pub(super) async fn measured(&mut self) -> Result<&[StepMetrics], TrainError> {
        if self.measured.len() < self.untold {
            self.measured = self.device.trainer.metrics().await?;
            self.measured.truncate(self.untold);
        }
        Ok(&self.measured)
    }

    /// What they come to, to be told now.
    pub(super) async fn progress(&mut self) -> Result<Progress, TrainError> {
        self.measured().await?;
        self.untold = 0;
        let measured = std::mem::take(&mut self.measured);
        self.ledger.progress(&measured, &self.device.trainer, &self.batcher)
    }

    pub(super) fn trainer(&self) -> &Trainer {
        &self.device.trainer
    }

    /// All parameters of the model in their order.
    pub(super) async fn model(&self) -> Result<Vec<NamedTensor>, TrainError> {
        let trained = self.trainer().read_arena(&self.trainer().step().weights).await?;
        // The last update was not followed by a loss that would have told.
        if trained.iter().flat_map(|tensor| &tensor.data).any(|weight| !weight.is_finite()) {
            return Err(TrainError::BadWeights { step: self.step });
        }
        Ok(complete(&self.options.config, trained, &self.untrained))
    }
}

/// All parameters of the model in their order.
fn complete(
    config: &BertConfig,
    mut trained: Vec<NamedTensor>,
    untrained: &[NamedTensor],
) -> Vec<NamedTensor> {
    if !untrained.is_empty() {
        trained.extend_from_slice(untrained);
        let names = parameter_shapes(config, true);
        trained.sort_by_key(|tensor| names.iter().position(|(name, _)| *name == tensor.name));
    }
    trained
}
