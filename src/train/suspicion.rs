//! Measurements that make one doubt that anything is learned, though every number is sound.

use std::fmt;

/// Steps in a row before anything is said. No warm-up has a rate of 0 for longer than its first step, and no two batches
/// have the same loss to the last bit.
const MANY: u64 = 20;

/// What is odd about the last [`steps`](Self::steps) of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Suspicion {
    /// The masked-LM loss was exactly 0.
    ZeroLoss,
    /// The losses were the same to the last bit.
    SameLoss {
        /// Masked-LM plus next-sentence loss, nats.
        loss: f32,
    },
    /// The learning rate was 0.
    ZeroRate,
}

impl Suspicion {
    /// For how many steps in a row.
    pub fn steps(&self) -> u64 {
        MANY
    }
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, why) = match self {
            Self::ZeroLoss => (
                "The masked-LM loss was exactly 0".into(),
                "nothing is masked in the examples or all its weights are 0; if not, the model knows the few examples by \
                 heart",
            ),
            Self::SameLoss { loss } => (
                format!("The loss was {loss} to the last digit"),
                "the weights do not change, as with a learning rate of 0, and all batches are alike; if not, the device \
                 computes nothing: run the self-test",
            ),
            Self::ZeroRate => (
                "The learning rate was 0".into(),
                "it was meant to be larger: at 0 the model learns nothing, and its loss only differs from batch to batch",
            ),
        };
        write!(f, "{what} in each of the last {MANY} steps, which is suspicious. Probably {why}.")
    }
}

/// Looks at every step, and suspects something once.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    zero_losses: u64,
    same_losses: u64,
    zero_rates: u64,
    /// The bits of both losses of the step before.
    before: Option<[u32; 2]>,
    has_told: bool,
}

impl Watch {
    /// A step's masked-LM and next-sentence loss, and the rate of its update.
    pub fn see(&mut self, losses: [f32; 2], rate: f64) -> Option<Suspicion> {
        let count = |count: &mut u64, holds: bool| *count = if holds { *count + 1 } else { 0 };
        let bits = losses.map(f32::to_bits);
        count(&mut self.zero_losses, losses[0] == 0.0);
        count(&mut self.same_losses, self.before.replace(bits) == Some(bits));
        count(&mut self.zero_rates, rate == 0.0);
        let found = if self.zero_losses >= MANY {
            Some(Suspicion::ZeroLoss)
        } else if self.zero_rates >= MANY {
            Some(Suspicion::ZeroRate)
        } else if self.same_losses + 1 >= MANY {
            Some(Suspicion::SameLoss { loss: losses[0] + losses[1] })
        } else {
            None
        };
        found.filter(|_| !self.has_told).inspect(|_| self.has_told = true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps at which something is suspected of a run with these losses and rates.
    fn told(steps: u64, of: impl Fn(u64) -> ([f32; 2], f64)) -> Vec<(u64, Suspicion)> {
        let mut watch = Watch::default();
        let see = |step| of(step);
        (0..steps)
            .filter_map(|step| {
                let (losses, rate) = see(step);
                watch.see(losses, rate).map(|found| (step + 1, found))
            })
            .collect()
    }

    #[test]
    fn what_is_odd_for_many_steps_is_told_once() {
        let varied = |step: u64| 7.0 - step as f32 * 1e-3;
        assert_eq!(told(90, |step| ([0.0, varied(step)], 1e-3)), [(MANY, Suspicion::ZeroLoss)]);
        assert_eq!(told(90, |_| ([6.5, 0.5], 1e-3)), [(MANY, Suspicion::SameLoss { loss: 7.0 })]);
        assert_eq!(told(90, |step| ([varied(step), 0.5], 0.0)), [(MANY, Suspicion::ZeroRate)]);
        // Later, too; and the first of them only.
        let late = |step| ([if step < 50 { varied(step) } else { 0.0 }, 0.0], 1e-3);
        assert_eq!(told(90, late), [(50 + MANY, Suspicion::ZeroLoss)]);
        for suspicion in [Suspicion::ZeroLoss, Suspicion::SameLoss { loss: 0.5 }, Suspicion::ZeroRate] {
            let text = suspicion.to_string();
            assert!(text.contains("last 20 steps, which is suspicious. Probably "), "{text}");
        }
    }

    #[test]
    fn a_usual_run_is_not_suspected() {
        // A warm-up, whose first rate is 0; a loss that is 0 now and then; two batches by turns; the same loss twice.
        assert_eq!(told(500, |step| ([7.0 - step as f32 * 1e-3, 0.0], step as f64 * 1e-9)), []);
        assert_eq!(told(500, |step| ([(step % MANY) as f32, 0.0], 1e-3)), []);
        assert_eq!(told(500, |step| ([7.0 + (step % 2) as f32, 0.5], 1e-3)), []);
        assert_eq!(told(500, |step| ([7.0, (step / 2) as f32], 1e-3)), []);
        assert_eq!(told(MANY - 1, |_| ([0.0, 0.0], 0.0)), []);
    }
}
