//! What a run trains on, instances in memory or in files of records, and what it is evaluated on.

use super::masking::Masker;
use super::stream_random::StreamRandom;
use super::{
    BatchLimits, Error, Features, InstanceOptions, InstanceSet, PythonRandom, UnigramBaseline, Vocabulary,
};
use std::ops::Range;

/// Instances to train on, wherever they are: in memory ([`InstanceSet`](super::InstanceSet)), made of text and on a disk
/// ([`TextInstances`](super::TextInstances)), or in files ([`RecordSet`](super::RecordSet)).
pub struct TrainingData {
    instances: Box<dyn InstanceSource>,
    remasker: Option<Remasker>,
    /// Which worker this is, from 0, and how many there are.
    worker: usize,
    workers: usize,
    evaluation: Option<Box<TrainingData>>,
}

/// Where instances come from.
pub(super) trait InstanceSource: Send {
    /// For errors.
    fn origin(&self) -> &str;
    /// N.
    fn count(&self) -> usize;
    /// S and M.
    fn shape(&self) -> (usize, usize);
    fn unigram_baseline(&self, vocab_size: usize) -> UnigramBaseline;
    /// # Errors
    /// When a number of any instance is out of its range.
    fn check(&self, limits: &BatchLimits) -> Result<(), Error>;
    /// Instances `range` of the epoch whose random order `seed` decides; without one, of the order in which they are kept.
    ///
    /// # Errors
    /// When they cannot be read.
    fn take(&mut self, range: Range<usize>, seed: Option<u64>) -> Result<Features, Error>;
}

struct InMemory<T> {
    instances: T,
    /// The seed last asked for, and its order.
    order: Option<(u64, Vec<usize>)>,
}

impl<T: InstanceSet> InstanceSource for InMemory<T> {
    fn origin(&self) -> &str {
        self.instances.origin()
    }

    fn count(&self) -> usize {
        self.instances.count()
    }

    fn shape(&self) -> (usize, usize) {
        (self.instances.seq_length(), self.instances.predictions())
    }

    fn unigram_baseline(&self, vocab_size: usize) -> UnigramBaseline {
        UnigramBaseline::new(&self.instances, vocab_size)
    }

    fn check(&self, limits: &BatchLimits) -> Result<(), Error> {
        self.instances.check(limits)
    }

    fn take(&mut self, range: Range<usize>, seed: Option<u64>) -> Result<Features, Error> {
        let Some(seed) = seed else {
            return Ok(self.instances.pick(&range.collect::<Vec<_>>()));
        };
        if self.order.as_ref().is_none_or(|(of, _)| *of != seed) {
            let mut order: Vec<usize> = (0..self.instances.count()).collect();
            PythonRandom::new(seed).shuffle(&mut order);
            self.order = Some((seed, order));
        }
        let order = self.order.as_ref().map_or(&[][..], |(_, order)| order);
        Ok(self.instances.pick(&order[range]))
    }
}

impl<T: InstanceSet + 'static> From<T> for TrainingData {
    fn from(instances: T) -> Self {
        Self::from_source(InMemory { instances, order: None })
    }
}

impl TrainingData {
    pub(super) fn from_source(instances: impl InstanceSource + 'static) -> Self {
        Self { instances: Box::new(instances), remasker: None, worker: 0, workers: 1, evaluation: None }
    }

    /// Masks every instance anew whenever it is used, instead of as it was made. Of `options` count the seed and what
    /// they say of masking.
    ///
    /// # Errors
    /// When an option is out of its range.
    pub fn with_dynamic_masking(
        self,
        vocabulary: &Vocabulary,
        options: &InstanceOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        let options = InstanceOptions {
            max_predictions_per_seq: options.max_predictions_per_seq.min(self.predictions()),
            ..options.clone()
        };
        Ok(Self { remasker: Some(Remasker::new(vocabulary, &options)), ..self })
    }

    /// The part of worker `worker`, from 0, of `workers`, which all have the same data: as many instances of an epoch as
    /// each of the others, and none that another one has. What is left of an epoch is dropped. In every step the batches of
    /// all workers, one behind the other, are the batch that a single worker with `workers` times their batch size has,
    /// dynamic masks included.
    ///
    /// # Errors
    /// When there is no such worker.
    pub fn for_worker(self, worker: usize, workers: usize) -> Result<Self, Error> {
        if worker < workers {
            return Ok(Self { worker, workers, ..self });
        }
        let expected = format!("below the number of workers, {workers}");
        Err(Error::BadOption { option: "worker", value: worker.to_string(), expected })
    }

