//! Training instances in whatever form they are held.

use std::sync::Arc;

use super::batch::check_features;
use super::{Batch, BatchLimits, Error, Features};

/// A fixed set of training instances of one shape: [`Features`], which hold every number, or
/// [`Instances`](super::Instances), which take less memory.
pub trait InstanceSet: Send {
    /// Where they come from, for errors.
    fn origin(&self) -> &str;
    /// N.
    fn count(&self) -> usize;
    /// S: tokens of an instance.
    fn seq_length(&self) -> usize;
    /// M: places for predictions in an instance.
    fn predictions(&self) -> usize;
    /// Instances whose second segment is random.
    fn random_next(&self) -> usize;
    /// Every token to be guessed, and how much the guess counts.
    fn labels(&self) -> Box<dyn Iterator<Item = (u32, f32)> + '_>;
    /// Instances as a batch.
    ///
    /// # Errors
    /// As [`Batch::new`].
    fn batch(&self, records: &[usize], limits: &BatchLimits) -> Result<Batch, Error>;
    /// Copies of instances, which must be there.
    fn pick(&self, records: &[usize]) -> Features;
    /// Looks at the numbers of all instances, where those may be wrong.
    ///
    /// # Errors
    /// As [`Batch::new`].
    fn check(&self, limits: &BatchLimits) -> Result<(), Error>;
}

impl InstanceSet for Features {
    fn origin(&self) -> &str {
        &self.origin
    }

    fn count(&self) -> usize {
        self.count()
    }

    fn seq_length(&self) -> usize {
        self.seq_length
    }

    fn predictions(&self) -> usize {
        self.predictions
    }

    fn random_next(&self) -> usize {
        self.next_sentence_labels.iter().filter(|label| **label == 1).count()
    }

    fn labels(&self) -> Box<dyn Iterator<Item = (u32, f32)> + '_> {
        Box::new(self.masked_lm_ids.iter().copied().zip(self.masked_lm_weights.iter().copied()))
    }

    fn batch(&self, records: &[usize], limits: &BatchLimits) -> Result<Batch, Error> {
        Batch::new(self, records, limits)
    }

    fn pick(&self, records: &[usize]) -> Features {
        self.take(records.iter().copied())
    }

    fn check(&self, limits: &BatchLimits) -> Result<(), Error> {
        check_features(self, limits)
    }
}

/// Shared, so that several runs need not hold them each.
impl<T: InstanceSet + Sync + ?Sized> InstanceSet for Arc<T> {
    fn origin(&self) -> &str {
        (**self).origin()
    }

    fn count(&self) -> usize {
        (**self).count()
    }

    fn seq_length(&self) -> usize {
        (**self).seq_length()
    }

    fn predictions(&self) -> usize {
        (**self).predictions()
    }

    fn random_next(&self) -> usize {
        (**self).random_next()
    }

    fn labels(&self) -> Box<dyn Iterator<Item = (u32, f32)> + '_> {
        (**self).labels()
    }

    fn batch(&self, records: &[usize], limits: &BatchLimits) -> Result<Batch, Error> {
        (**self).batch(records, limits)
    }

    fn pick(&self, records: &[usize]) -> Features {
        (**self).pick(records)
    }

    fn check(&self, limits: &BatchLimits) -> Result<(), Error> {
        (**self).check(limits)
    }
}
