//! AdamW over a slab of parameters.

use super::{Scalar, Segments, grid};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "adamw", source: include_str!("../../shaders/adamw.wgsl") };

/// Parameters and what belongs to each of them: four tensors of one layout, a multiple of 4 words long.
#[derive(Debug, Clone, Copy)]
pub struct Slab {
    /// The parameters.
    pub parameters: Tensor,
    /// Their gradients.
    pub gradients: Tensor,
    /// The running means of the gradients.
    pub first_moments: Tensor,
    /// The running means of the gradients' squares.
    pub second_moments: Tensor,
}

/// Numbers of AdamW and of LAMB that do not change from step to step.
#[derive(Debug, Clone, Copy)]
pub struct AdamConstants {
    /// How much of the first moments a step keeps.
    pub beta_1: f64,
    /// How much of the second moments a step keeps.
    pub beta_2: f64,
    /// Added to the root of the second moments.
    pub epsilon: f64,
    /// Share of a weight that decays, times the learning rate.
    pub weight_decay: f64,
}

/// What the kernels of AdamW and of LAMB read besides the slabs.
#[derive(Debug, Clone, Copy)]
pub struct AdamInputs {
    /// The first of the step's four words: learning rate lr, `lr * sqrt(1 - beta_2^t) / (1 - beta_1^t)`,
    /// `1 / (1 - beta_1^t)`, `1 / (1 - beta_2^t)`.
    pub step: Scalar,
    /// `[NORM_WORDS]`, of which the second is the factor of all gradients, and the third not 0 where nothing is to be
    /// updated.
    pub norm: Tensor,
    /// The rest.
    pub constants: AdamConstants,
}

impl AdamInputs {
    /// The first nine words of the shaders' `Params`.
    pub(super) fn params(&self, rows: Segments) -> Vec<u32> {
        let AdamConstants { beta_1, beta_2, epsilon, weight_decay } = self.constants;
        let constants = [beta_1, 1.0 - beta_1, beta_2, 1.0 - beta_2, epsilon, weight_decay];
        let mut params = vec![rows.first as u32, rows.count as u32, self.step.word];
        params.extend(constants.map(|value| (value as f32).to_bits()));
        params
    }
}

/// Append the update of a slab. A row of `chunks` is the start and length of a piece of a variable, the variable
/// (of no use here), and 1 where it decays; pieces start at multiples of 4 words.
pub fn adamw(plan: &mut Plan, slab: &Slab, chunks: Segments, inputs: &AdamInputs) {
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "update", constants: vec![], types: vec![] },
        bindings: vec![
            (1, chunks.table),
            (2, inputs.step.tensor),
            (3, inputs.norm),
            (4, slab.gradients),
            (5, slab.parameters),
            (6, slab.first_moments),
            (7, slab.second_moments),
        ],
        params: inputs.params(chunks),
        groups: grid(chunks.count),
    });
}
