//! How well a model guesses on examples that it does not learn from.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::plan::Wanted;
use super::{StepScalars, TrainError, Trainer};
use crate::checkpoint::NamedTensor;
use crate::data::{self, Batch, BatchLimits, Features, TrainingData};
use crate::gpu::{Gpu, GpuError};
use crate::model::config::BertConfig;
use crate::model::{BatchShape, StepKind, Task};

/// Means over all examples: each masked token counts as its weight says, each label once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// Examples.
    pub instances: usize,
    /// The weights of all masked tokens together: without fractions their number.
    pub predictions: f64,
    /// Masked-LM loss, nats; 0 when nothing is masked.
    pub lm_example_loss: f64,
    /// Share of masked tokens guessed right.
    pub masked_lm_accuracy: f64,
    /// Next-sentence loss, nats, of a model with that head.
    pub next_sentence_loss: Option<f64>,
    /// Share of its labels guessed right.
    pub next_sentence_accuracy: Option<f64>,
}

impl Evaluation {
    /// Masked-LM plus next-sentence loss, nats.
    pub fn loss(&self) -> f64 {
        self.lm_example_loss + self.next_sentence_loss.unwrap_or(0.0)
    }

    /// Of the masked tokens: among so many words, all alike, it would be as unsure.
    pub fn perplexity(&self) -> f64 {
        self.lm_example_loss.exp()
    }
}

