//! Loss scaling: larger gradients on the way back, and the scale that follows what becomes of them.

use super::{NORM_WORDS, Scalar, require};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "loss_scale", source: include_str!("../../shaders/loss_scale.wgsl") };

/// Words of a loss scale's state: the scale, f32; good steps in a row since it changed, steps skipped in a row, and steps
/// skipped in all, u32.
pub const LOSS_SCALE_WORDS: usize = 4;

/// Steps whose rates the device keeps: an update finds its own as long as fewer were skipped in all.
pub const RATES_KEPT: usize = 4096;

/// Words of a step that its loss scale has to do with, all in one tensor.
#[derive(Debug, Clone, Copy)]
pub struct Unscaled {
    /// u32, the number of the step.
    pub step: Scalar,
    /// f32, what the gradients of the masked-LM and of the next-sentence loss are multiplied with.
    pub factors: [Scalar; 2],
    /// The first of the four words of the update that follows `step` updates.
    pub rates: Scalar,
}

/// The same words of a step whose loss is scaled, and what is kept from step to step.
#[derive(Debug, Clone, Copy)]
pub struct LossScaling {
    /// `[LOSS_SCALE_WORDS]`.
    pub state: Tensor,
    /// `[RATES_KEPT, 4]`: the rates that came with the last steps, by the number of the step modulo `RATES_KEPT`.
    pub history: Tensor,
    /// Times the scale.
    pub factors: [Scalar; 2],
    /// The first of the four words of the update that follows as many updates as were not skipped.
    pub rates: Scalar,
}

/// Append the scaling of a step's factors, at first by `initial`; belongs before the losses.
///
/// # Panics
/// When scalars lie in different tensors: a mistake in the caller.
pub fn scale_loss(plan: &mut Plan, initial: f32, unscaled: Unscaled) -> LossScaling {
    let Unscaled { step, factors: [mlm, nsp], rates } = unscaled;
    let state = plan.constant("loss scale", vec![initial.to_bits(), 0, 0, 0]);
    let history = plan.persistent("rates of the last steps", 4 * RATES_KEPT);
    let scaled = plan.persistent("scaled factors and rates", 6);
    let word = |scalar: Scalar| {
        assert_eq!(scalar.tensor, step.tensor, "the step's scalars must lie in one tensor");
        scalar.word
    };
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "begin", constants: vec![], types: vec![] },
        bindings: vec![(1, step.tensor), (2, state), (3, history), (4, scaled)],
        params: vec![step.word, word(mlm), word(nsp), word(rates), RATES_KEPT as u32],
        groups: [1, 1],
    });
    let scalar = |word| Scalar { tensor: scaled, word };
    LossScaling { state, history, factors: [scalar(0), scalar(1)], rates: scalar(2) }
}

/// Append what follows the verdict on a step: `norm` becomes that of the gradients without the scale, its factor takes the
/// scale off and clips, and the scale doubles after `growth_interval` good steps and halves, but not below 1, where the
/// update is skipped. Without a `growth_interval` it stays.
pub fn settle_loss_scale(
    plan: &mut Plan,
    scaling: &LossScaling,
    clip_norm: Option<f32>,
    growth_interval: Option<u32>,
    norm: Tensor,
) {
    require("norm", norm, NORM_WORDS);
    let clip_norm = clip_norm.unwrap_or(0.0).to_bits();
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "settle", constants: vec![], types: vec![] },
        bindings: vec![(2, scaling.state), (5, norm)],
        params: vec![0, 0, 0, 0, 0, clip_norm, growth_interval.unwrap_or(0)],
        groups: [1, 1],
    });
}
