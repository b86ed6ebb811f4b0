//! The random draws of instances, from whatever generator: the reference's, whose order of draws is exact, or another.

use super::PythonRandom;

/// What making instances asks of a generator of random numbers.
pub(super) trait Draw {
    /// Uniform in [0, 1).
    fn random(&mut self) -> f64;

    /// Uniform in `0..n`; `n` is at least 1.
    fn below(&mut self, n: usize) -> usize;

    /// Uniform, both ends included; `low` is at most `high`.
    fn randint(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Makes `items` ready to be taken out in random order by [`Draw::take`].
    fn shuffle<T>(&mut self, items: &mut [T]);

    /// The next of `items` in random order.
    fn take<T>(&mut self, items: &mut Vec<T>) -> Option<T>;
}

impl Draw for PythonRandom {
    fn random(&mut self) -> f64 {
        PythonRandom::random(self)
    }

    fn below(&mut self, n: usize) -> usize {
        PythonRandom::below(self, n)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        PythonRandom::shuffle(self, items);
    }

    fn take<T>(&mut self, items: &mut Vec<T>) -> Option<T> {
        items.pop()
    }
}
