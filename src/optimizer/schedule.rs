//! The learning rate: linear warm-up, then polynomial decay.

use super::OptimizerError;

/// The schedule of TensorFlow's run_pretraining. Its decay counts from step 0, not from the end of the
/// warm-up: where the warm-up ends, the rate drops onto the curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Where the warm-up leads and where the decay starts.
    pub init_lr: f64,
    /// What remains from `total_steps` on.
    pub end_lr: f64,
    /// Steps the decay takes.
    pub total_steps: u64,
    /// Steps below which the rate grows linearly from 0; may be fractional.
    pub warmup_steps: f64,
    /// Exponent of the decay; 1 is linear.
    pub power: f64,
}

impl Schedule {
    /// The rate of the update that follows `step` updates: with warm-up, the first update has rate 0.
    ///
    /// `init_lr * step / warmup_steps` below `warmup_steps`, else
    /// `(init_lr - end_lr) * (1 - min(step, total_steps) / total_steps) ^ power + end_lr`.
    pub fn learning_rate(&self, step: u64) -> f64 {
        if (step as f64) < self.warmup_steps {
            return self.init_lr * (step as f64 / self.warmup_steps);
        }
        if step >= self.total_steps {
            return self.end_lr;
        }
        let left = 1.0 - step as f64 / self.total_steps as f64;
        (self.init_lr - self.end_lr) * left.powf(self.power) + self.end_lr
    }

    /// Does every step lie inside the warm-up, so that the rate never reaches `init_lr`?
    pub fn never_leaves_warmup(&self) -> bool {
        self.total_steps > 0 && ((self.total_steps - 1) as f64) < self.warmup_steps
    }

    /// Can training work with these numbers?
    ///
    /// # Errors
    /// [`OptimizerError`] names the first that is out of range.
    pub fn check(&self) -> Result<(), OptimizerError> {
        let finite = |what, value: f64| {
            OptimizerError::unless(value.is_finite() && value >= 0.0, what, value, "finite and not negative")
        };
        finite("init_lr", self.init_lr)?;
        finite("end_lr", self.end_lr)?;
        finite("warmup_steps", self.warmup_steps)?;
        finite("power", self.power)?;
        OptimizerError::unless(self.total_steps > 0, "total_steps", self.total_steps as f64, "at least 1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORACLE: Schedule =
        Schedule { init_lr: 1e-2, end_lr: 0.0, total_steps: 10, warmup_steps: 4.0, power: 1.0 };

    #[test]
    fn warms_up_and_drops_onto_the_decay() {
        let want = [0.0, 0.0025, 0.005, 0.0075, 0.006, 0.005, 0.004, 0.003, 0.002, 0.001, 0.0, 0.0];
        for (step, want) in want.into_iter().enumerate() {
            let got = ORACLE.learning_rate(step as u64);
            assert!((got - want).abs() < 1e-15, "step {step}: got {got}, want {want}");
        }
    }

    #[test]
    fn without_warmup_the_first_rate_is_the_highest_and_the_last_is_the_end() {
        let schedule = Schedule { warmup_steps: 0.0, end_lr: 1e-3, ..ORACLE };
        assert!((schedule.learning_rate(0) - 1e-2).abs() < 1e-15);
        assert!((schedule.learning_rate(5) - 5.5e-3).abs() < 1e-15);
        assert_eq!(schedule.learning_rate(10), 1e-3);
        assert_eq!(schedule.learning_rate(1_000_000), 1e-3);
    }

    #[test]
    fn power_bends_the_decay() {
        let schedule = Schedule { warmup_steps: 0.0, power: 2.0, ..ORACLE };
        assert!((schedule.learning_rate(5) - 2.5e-3).abs() < 1e-15);
    }

    #[test]
    fn a_fractional_warmup_ends_between_two_steps() {
        let schedule = Schedule { warmup_steps: 2.5, ..ORACLE };
        assert!((schedule.learning_rate(2) - 0.8e-2).abs() < 1e-15);
        assert!((schedule.learning_rate(3) - 0.7e-2).abs() < 1e-15);
    }

    #[test]
    fn knows_when_it_never_leaves_the_warmup() {
        for (warmup_steps, never) in [(0.0, false), (9.0, false), (9.5, true), (10.0, true), (10_000.0, true)]
        {
            let schedule = Schedule { warmup_steps, ..ORACLE };
            assert_eq!(schedule.never_leaves_warmup(), never, "{warmup_steps}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        assert_eq!(ORACLE.check(), Ok(()));
        let bad = [
            ("init_lr", Schedule { init_lr: f64::NAN, ..ORACLE }),
            ("end_lr", Schedule { end_lr: -1.0, ..ORACLE }),
            ("total_steps", Schedule { total_steps: 0, ..ORACLE }),
            ("warmup_steps", Schedule { warmup_steps: f64::INFINITY, ..ORACLE }),
            ("power", Schedule { power: -1.0, ..ORACLE }),
        ];
        for (what, schedule) in bad {
            assert_eq!(schedule.check().unwrap_err().what, what);
        }
    }
}
