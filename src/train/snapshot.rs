//! The state of a run between two steps.

use std::time::Duration;

use super::run::{initial_tensors, merge};
use super::{PretrainOptions, TrainError, Trainer};
use crate::checkpoint::{CheckpointError, NamedTensor, TensorFile, safetensors};

/// Before the names of moments in a file.
const MOMENTS: [&str; 2] = ["first_moments.", "second_moments."];

/// Weights and moments after some steps. With the run's options and data, which it does not hold, everything a run
/// needs to go on: the order of the data, dropout and the learning rate follow from the step's number.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Steps done.
    pub step: u64,
    /// The time they took, pauses left out.
    pub elapsed: Duration,
    /// Was the evaluation made that is due after this step? It is not asked where there is none.
    pub evaluated: bool,
    /// All weights of the model, by Hugging Face's names; what the run does not train is as it started.
    pub weights: Vec<NamedTensor>,
    /// The optimizer's first moments, by the same names.
    pub first_moments: Vec<NamedTensor>,
    /// Its second moments.
    pub second_moments: Vec<NamedTensor>,
}

impl Snapshot {
    /// Where a run starts that takes weights from elsewhere: no step done, no moments yet. What `weights` lacks of the
    /// model is as the run's seed makes it.
    pub fn start_from(options: &PretrainOptions, weights: Vec<NamedTensor>) -> Self {
        let weights = merge(initial_tensors(options), weights);
        let zeros = |tensor: &NamedTensor| NamedTensor {
            name: tensor.name.clone(),
            shape: tensor.shape.clone(),
            data: vec![0.0; tensor.data.len()],
        };
        let [first_moments, second_moments] = [(); 2].map(|()| weights.iter().map(zeros).collect());
        Self { step: 0, elapsed: Duration::ZERO, evaluated: false, weights, first_moments, second_moments }
    }

    /// The state of a trainer after the steps submitted to it, with the weights that it trains.
    pub(super) async fn take(trainer: &Trainer, step: u64) -> Result<Self, TrainError> {
        let plan = trainer.step();
        let mut moments = [Vec::new(), Vec::new()];
        for (read, arena) in moments.iter_mut().zip(plan.moments.iter().flatten()) {
            *read = trainer.read_arena(arena).await?;
        }
        let weights = trainer.read_arena(&plan.weights).await?;
        let [first_moments, second_moments] = moments;
        Ok(Self { step, elapsed: Duration::ZERO, evaluated: false, weights, first_moments, second_moments })
    }

    /// Write the state to a trainer of the same model; the result is the number of steps done.
    pub(super) fn restore(&self, trainer: &Trainer) -> Result<u64, TrainError> {
        let plan = trainer.step();
        let all = [&self.weights, &self.first_moments, &self.second_moments];
        for tensors in all {
            trainer.check_fit(tensors)?;
        }
        trainer.write_weights(&self.weights);
        for (arena, tensors) in plan.moments.iter().flatten().zip([&self.first_moments, &self.second_moments])
        {
            trainer.write_arena(arena, tensors);
        }
        Ok(self.step)
    }

    /// The state as a safetensors file: weights by their names, moments by theirs behind `first_moments.` and
    /// `second_moments.`. The step, the time and whether it
    /// was evaluated are not in it.
    ///
    /// # Errors
    /// [`CheckpointError::Unstorable`], for tensors that no run made.
    pub fn into_safetensors(self) -> Result<Vec<u8>, CheckpointError> {
        let mut tensors = self.weights;
        for (prefix, moments) in MOMENTS.into_iter().zip([self.first_moments, self.second_moments]) {
            tensors
                .extend(moments.into_iter().map(|m| NamedTensor { name: prefix.to_owned() + &m.name, ..m }));
        }
        safetensors::write(&tensors)
    }

    /// Reads what [`Snapshot::into_safetensors`] wrote after `step` steps, which took `elapsed`; `source_name` is for
    /// messages.
    ///
    /// # Errors
    /// [`CheckpointError::NotSafetensors`] or [`CheckpointError::TensorType`].
    pub fn from_safetensors(
        step: u64,
        elapsed: Duration,
        bytes: &[u8],
        source_name: &str,
    ) -> Result<Self, CheckpointError> {
        let file = TensorFile::parse(bytes, source_name)?;
        let mut snapshot = Self {
            step,
            elapsed,
            evaluated: false,
            weights: vec![],
            first_moments: vec![],
            second_moments: vec![],
        };
        for name in file.names() {
            let [first, second] = MOMENTS.map(|prefix| name.strip_prefix(prefix));
            let (list, short) = match (first, second) {
                (Some(short), _) => (&mut snapshot.first_moments, short),
                (_, Some(short)) => (&mut snapshot.second_moments, short),
                (None, None) => (&mut snapshot.weights, name),
            };
            list.push(NamedTensor { name: short.to_owned(), ..file.f32(name)? });
        }
        Ok(snapshot)
    }

    /// All parameters of the model as it is: what the run does not train is as it started.
    pub fn into_model(self, options: &PretrainOptions) -> Vec<NamedTensor> {
        merge(initial_tensors(options), self.weights)
    }

    /// Are all weights numbers? After divergence they are not.
    pub fn is_finite(&self) -> bool {
        self.weights.iter().flat_map(|tensor| &tensor.data).all(|weight| weight.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_the_whole_state() {
        let tensor =
            |name: &str, value| NamedTensor { name: name.into(), shape: vec![2], data: vec![value, 1.0] };
        let snapshot = Snapshot {
            step: 7,
            elapsed: Duration::from_secs(9),
            evaluated: false,
            weights: vec![tensor("a", 1.0), tensor("b", 2.0)],
            first_moments: vec![tensor("a", 3.0), tensor("b", 4.0)],
            second_moments: vec![tensor("a", 5.0), tensor("b", 6.0)],
        };
        assert!(snapshot.is_finite());
        let bytes = snapshot.clone().into_safetensors().unwrap();
        assert_eq!(Snapshot::from_safetensors(7, snapshot.elapsed, &bytes, "state").unwrap(), snapshot);
        assert!(Snapshot::from_safetensors(7, snapshot.elapsed, &bytes[..bytes.len() - 1], "state").is_err());
        assert!(!Snapshot { weights: vec![tensor("a", f32::NAN)], ..snapshot }.is_finite());
    }
}
