//! The gradients' norm and the update of every variable, appended to a plan.

use super::{OptimizerKind, OptimizerOptions};
use crate::gpu::{Plan, Tensor};
use crate::ops::{
    AdamConstants, AdamInputs, NORM_WORDS, Scalar, Segments, adamw, global_norm, guard, lamb, scale_loss,
    settle_loss_scale,
};

pub use crate::ops::{Culprit, Guarded, LossScaling, RATES_KEPT, Slab, Unscaled};

/// Words of a variable that one workgroup updates.
const CHUNK: usize = 4096;

/// A parameter of the model: a contiguous range of one slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Which slab.
    pub slab: usize,
    /// Its first word, a multiple of 4.
    pub offset: usize,
    /// Number of words.
    pub len: usize,
    /// Does it decay? If not, LAMB does not adapt its step length either.
    pub decay: bool,
}

/// Does the variable of this Hugging Face name decay? Biases and layer norms do not.
pub fn decays(name: &str) -> bool {
    !["LayerNorm", "layer_norm", "bias"].iter().any(|excluded| name.contains(excluded))
}

/// Append the scaling of a step's loss, which belongs before it, where the options ask for that.
///
/// # Panics
/// When the words lie in different tensors: a mistake in the caller.
pub fn plan_loss_scale(
    plan: &mut Plan,
    options: &OptimizerOptions,
    unscaled: Unscaled,
) -> Option<LossScaling> {
    options.loss_scale.map(|scale| scale_loss(plan, scale.initial(), unscaled))
}

/// What an update tells of the gradients.
#[derive(Debug, Clone, Copy)]
pub struct Norm {
    /// `[NORM_WORDS]`: the global norm before clipping, the factor all gradients were multiplied with, and whether and
    /// why the update was left out, and the next loss scale. Kept until the next step writes it.
    pub tensor: Tensor,
    /// Is the first update that is left out followed by no other?
    pub halts: bool,
}

/// Append the global norm of the gradients and the update of all variables; LAMB's leaves no gradients behind.
/// Words that belong to no variable are never written. Where a loss or a gradient is not finite, nothing is updated: in
/// that step only, or from then on, as [`OptimizerOptions::halts`] says.
///
/// `step` is the first of the four words the host uploads before every step, the
/// [`step_words`](OptimizerOptions::step_words); where the loss is `scaled`, its [`rates`](LossScaling::rates).
///
/// # Panics
/// When the loss is scaled against the options, there are no variables, one is not inside its slab or starts at no multiple of 4 words, or a slab's
/// tensors are not of one length that is a multiple of 4: mistakes in the caller.
pub fn plan_update(
    plan: &mut Plan,
    options: &OptimizerOptions,
    slabs: &[Slab],
    variables: &[Variable],
    step: Scalar,
    guarded: Guarded,
    scaled: Option<&LossScaling>,
) -> Norm {
    assert_eq!(scaled.is_some(), options.loss_scale.is_some(), "is the loss scaled?");
    for slab in slabs {
        let lens =
            [slab.parameters, slab.gradients, slab.first_moments, slab.second_moments].map(|t| t.len());
        assert!(lens.iter().all(|len| *len == lens[0] && len.is_multiple_of(4)), "bad slab {slab:?}");
    }
    for variable in variables {
        let fits = variable.offset + variable.len <= slabs[variable.slab].parameters.len();
        assert!(fits && variable.offset.is_multiple_of(4), "bad variable {variable:?}");
    }
    let Chunks { table, slab_rows, variable_rows } = Chunks::new(slabs.len(), variables);
    let table = plan.constant("optimizer chunks", table.into_flattened());
    let slabs: Vec<(Slab, Segments)> = slabs
        .iter()
        .zip(slab_rows)
        .filter(|(_, (_, count))| *count > 0)
        .map(|(slab, (first, count))| (*slab, Segments { table, first, count }))
        .collect();

    let norm = plan.persistent("gradient norm", NORM_WORDS);
    let gradients: Vec<_> = slabs.iter().map(|(slab, chunks)| (slab.gradients, *chunks)).collect();
    let clip_norm = options.clip_norm.map(|norm| norm as f32);
    // Scaled gradients are clipped when it is known what they are without the scale.
    let partials = global_norm(plan, &gradients, clip_norm.filter(|_| scaled.is_none()), norm);
    let halts = options.halts();
    guard(plan, guarded, halts, Segments::all(table), partials, norm);
    if let (Some(scaled), Some(scale)) = (scaled, options.loss_scale) {
        settle_loss_scale(plan, scaled, clip_norm, scale.growth_interval(), norm);
    }

    let OptimizerOptions { beta_1, beta_2, epsilon, weight_decay, .. } = *options;
    let constants = AdamConstants { beta_1, beta_2, epsilon, weight_decay };
    let inputs = AdamInputs { step, norm, constants };
    match options.kind {
        OptimizerKind::AdamW => {
            for (slab, chunks) in &slabs {
                adamw(plan, slab, *chunks, &inputs);
            }
        }
        OptimizerKind::Lamb => lamb(plan, &slabs, &variable_rows, &inputs),
    }
    Norm { tensor: norm, halts }
}

