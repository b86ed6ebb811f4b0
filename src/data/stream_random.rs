//! Random numbers in streams: one can start anywhere at no cost, so that work needs neither order nor memory.

use super::draw::Draw;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of its own for every number, all of one seed.
pub(super) struct StreamRandom(ChaCha8Rng);

impl StreamRandom {
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// From here on draws are those of stream `stream`, from its start.
    pub(super) fn start(&mut self, stream: u64) {
        self.0.set_stream(stream);
        self.0.set_word_pos(0);
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl Draw for StreamRandom {
    fn random(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        match u32::try_from(n) {
            // The product's upper half is uniform but for the values of its lower half that are drawn anew (Lemire 2019,
            // "Fast Random Integer Generation in an Interval").
            Ok(n) => loop {
                let product = u64::from(self.0.next_u32()) * u64::from(n);
                if product as u32 >= n.wrapping_neg() % n {
                    return (product >> 32) as usize;
                }
            },
            Err(_) => {
                let n = n as u64;
                loop {
                    let product = u128::from(self.0.next_u64()) * u128::from(n);
                    if product as u64 >= n.wrapping_neg() % n {
                        return (product >> 64) as usize;
                    }
                }
            }
        }
    }

    /// Nothing: [`Draw::take`] draws, since few of the items are ever taken.
    fn shuffle<T>(&mut self, _: &mut [T]) {}

    fn take<T>(&mut self, items: &mut Vec<T>) -> Option<T> {
        if items.is_empty() {
            return None;
        }
        let at = self.below(items.len());
        Some(items.swap_remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_start_anew_and_differ() {
        let mut rng = StreamRandom::new(7);
        let mut stream = |n| {
            rng.start(n);
            [rng.bits(), rng.bits()]
        };
        let (first, second) = (stream(1), stream(2));
        assert_eq!(stream(1), first);
        assert_ne!(first, second);
    }

    #[test]
    fn draws_are_uniform() {
        let mut rng = StreamRandom::new(7);
        let mut counts = [0usize; 6];
        let mut sum = 0.0;
        for _ in 0..60_000 {
            counts[rng.below(6)] += 1;
            sum += rng.random();
        }
        // Five standard deviations: 91 for a count, 0.0012 for a mean.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 460), "{counts:?}");
        assert!((sum / 60_000.0 - 0.5).abs() < 0.006, "{sum}");
        assert!((0..100).all(|_| rng.below(1) == 0));
    }
}
