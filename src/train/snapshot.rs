//! The state of a run between two steps.

use std::time::Duration;

use super::run::{initial_tensors, merge};
use super::{PretrainOptions, TrainError, Trainer};
use crate::checkpoint::{CheckpointError, NamedTensor, TensorFile, safetensors};
use crate::optimizer::{LossScaleState, RATES_KEPT};

/// Before the names of moments in a file.
const MOMENTS: [&str; 2] = ["first_moments.", "second_moments."];
/// The name in a file of a tensor of four numbers, those of a [`LossScaleState`].
pub(super) const LOSS_SCALE: &str = "loss_scale";

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
    /// What the loss is scaled with, where it is.
    pub loss_scale: Option<LossScaleState>,
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
        Self {
            step: 0,
            elapsed: Duration::ZERO,
            evaluated: false,
            weights,
            first_moments,
            second_moments,
            loss_scale: None,
        }
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
        let loss_scale = match plan.loss_scaling {
            Some(scaling) => Some(LossScaleState::from_words(trainer.read_words(scaling.state).await?)),
            None => None,
        };
        Ok(Self {
            step,
            elapsed: Duration::ZERO,
            evaluated: false,
            weights,
            first_moments,
            second_moments,
            loss_scale,
        })
    }

    /// Write the state to a trainer of the same model in a run with these options; the result is the number of steps done.
    pub(super) fn restore(&self, trainer: &Trainer, options: &PretrainOptions) -> Result<u64, TrainError> {
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
        if let (Some(scale), Some(scaling)) = (options.optimizer.loss_scale, plan.loss_scaling) {
            let state = scale.go_on_from(self.loss_scale);
            let write = |tensor, words: &[u32]| trainer.gpu().write(&trainer.program().range(tensor), words);
            write(scaling.state, &state.to_words());
            // The rates of the updates to come, of which every skipped one left its own to the next.
            let mut history = vec![[0; 4]; RATES_KEPT];
            for step in self.step.saturating_sub(state.skipped.into())..self.step {
                let rates = options.optimizer.step_words(&options.schedule, step);
                history[step as usize % RATES_KEPT] = rates.map(f32::to_bits);
            }
            write(scaling.history, history.as_flattened());
        }
        Ok(self.step)
    }

    /// The state as a safetensors file: weights by their names, moments by theirs behind `first_moments.` and
    /// `second_moments.`, and as `loss_scale` the scale, good steps, steps skipped in a row and in all. The step, the time
    /// and whether it was evaluated are not in it.
    ///
    /// # Errors
    /// [`CheckpointError::Unstorable`], for tensors that no run made.
    pub fn into_safetensors(self) -> Result<Vec<u8>, CheckpointError> {
        let mut tensors = self.weights;
        for (prefix, moments) in MOMENTS.into_iter().zip([self.first_moments, self.second_moments]) {
            tensors
                .extend(moments.into_iter().map(|m| NamedTensor { name: prefix.to_owned() + &m.name, ..m }));
        }
        if let Some(state) = self.loss_scale {
            let counts = [state.good_steps, state.skipped_in_a_row, state.skipped].map(|count| count as f32);
            let data = [&[state.scale], &counts[..]].concat();
            tensors.push(NamedTensor { name: LOSS_SCALE.into(), shape: vec![data.len()], data });
        }
        safetensors::write(&tensors)
    }

    /// Reads what [`Snapshot::into_safetensors`] wrote after `step` steps, which took `elapsed`; `source_name` is for
    /// messages.
    ///
    /// # Errors
    /// [`CheckpointError::NotSafetensors`], [`CheckpointError::TensorType`], or [`CheckpointError::UnusableCheckpoint`] where
    /// the loss scale is none.
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
            loss_scale: None,
        };
        for name in file.names() {
            if name == LOSS_SCALE {
                snapshot.loss_scale = Some(loss_scale(&file.f32(name)?.data, step, source_name)?);
                continue;
            }
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

fn loss_scale(data: &[f32], steps: u64, source_name: &str) -> Result<LossScaleState, CheckpointError> {
    let is_count = |count: &f32| (0.0..=steps as f32).contains(count) && count.fract() == 0.0;
    match data {
        [scale, counts @ ..] if counts.len() == 3 && scale.is_normal() && *scale > 0.0 => {
            counts.iter().all(is_count).then(|| LossScaleState {
                scale: *scale,
                good_steps: counts[0] as u32,
                skipped_in_a_row: counts[1] as u32,
                skipped: counts[2] as u32,
            })
        }
        _ => None,
    }
    .ok_or_else(|| CheckpointError::UnusableCheckpoint {
        folder: source_name.into(),
        problem: format!("its loss scale and three counts of steps are {data:?}"),
    })
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
            loss_scale: Some(LossScaleState {
                scale: 4096.0,
                good_steps: 4,
                skipped_in_a_row: 0,
                skipped: 3,
            }),
        };
        assert!(snapshot.is_finite());
        let bytes = snapshot.clone().into_safetensors().unwrap();
        assert_eq!(Snapshot::from_safetensors(7, snapshot.elapsed, &bytes, "state").unwrap(), snapshot);
        assert!(Snapshot::from_safetensors(7, snapshot.elapsed, &bytes[..bytes.len() - 1], "state").is_err());
        let without = Snapshot { loss_scale: None, ..snapshot.clone() };
        let bytes = without.clone().into_safetensors().unwrap();
        assert_eq!(Snapshot::from_safetensors(7, without.elapsed, &bytes, "state").unwrap(), without);
        assert!(!Snapshot { weights: vec![tensor("a", f32::NAN)], ..snapshot }.is_finite());
    }

    #[test]
    fn a_loss_scale_that_is_none_is_refused() {
        for data in [
            &[0.0, 0.0, 0.0, 0.0][..],
            &[f32::NAN, 0.0, 0.0, 0.0],
            &[f32::INFINITY, 0.0, 0.0, 0.0],
            &[-2.0, 0.0, 0.0, 0.0],
            &[2.0, 0.5, 0.0, 0.0],
            &[2.0, 0.0, 0.0, -1.0],
            &[2.0, 0.0, 0.0, 8.0],
            &[2.0, 0.0, f32::NAN, 0.0],
            &[2.0, 0.0, 0.0],
            &[],
        ] {
            let shape = vec![data.len()];
            let tensor = NamedTensor { name: LOSS_SCALE.into(), shape, data: data.to_vec() };
            let bytes = safetensors::write(&[tensor]).unwrap();
            let error = Snapshot::from_safetensors(7, Duration::ZERO, &bytes, "state").unwrap_err();
            assert!(error.to_string().contains("state cannot be used: its loss scale"), "{error}");
        }
    }
}
