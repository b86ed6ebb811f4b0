//! A run under way, as a listener may use it between two steps.

use std::future::Future;

use web_time::Instant;

use super::ledger::{Ledger, diverged};
use super::predict::LivePredictor;
use super::{Guesses, PretrainOptions, Progress, Snapshot, TrainError, Trainer};
use crate::checkpoint::NamedTensor;
use crate::data::{Batcher, Example, Tokenizer, Vocabulary};
use crate::model::config::BertConfig;
use crate::model::parameters::parameter_shapes;

/// The run as a listener may use it between two steps.
pub struct Running<'a> {
    pub(super) options: &'a PretrainOptions,
    pub(super) batcher: Batcher,
    pub(super) trainer: Trainer,
    pub(super) ledger: Ledger<'a>,
    pub(super) predictor: LivePredictor,
    pub(super) untrained: Vec<NamedTensor>,
    pub(super) step: u64,
}

impl Running<'_> {
    /// Steps submitted so far; the device has done them by the time anything is read.
    pub fn step(&self) -> u64 {
        self.step
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
        self.predictor.fill_masks(&self.trainer, &self.options.config, tokenizer, prompts, top_k).await
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
        let examples =
            self.predictor.examples(&self.trainer, &self.options.config, vocabulary, &batch).await?;
        examples.ok_or(TrainError::BadWeights { step: self.step })
    }

    /// Wait for something that is no training, such as the end of a pause, while the device rests. The time does not
    /// count as time of the run.
    ///
    /// # Errors
    /// What the device says.
    pub async fn pause<T>(&mut self, until: impl Future<Output = T>) -> Result<T, TrainError> {
        // Reading waits for the steps under way, which are training.
        self.trainer.read(self.trainer.step().ring).await?;
        let start = Instant::now();
        let value = until.await;
        self.ledger.clock.paused_since(start);
        Ok(value)
    }

    /// Everything a later run needs to go on from here.
    ///
    /// # Errors
    /// What the device says, and [`TrainError::Diverged`] where a step before did, after which nothing was updated.
    pub async fn snapshot(&self) -> Result<Snapshot, TrainError> {
        let mut snapshot = Snapshot::take(&self.trainer, self.step).await?;
        if let Some((step, culprit)) = self.trainer.halted().await? {
            return Err(diverged(&self.trainer, &self.batcher, step, culprit, 1));
        }
        snapshot.elapsed = self.ledger.clock.elapsed();
        snapshot.weights = complete(&self.options.config, snapshot.weights, &self.untrained);
        Ok(snapshot)
    }

    /// What the last `steps` steps measured, which must be a loop not yet told of.
    pub(super) async fn progress(&mut self, steps: usize) -> Result<Progress, TrainError> {
        let metrics = self.trainer.metrics().await?;
        self.ledger.progress(&metrics[..steps], &self.trainer, &self.batcher)
    }

    /// All parameters of the model in their order.
    pub(super) async fn model(&self) -> Result<Vec<NamedTensor>, TrainError> {
        let trained = self.trainer.read_arena(&self.trainer.step().weights).await?;
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
