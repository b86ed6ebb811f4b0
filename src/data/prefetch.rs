//! Batches made ahead on another thread, so that the device need not wait for them.

use super::Error;
use super::batcher::{BatchMaker, Made};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Batches that wait to be asked for; one more is being made.
const AHEAD: usize = 2;

/// A thread that makes one batch after another.
pub(super) struct Prefetcher {
    /// Where to go on, when that is not the next one.
    jumps: Sender<u64>,
    made: Receiver<(u64, Result<Made, Error>)>,
    /// The step that comes next unless told otherwise.
    next: u64,
}

impl Prefetcher {
    pub(super) fn start(maker: BatchMaker) -> Self {
        let (jumps, heard) = channel();
        let (sender, made) = sync_channel(AHEAD);
        thread::spawn(move || run(maker, &heard, &sender));
        Self { jumps, made, next: 0 }
    }

    pub(super) fn make(&mut self, step: u64) -> Result<Made, Error> {
        if step != self.next {
            // If the thread is gone, so is what it would have sent.
            let _ = self.jumps.send(step);
        }
        self.next = step + 1;
        // What was made before the jump is passed over.
        let made = self.made.iter().find(|(made, _)| *made == step);
        made.map_or(Err(Error::Interrupted), |(_, made)| made)
    }
}

/// Makes batches until nobody takes them.
fn run(mut maker: BatchMaker, jumps: &Receiver<u64>, made: &SyncSender<(u64, Result<Made, Error>)>) {
    let mut step = 0;
    loop {
        step = jumps.try_iter().last().unwrap_or(step);
        if made.send((step, maker.make(step))).is_err() {
            return;
        }
        step += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::training_data::InstanceSource;
    use crate::data::{BatchLimits, Batcher, Features, TrainingData, UnigramBaseline};
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts the batches taken from it.
    struct Counting(Arc<AtomicUsize>);

    impl InstanceSource for Counting {
        fn origin(&self) -> &str {
            "test"
        }

        fn count(&self) -> usize {
            100
        }

        fn shape(&self) -> (usize, usize) {
            (5, 1)
        }

        fn unigram_baseline(&self, vocab_size: usize) -> UnigramBaseline {
            UnigramBaseline::from_counts([].into_iter(), vocab_size)
        }

        fn check(&self, _: &BatchLimits) -> Result<(), Error> {
            Ok(())
        }

        fn take(&mut self, range: Range<usize>, _: Option<u64>) -> Result<Features, Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Features::zeros("test".into(), range.len(), 5, 1))
        }
    }

    #[test]
    fn the_next_batches_are_made_before_they_are_asked_for() {
        let taken = Arc::new(AtomicUsize::new(0));
        let data = TrainingData::from_source(Counting(taken.clone()));
        let limits = BatchLimits { vocab_size: 5, type_vocab_size: 2, max_position_embeddings: 5 };
        let mut batcher = Batcher::new(data, 2, 1, limits).unwrap();
        batcher.batch(0).unwrap();
        // Those that wait, and the one that waits for their room; asked for was one.
        while taken.load(Ordering::Relaxed) < 1 + AHEAD + 1 {
            thread::yield_now();
        }
    }
}