/// The variables cut into pieces, slab by slab.
#[derive(Debug, PartialEq, Eq)]
struct Chunks {
    /// Start in the slab, length, variable, 1 where it decays.
    table: Vec<[u32; 4]>,
    /// For each slab its first row of the table and how many it has.
    slab_rows: Vec<(usize, usize)>,
    /// For each variable its first row of the table, how many it has, the variable, 1 where it decays.
    variable_rows: Vec<[u32; 4]>,
}

impl Chunks {
    fn new(slabs: usize, variables: &[Variable]) -> Self {
        let mut table = Vec::new();
        let mut slab_rows = Vec::new();
        let mut variable_rows = vec![[0; 4]; variables.len()];
        for slab in 0..slabs {
            let slab_first = table.len();
            for (index, variable) in variables.iter().enumerate().filter(|(_, v)| v.slab == slab) {
                let first = table.len();
                let tail = [index as u32, variable.decay.into()];
                for start in (0..variable.len).step_by(CHUNK) {
                    let len = CHUNK.min(variable.len - start);
                    table.push([(variable.offset + start) as u32, len as u32, tail[0], tail[1]]);
                }
                variable_rows[index] = [first as u32, (table.len() - first) as u32, tail[0], tail[1]];
            }
            slab_rows.push((slab_first, table.len() - slab_first));
        }
        Self { table, slab_rows, variable_rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_and_layer_norms_do_not_decay() {
        let decayed = [
            "bert.embeddings.word_embeddings.weight",
            "bert.embeddings.position_embeddings.weight",
            "bert.embeddings.token_type_embeddings.weight",
            "bert.encoder.layer.0.attention.self.query.weight",
            "bert.encoder.layer.0.attention.output.dense.weight",
            "bert.pooler.dense.weight",
            "cls.predictions.transform.dense.weight",
            "cls.seq_relationship.weight",
        ];
        let excluded = [
            "bert.embeddings.LayerNorm.weight",
            "bert.embeddings.LayerNorm.bias",
            "bert.encoder.layer.0.attention.self.query.bias",
            "bert.encoder.layer.0.output.LayerNorm.weight",
            "cls.predictions.bias",
            "cls.predictions.transform.LayerNorm.weight",
            "cls.seq_relationship.bias",
        ];
        assert!(decayed.into_iter().all(decays));
        assert!(!excluded.into_iter().any(decays));
    }

    #[test]
    fn chunks_lie_slab_by_slab_and_never_cross_variables() {
        let variable = |slab, offset, len, decay| Variable { slab, offset, len, decay };
        let variables =
            [variable(1, 0, 4097, true), variable(0, 64, 3, false), variable(1, 4160, 8192, true)];
        let chunks = Chunks::new(3, &variables);
        let table =
            vec![[64, 3, 1, 0], [0, 4096, 0, 1], [4096, 1, 0, 1], [4160, 4096, 2, 1], [8256, 4096, 2, 1]];
        let variable_rows = vec![[1, 2, 0, 1], [0, 1, 1, 0], [3, 2, 2, 1]];
        assert_eq!(chunks, Chunks { table, slab_rows: vec![(0, 1), (1, 4), (5, 0)], variable_rows });
    }
}