    /// Adds examples that are not trained on: the model is evaluated on them during training, as they are in
    /// [`TrainingData::in_order`]. Their shape may be another one.
    #[must_use]
    pub fn with_evaluation(self, held_out: impl Into<Self>) -> Self {
        Self { evaluation: Some(Box::new(held_out.into())), ..self }
    }

    /// Takes them out.
    pub(crate) fn take_evaluation(&mut self) -> Option<Self> {
        self.evaluation.take().map(|held_out| *held_out)
    }

    /// Instances `range`, which must be there, in an order that is always the same, masked as they were made.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn in_order(&mut self, range: Range<usize>) -> Result<Features, Error> {
        self.instances.take(range, None)
    }

    /// N; for one worker of several its part of it.
    pub fn count(&self) -> usize {
        self.instances.count() / self.workers
    }

    /// S.
    pub fn seq_length(&self) -> usize {
        self.instances.shape().0
    }

    /// M.
    pub fn predictions(&self) -> usize {
        self.instances.shape().1
    }

    /// How often each token is the one to be guessed.
    pub fn unigram_baseline(&self, vocab_size: usize) -> UnigramBaseline {
        self.instances.unigram_baseline(vocab_size)
    }

    pub(crate) fn origin(&self) -> &str {
        self.instances.origin()
    }

    /// # Errors
    /// When a number of any instance is out of its range.
    pub(crate) fn check(&self, limits: &BatchLimits) -> Result<(), Error> {
        self.instances.check(limits)
    }

    /// The instances of batch `step` when an epoch, whose order depends on the seed and its number alone, is dealt out in
    /// batches of `batch_size`; what is left of it is dropped.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn batch(&mut self, step: u64, batch_size: usize, seed: u64) -> Result<Features, Error> {
        let per_epoch = (self.count() / batch_size) as u64;
        let (epoch, step_in_epoch) = (step / per_epoch, (step % per_epoch) as usize);
        let first = (step_in_epoch * self.workers + self.worker) * batch_size;
        // Odd multiplier (2⁶⁴ over the golden ratio): no two epochs of a seed share a stream, nor do neighbours of
        // neighbouring seeds.
        let epoch_seed = seed.wrapping_add((epoch + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut batch = self.instances.take(first..first + batch_size, Some(epoch_seed))?;
        if let Some(remasker) = &mut self.remasker {
            remasker.mask(&mut batch, (step * self.workers as u64 + self.worker as u64) * batch_size as u64);
        }
        Ok(batch)
    }
}

/// Masks instances anew.
struct Remasker {
    masker: Masker,
    rng: StreamRandom,
}

impl Remasker {
    fn new(vocabulary: &Vocabulary, options: &InstanceOptions) -> Self {
        // Not the streams of the instances' making.
        let seed = options.random_seed ^ 0x6d61_736b;
        Self { masker: Masker::new(vocabulary, options), rng: StreamRandom::new(seed) }
    }

    /// Masks all of `features` anew; the draws of each depend on its number from `first` on alone.
    fn mask(&mut self, features: &mut Features, first: u64) {
        let (s, m) = (features.seq_length, features.predictions);
        let mut masked = Vec::new();
        for n in 0..features.count() {
            let tokens = &mut features.input_ids[n * s..][..s];
            let slots = n * m..(n + 1) * m;
            let positions = &mut features.masked_lm_positions[slots.clone()];
            let ids = &mut features.masked_lm_ids[slots.clone()];
            let weights = &mut features.masked_lm_weights[slots];
            for ((position, id), weight) in positions.iter().zip(ids.iter()).zip(weights.iter()) {
                if *weight > 0.0 {
                    tokens[*position as usize] = *id;
                }
            }
            let mask = &features.input_mask[n * s..][..s];
            let length = mask.iter().rposition(|&mask| mask == 1).map_or(0, |last| last + 1);
            self.rng.start(first + n as u64);
            masked.clear();
            self.masker.mask(&mut tokens[..length], &mut self.rng, &mut masked);
            positions.fill(0);
            ids.fill(0);
            weights.fill(0.0);
            for (slot, &(position, id)) in masked.iter().enumerate() {
                (positions[slot], ids[slot], weights[slot]) = (position, id, 1.0);
            }
        }
    }
}
