//! What the loss is multiplied with before its gradients are computed.

use super::OptimizerError;

/// Good steps in a row after which a dynamic scale doubles.
const GROWTH_INTERVAL: u32 = 2000;

/// A factor of the gradients on their way back, which the update takes off again: in 16 bits small ones are not lost.
///
/// An update is skipped where a gradient is not finite. Then the learning rate and the bias correction stay where they
/// are, too: they count the updates that were made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossScale {
    /// 2¹⁵ at first. Doubles after 2000 good steps in a row, and halves, but not below 1, where a gradient is not finite,
    /// which is expected now and then: such steps are skipped whatever [`OnNan`](super::OnNan) says.
    Dynamic,
    /// The same in all steps.
    Fixed(f32),
}

/// A loss scale between two steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossScaleState {
    /// The scale of the next step.
    pub scale: f32,
    /// Good steps in a row since the scale changed or a step was skipped; 0 where it is fixed.
    pub good_steps: u32,
    /// Steps skipped in a row.
    pub skipped_in_a_row: u32,
    /// Steps skipped in all.
    pub skipped: u32,
}

impl LossScale {
    /// That of the first step.
    pub fn initial(&self) -> f32 {
        match self {
            Self::Dynamic => 32768.0,
            Self::Fixed(scale) => *scale,
        }
    }

    /// Where a run goes on that had this state `before`, or began without a scale.
    pub fn go_on_from(&self, before: Option<LossScaleState>) -> LossScaleState {
        let initial =
            LossScaleState { scale: self.initial(), good_steps: 0, skipped_in_a_row: 0, skipped: 0 };
        match (self, before) {
            (Self::Dynamic, before) => before.unwrap_or(initial),
            (Self::Fixed(scale), before) => LossScaleState { scale: *scale, ..before.unwrap_or(initial) },
        }
    }

    /// Good steps in a row after which it grows, if it does.
    pub(super) fn growth_interval(&self) -> Option<u32> {
        (*self == Self::Dynamic).then_some(GROWTH_INTERVAL)
    }

    pub(super) fn check(&self) -> Result<(), OptimizerError> {
        let scale = self.initial();
        let holds = scale.is_normal() && scale > 0.0;
        OptimizerError::unless(holds, "loss_scale", scale.into(), "finite and above 0 in 32 bits")
    }
}

impl LossScaleState {
    /// As the device has it.
    pub fn to_words(self) -> [u32; 4] {
        [self.scale.to_bits(), self.good_steps, self.skipped_in_a_row, self.skipped]
    }

    /// What the device had.
    pub fn from_words([scale, good_steps, skipped_in_a_row, skipped]: [u32; 4]) -> Self {
        Self { scale: f32::from_bits(scale), good_steps, skipped_in_a_row, skipped }
    }
}
