//! Which optimizer, its hyper-parameters, and what a step needs of them.

use super::{LossScale, OptimizerError, Schedule};

/// The update rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptimizerKind {
    /// Adam with decoupled weight decay, taken off before the Adam step at the raw learning rate.
    AdamW,
    /// Adam's direction with weight decay, rescaled for each variable to the norm of its weights.
    Lamb,
}

/// What becomes of a step whose loss or gradient is not finite. Its own update is left out either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnNan {
    /// It is the last one: nothing is updated any more.
    Stop,
    /// The next step is as any other.
    Skip,
}

/// Hyper-parameters of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimizerOptions {
    /// The update rule.
    pub kind: OptimizerKind,
    /// How much of the first moments a step keeps.
    pub beta_1: f64,
    /// How much of the second moments a step keeps.
    pub beta_2: f64,
    /// Added to the root of the second moments.
    pub epsilon: f64,
    /// Share of a weight that decays, times the learning rate; see [`decays`](super::decays).
    pub weight_decay: f64,
    /// Gradients are scaled down to this global norm when theirs is larger.
    pub clip_norm: Option<f64>,
    /// What follows numbers that are not finite.
    pub on_nan: OnNan,
    /// What the gradients are multiplied with on their way back, if with anything.
    pub loss_scale: Option<LossScale>,
}

impl OptimizerOptions {
    /// The reference's numbers: betas 0.9 and 0.999, epsilon 1e-6, weight decay 0.01; AdamW clips to norm 1,
    /// LAMB does not clip. Numbers that are not finite stop it. The loss is not scaled.
    pub fn new(kind: OptimizerKind) -> Self {
        let clip_norm = match kind {
            OptimizerKind::AdamW => Some(1.0),
            OptimizerKind::Lamb => None,
        };
        Self {
            kind,
            beta_1: 0.9,
            beta_2: 0.999,
            epsilon: 1e-6,
            weight_decay: 0.01,
            clip_norm,
            on_nan: OnNan::Stop,
            loss_scale: None,
        }
    }

    /// Is an update that is left out followed by no other?
    pub fn halts(&self) -> bool {
        self.on_nan == OnNan::Stop && self.loss_scale != Some(LossScale::Dynamic)
    }

    /// What the update that follows `step` updates reads from the device, with `t = step + 1`: the learning
    /// rate lr, AdamW's `lr * sqrt(1 - beta_2^t) / (1 - beta_1^t)`, LAMB's `1 / (1 - beta_1^t)` and
    /// `1 / (1 - beta_2^t)`. Computed in f64: powers built in f32 would drift over a long run.
    pub fn step_words(&self, schedule: &Schedule, step: u64) -> [f32; 4] {
        let rate = schedule.learning_rate(step);
        let t = (step + 1) as f64;
        let (correction_1, correction_2) = (1.0 - self.beta_1.powf(t), 1.0 - self.beta_2.powf(t));
        let alpha = rate * correction_2.sqrt() / correction_1;
        [rate, alpha, 1.0 / correction_1, 1.0 / correction_2].map(|word| word as f32)
    }

    /// Can training work with these numbers?
    ///
    /// # Errors
    /// [`OptimizerError`] names the first that is out of range.
    pub fn check(&self) -> Result<(), OptimizerError> {
        for (what, beta) in [("beta_1", self.beta_1), ("beta_2", self.beta_2)] {
            // In f32, where a number close to 1 is 1.
            let holds = (0.0..1.0).contains(&(beta as f32));
            OptimizerError::unless(holds, what, beta, "at least 0 and, in 32 bits, below 1")?;
        }
        let decay = self.weight_decay;
        let holds = decay.is_finite() && decay >= 0.0;
        OptimizerError::unless(holds, "weight_decay", decay, "finite and not negative")?;
        for (what, value) in [("epsilon", self.epsilon), ("clip_norm", self.clip_norm.unwrap_or(1.0))] {
            // In f32, where a tiny number is 0 and a huge one infinite.
            let holds = (value as f32).is_normal() && value > 0.0;
            OptimizerError::unless(holds, what, value, "finite and above 0 in 32 bits")?;
        }
        self.loss_scale.map_or(Ok(()), |scale| scale.check())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule =
        Schedule { init_lr: 1e-2, end_lr: 0.0, total_steps: 10, warmup_steps: 4.0, power: 1.0 };

    #[test]
    fn the_words_of_a_step() {
        let options = OptimizerOptions::new(OptimizerKind::AdamW);
        assert_eq!(options.step_words(&SCHEDULE, 0), [0.0, 0.0, 10.0, 1000.0]);
        let alpha = 0.005 * (1.0f64 - 0.997_002_999).sqrt() / 0.271;
        let want = [0.005, alpha as f32, (1.0f64 / 0.271) as f32, (1.0f64 / 0.002_997_001) as f32];
        for (got, want) in options.step_words(&SCHEDULE, 2).into_iter().zip(want) {
            assert!((got / want - 1.0).abs() < 1e-6, "got {got}, want {want}");
        }
        let late = options.step_words(&Schedule { total_steps: 2_000_000, ..SCHEDULE }, 1_000_000);
        assert_eq!(late, [5e-3, 5e-3, 1.0, 1.0]);
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let options = OptimizerOptions::new(OptimizerKind::AdamW);
        assert_eq!(options.check(), Ok(()));
        assert_eq!(OptimizerOptions::new(OptimizerKind::Lamb).check(), Ok(()));
        let bad = [
            ("beta_1", OptimizerOptions { beta_1: 1.0, ..options }),
            ("beta_1", OptimizerOptions { beta_1: 1.0 - 1e-12, ..options }),
            ("beta_2", OptimizerOptions { beta_2: f64::NAN, ..options }),
            ("epsilon", OptimizerOptions { epsilon: 0.0, ..options }),
            ("weight_decay", OptimizerOptions { weight_decay: -0.01, ..options }),
            ("clip_norm", OptimizerOptions { clip_norm: Some(0.0), ..options }),
            ("loss_scale", OptimizerOptions { loss_scale: Some(LossScale::Fixed(0.0)), ..options }),
            ("loss_scale", OptimizerOptions { loss_scale: Some(LossScale::Fixed(f32::NAN)), ..options }),
        ];
        for (what, options) in bad {
            assert_eq!(options.check().unwrap_err().what, what);
        }
        let tiny = OptimizerOptions { clip_norm: Some(1e-40), ..options }.check().unwrap_err();
        assert_eq!(tiny.to_string(), "clip_norm is 1e-40, but must be finite and above 0 in 32 bits");
    }
}