/// Evaluate a model on all of `examples`, in their order, `batch_size` at a time; the last batch may be smaller. No
/// more than a batch of them, and what their source keeps at hand, is in memory. `on_batch` hears how many are done, and may break it
/// off.
///
/// # Errors
/// [`TrainError::OtherModel`] when the weights are not the configuration's; what is wrong with the data, or does not fit
/// the device; what the device says; [`TrainError::NoLoss`]; [`data::Error::Interrupted`] when `on_batch` breaks it off.
pub async fn evaluate(
    gpu: &Arc<Gpu>,
    config: &BertConfig,
    weights: &[NamedTensor],
    examples: impl Into<TrainingData>,
    batch_size: usize,
    mut on_batch: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Evaluation, TrainError> {
    let next_sentence = weights.iter().any(|tensor| tensor.name.starts_with("cls.seq_relationship."));
    let mut examples = examples.into();
    let deal = Deal::new(&examples, config, batch_size, next_sentence);
    check_held_out(&mut examples, &deal.limits)?;
    let wanted = Wanted { config, kind: deal.kind(), kernels: gpu.kernels };
    let whole = Trainer::compile(gpu.clone(), wanted.fitting(&gpu.adapter, deal.shape(0))?).await?;
    whole.check_fit(weights)?;
    whole.write_weights(weights);
    let rest = deal.sharing_for_the_rest(&whole, config).await?;
    let mut evaluator = Evaluator { deal, whole, rest };
    let mut sums = Sums::default();
    for batch in 0..evaluator.batches() {
        let batch = examples.in_order(evaluator.instances_of(batch))?;
        evaluator.measure(&batch, &mut sums).await?;
        if on_batch(sums.instances).is_break() {
            return Err(data::Error::Interrupted.into());
        }
    }
    evaluator.means(&sums)
}

/// Are there any, with all numbers in their ranges?
pub(super) fn check_held_out(data: &mut TrainingData, limits: &BatchLimits) -> Result<(), data::Error> {
    if data.count() == 0 {
        let origin = data.origin().into();
        return Err(data::Error::TooFewInstances { origin, instances: 0, batch_size: 1 });
    }
    data.check(limits)?;
    // Does the model have room for one?
    Batch::new(&data.in_order(0..1)?, &[0], limits).map(drop)
}

/// How examples are dealt out to batches.
#[derive(Clone, Copy)]
pub(super) struct Deal {
    instances: usize,
    seq_length: usize,
    predictions: usize,
    limits: BatchLimits,
    batch_size: usize,
    next_sentence: bool,
}

impl Deal {
    pub fn new(data: &TrainingData, config: &BertConfig, batch_size: usize, next_sentence: bool) -> Self {
        let limits = BatchLimits {
            vocab_size: config.vocab_size,
            type_vocab_size: config.type_vocab_size,
            max_position_embeddings: config.max_position_embeddings,
        };
        let instances = data.count();
        let (seq_length, predictions) = (data.seq_length(), data.predictions());
        let batch_size = batch_size.clamp(1, instances.max(1));
        Self { instances, seq_length, predictions, limits, batch_size, next_sentence }
    }

    fn kind(&self) -> StepKind {
        StepKind { task: Task::Evaluate, ..StepKind::predict(self.next_sentence) }
    }

    fn batches(&self) -> usize {
        self.instances.div_ceil(self.batch_size)
    }

    fn instances_of(&self, batch: usize) -> Range<usize> {
        let first = batch * self.batch_size;
        first..self.instances.min(first + self.batch_size)
    }

    fn shape(&self, batch: usize) -> BatchShape {
        BatchShape {
            batch_size: self.instances_of(batch).len(),
            seq_length: self.seq_length,
            predictions: self.predictions,
        }
    }

    /// What computes the last batch over the weights of `trainer`, where that batch is smaller than the others.
    async fn sharing_for_the_rest(
        &self,
        trainer: &Trainer,
        config: &BertConfig,
    ) -> Result<Option<Trainer>, GpuError> {
        let last = self.shape(self.batches().saturating_sub(1));
        match last == self.shape(0) {
            true => Ok(None),
            false => trainer.sharing(config, last, self.kind()).await.map(Some),
        }
    }
}

/// Evaluates a model on the same examples whenever it is asked to.
pub(super) struct Evaluator {
    deal: Deal,
    whole: Trainer,
    /// For the last batch, where it is smaller than the others.
    rest: Option<Trainer>,
}

impl Evaluator {
    /// Of the model that `trainer` trains, with its weights as they are at any time: no copy is made. It needs memory of
    /// its own for what lies between the layers.
    pub async fn of_training(trainer: &Trainer, deal: Deal, config: &BertConfig) -> Result<Self, GpuError> {
        let whole = trainer.sharing(config, deal.shape(0), deal.kind()).await?;
        let rest = deal.sharing_for_the_rest(trainer, config).await?;
        Ok(Self { deal, whole, rest })
    }

    pub fn batches(&self) -> usize {
        self.deal.batches()
    }

    /// Examples in all.
    pub fn instances(&self) -> usize {
        self.deal.instances
    }

    /// Those of a batch.
    pub fn instances_of(&self, batch: usize) -> Range<usize> {
        self.deal.instances_of(batch)
    }

    /// Device memory besides the weights, in bytes.
    pub fn bytes(&self) -> u64 {
        [Some(&self.whole), self.rest.as_ref()].into_iter().flatten().map(|t| t.memory().bytes()).sum()
    }

    /// Adds what the examples of a batch come to.
    pub async fn measure(&mut self, examples: &Features, sums: &mut Sums) -> Result<(), TrainError> {
        let records: Vec<usize> = (0..examples.count()).collect();
        let inputs = Batch::new(examples, &records, &self.deal.limits)?;
        let trainer = match &mut self.rest {
            Some(rest) if records.len() < self.deal.batch_size => rest,
            _ => &mut self.whole,
        };
        trainer.submit(&inputs, &StepScalars::default(), true).await?;
        let metrics = trainer.metrics().await?[0];
        // The device gives the means of the batch.
        let weight: f64 = inputs.mlm_weights.iter().map(|weight| f64::from(*weight)).sum();
        sums.instances += records.len();
        sums.weight += weight;
        sums.lm_loss += weight * f64::from(metrics.lm_example_loss);
        sums.lm_hits += (weight + 1e-5) * f64::from(metrics.masked_lm_accuracy);
        sums.nsp_loss += records.len() as f64 * f64::from(metrics.next_sentence_loss);
        sums.nsp_hits += records.len() as f64 * f64::from(metrics.next_sentence_accuracy);
        Ok(())
    }

    /// The means of what was measured.
    ///
    /// # Errors
    /// [`TrainError::NoLoss`].
    pub fn means(&self, sums: &Sums) -> Result<Evaluation, TrainError> {
        if !(sums.lm_loss + sums.nsp_loss).is_finite() {
            return Err(TrainError::NoLoss);
        }
        let share = |sum: f64, count: f64| if count > 0.0 { sum / count } else { 0.0 };
        let of_labels = |sum| self.deal.next_sentence.then(|| share(sum, sums.instances as f64));
        Ok(Evaluation {
            instances: sums.instances,
            predictions: sums.weight,
            lm_example_loss: share(sums.lm_loss, sums.weight),
            masked_lm_accuracy: share(sums.lm_hits, sums.weight),
            next_sentence_loss: of_labels(sums.nsp_loss),
            next_sentence_accuracy: of_labels(sums.nsp_hits),
        })
    }
}

/// What batches came to so far.
#[derive(Default)]
pub(super) struct Sums {
    pub instances: usize,
    weight: f64,
    lm_loss: f64,
    lm_hits: f64,
    nsp_loss: f64,
    nsp_hits: f64,
}
