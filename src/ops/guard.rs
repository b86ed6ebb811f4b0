//! Whether a step is fit to be applied: are its losses and gradients finite?

use super::{Scalar, Segments, WORKGROUP, require};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "guard", source: include_str!("../../shaders/guard.wgsl") };

/// Words of the tensor that holds the gradients' norm: the norm, the factor that clips it, 1 where the update is left
/// out, why as a [`Culprit`]'s word, the step that this is said of, and the loss scale of the next step, 0 without one.
pub const NORM_WORDS: usize = 6;

/// What the guard looks at, besides the gradients.
#[derive(Debug, Clone, Copy)]
pub struct Guarded {
    /// Losses of the masked-LM rows.
    pub mlm_loss: Tensor,
    /// Losses of the next-sentence rows, with that task.
    pub nsp_loss: Option<Tensor>,
    /// u32, the step's number.
    pub step: Scalar,
}

/// The first number of a step, in the order in which they are computed, that is not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Culprit {
    /// The masked-LM loss.
    MlmLoss,
    /// The next-sentence loss.
    NspLoss,
    /// The gradient of the variable of this number, or its square.
    Gradient(usize),
    /// The norm of all gradients, each of which is finite.
    Norm,
}

impl Culprit {
    /// What the device said; `None` when all is well.
    pub fn from_word(word: u32) -> Option<Self> {
        match word {
            0 => None,
            1 => Some(Self::Norm),
            0xffff_fffe => Some(Self::NspLoss),
            0xffff_ffff => Some(Self::MlmLoss),
            word => Some(Self::Gradient(word as usize - 2)),
        }
    }
}

/// Append the verdict on a step, in `norm`; one to leave the update out stands for all later steps if it `halts`.
///
/// `partials`, `[rows of chunks, 64]`, are sums of squares of gradients; the third word of a row of `chunks` is its
/// variable.
pub fn guard(
    plan: &mut Plan,
    guarded: Guarded,
    halts: bool,
    chunks: Segments,
    partials: Tensor,
    norm: Tensor,
) {
    let Guarded { mlm_loss, nsp_loss, step } = guarded;
    require("norm", norm, NORM_WORDS);
    require("partials", partials, chunks.count * WORKGROUP);
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "judge", constants: vec![], types: vec![] },
        bindings: vec![
            (1, chunks.table),
            (2, partials),
            (3, mlm_loss),
            // Without next sentence rows something must still be bound in their place; none of it is read.
            (4, nsp_loss.unwrap_or(mlm_loss)),
            (5, step.tensor),
            (6, norm),
        ],
        params: vec![
            chunks.count as u32,
            mlm_loss.len() as u32,
            nsp_loss.map_or(0, |loss| loss.len() as u32),
            step.word,
            halts.into(),
        ],
        groups: [1, 1],
    });
}
