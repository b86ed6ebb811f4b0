//! Which instances make up which batch: every epoch in a new random order that depends on the seed and the epoch's
//! number alone, so a step's number is all it takes to go on where a run stopped.

use super::{Batch, BatchLimits, Error, Features, TrainingData};

#[cfg(not(target_family = "wasm"))]
use super::prefetch::Prefetcher as Source;
#[cfg(target_family = "wasm")]
use BatchMaker as Source;

/// Batches for ever, from a fixed set of instances. Natively another thread makes the next ones ahead.
pub struct Batcher {
    source: Source,
    limits: BatchLimits,
    batch_size: usize,
    seq_length: usize,
    batches_per_epoch: usize,
    /// The instances of the batch made last.
    last: Features,
}

impl Batcher {
    /// Deals `data` out in batches of `batch_size`; what is left of an epoch is dropped.
    ///
    /// # Errors
    /// When there are fewer instances than a batch takes, `batch_size` is 0, or a number of an instance is out of its
    /// range.
    pub fn new(
        data: impl Into<TrainingData>,
        batch_size: usize,
        seed: u64,
        limits: BatchLimits,
    ) -> Result<Self, Error> {
        Self::in_parts(data, batch_size, 1, seed, limits)
    }

    /// The same batches, for [`Batcher::parts`], each cut into so many equal parts.
    ///
    /// # Errors
    /// As [`Batcher::new`].
    ///
    /// # Panics
    /// When that does not come out even: a mistake in the caller.
    pub fn in_parts(
        data: impl Into<TrainingData>,
        batch_size: usize,
        parts: usize,
        seed: u64,
        limits: BatchLimits,
    ) -> Result<Self, Error> {
        assert!(parts > 0 && batch_size.is_multiple_of(parts), "uneven parts");
        let data = data.into();
        let instances = data.count();
        if batch_size == 0 || instances < batch_size {
            return Err(Error::TooFewInstances { origin: data.origin().into(), instances, batch_size });
        }
        data.check(&limits)?;
        let seq_length = data.seq_length();
        Ok(Self {
            source: Source::start(BatchMaker { data, limits, batch_size, parts, seed }),
            limits,
            batch_size,
            seq_length,
            batches_per_epoch: instances / batch_size,
            last: Features::default(),
        })
    }

    /// Tokens of a batch, padding included: B·S.
    pub fn batch_tokens(&self) -> usize {
        self.batch_size * self.seq_length
    }

    /// Batches in one pass over the instances.
    pub fn batches_per_epoch(&self) -> usize {
        self.batches_per_epoch
    }

    /// The batch of step `step`, from 0: the same for the same seed, whatever was asked before.
    ///
    /// # Errors
    /// When its instances cannot be read.
    ///
    /// # Panics
    /// When batches come in parts.
    pub fn batch(&mut self, step: u64) -> Result<Batch, Error> {
        let mut parts = self.parts(step)?;
        assert_eq!(parts.len(), 1, "a batch in parts");
        Ok(parts.remove(0))
    }

    /// Its parts.
    ///
    /// # Errors
    /// As [`Batcher::batch`].
    pub fn parts(&mut self, step: u64) -> Result<Vec<Batch>, Error> {
        let Made { parts, instances } = self.source.make(step)?;
        self.last = instances;
        Ok(parts)
    }

    /// The first `count` instances of the batch made last, or all of them if it has no more.
    ///
    /// # Errors
    /// As [`Batcher::batch`].
    pub fn first(&self, count: usize) -> Result<Batch, Error> {
        let records: Vec<usize> = (0..count.min(self.last.count())).collect();
        Batch::new(&self.last, &records, &self.limits)
    }
}

/// A batch and the instances it was made of.
pub(super) struct Made {
    parts: Vec<Batch>,
    instances: Features,
}

/// Makes batches when they are asked for.
pub(super) struct BatchMaker {
    data: TrainingData,
    limits: BatchLimits,
    batch_size: usize,
    parts: usize,
    seed: u64,
}

impl BatchMaker {
    #[cfg(target_family = "wasm")]
    fn start(self) -> Self {
        self
    }

    pub(super) fn make(&mut self, step: u64) -> Result<Made, Error> {
        let instances = self.data.batch(step, self.batch_size, self.seed)?;
        let records: Vec<usize> = (0..instances.count()).collect();
        let parts = records.chunks(self.batch_size / self.parts);
        let parts: Result<_, _> = parts.map(|part| Batch::new(&instances, part, &self.limits)).collect();
        Ok(Made { parts: parts?, instances })
    }
}
