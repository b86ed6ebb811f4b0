//! The sum of what the replicas computed, on the host.

use super::gradients::{AllReduceCallbacks, GradientMap, call};
use super::{Distribution, SeedCompat, Share, TrainError, Trainer};
use crate::data::Batch;
use crate::gpu::Tensor;
use crate::strategy::{Algorithm, Team, sum};

/// Gradients, losses and hits of all replicas, and how they are summed.
pub(super) struct Reduction {
    /// For each tensor that is summed, what every replica has of it; afterwards the first one's is the sum.
    pub tensors: Vec<Vec<Vec<f32>>>,
    map: GradientMap,
    algorithm: Algorithm,
    /// With the norm to which gradients are clipped before they are summed.
    compat: Option<(SeedCompat, Option<f64>)>,
}

impl Reduction {
    /// Over so many replicas like `first`, of each of which `tensors` are summed.
    pub fn new(
        first: &Trainer,
        replicas: usize,
        tensors: &[Tensor],
        distribution: &Distribution,
        clip_norm: Option<f64>,
    ) -> Self {
        Self {
            tensors: tensors.iter().map(|tensor| vec![vec![0.0; tensor.len()]; replicas]).collect(),
            map: GradientMap::new(first, tensors),
            algorithm: distribution.all_reduce.algorithm,
            compat: distribution.compat.map(|compat| (compat, clip_norm)),
        }
    }

    /// For each replica what the loss of its parts of a batch is normalised by.
    pub fn shares(&self, parts: &[Batch], whole: &Share, replicas: usize) -> Vec<Share> {
        match self.compat {
            Some(_) => parts.chunks(parts.len() / replicas).map(Share::first_of).collect(),
            None => vec![*whole; replicas],
        }
    }

    /// Sums everything up, by way of the callbacks, over the ranks too. What callbacks see is without the `loss_scale`, by
    /// which the gradients are multiplied.
    ///
    /// # Errors
    /// [`TrainError::Callback`].
    pub fn sum(
        &mut self,
        shares: &[Share],
        loss_scale: f32,
        team: Option<&Team>,
        callbacks: &mut AllReduceCallbacks<'_>,
    ) -> Result<(), TrainError> {
        let Self { tensors, map, algorithm, compat } = self;
        let replicas = shares.len() * team.map_or(1, Team::count);
        if compat.is_some() || !callbacks.pre.is_empty() {
            for replica in 0..shares.len() {
                map.pass(tensors, replica, loss_scale, |gradients| {
                    if let Some((compat, clip_norm)) = compat {
                        compat.before_sum(gradients, replicas, *clip_norm);
                    }
                    call(&mut callbacks.pre, "pre_allreduce_callbacks", gradients)
                })?;
            }
        }
        if compat.is_some() {
            // What is told is the mean of the replicas' means. The device divides by the weight of the first one.
            let all = replicas as f64;
            for (replica, Share { weight, .. }) in shares.iter().enumerate() {
                map.scale_rows(tensors, replica, [1.0 / (weight.max(1e-9) * all), 1.0 / all]);
            }
        }
        for tensor in tensors.iter_mut() {
            sum(tensor, *algorithm);
            if let Some(team) = team {
                team.sum(&mut tensor[0], *algorithm);
            }
        }
        if compat.is_some() {
            map.scale_rows(tensors, 0, [shares[0].weight, 1.0]);
        }
        if !callbacks.post.is_empty() {
            map.pass(tensors, 0, loss_scale, |sums| {
                call(&mut callbacks.post, "post_allreduce_callbacks", sums)
            })?;
        }
        Ok(())
    }
}
