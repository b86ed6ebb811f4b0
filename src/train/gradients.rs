//! Gradients on the host, by parameter, and what is done to them there before and after they are summed.

use std::error::Error;

use super::{SeedCompat, TrainError, Trainer};
use crate::checkpoint::NamedTensor;
use crate::gpu::Tensor;

/// A function over the gradients of all parameters, by their names and in their shapes, which it may change in place. Its
/// error ends the run as [`TrainError::Callback`].
pub type AllReduceCallback<'a> =
    Box<dyn FnMut(&mut [NamedTensor]) -> Result<(), Box<dyn Error + Send + Sync>> + 'a>;

/// What gradients pass in an explicit all-reduce.
#[derive(Default)]
pub(super) struct AllReduceCallbacks<'a> {
    /// Called in their order on the gradients of every replica.
    pub pre: Vec<AllReduceCallback<'a>>,
    /// Called in their order on the sums.
    pub post: Vec<AllReduceCallback<'a>>,
}

impl AllReduceCallbacks<'_> {
    pub fn is_empty(&self) -> bool {
        self.pre.is_empty() && self.post.is_empty()
    }
}

/// Scales gradients down to a global norm `‖g‖ = √Σg²` of `clip_norm` where theirs is larger, all by the same factor, as
/// the reference's callback does before the sum. Those whose norm is not finite stay as they are: the step is left out.
pub fn clip_by_global_norm(gradients: &mut [NamedTensor], clip_norm: f64) {
    let squares = gradients.iter().flat_map(|tensor| &tensor.data).map(|g| f64::from(*g) * f64::from(*g));
    let norm = squares.sum::<f64>().sqrt();
    if norm.is_finite() && norm > clip_norm {
        let scale = (clip_norm / norm) as f32;
        gradients.iter_mut().flat_map(|tensor| &mut tensor.data).for_each(|g| *g *= scale);
    }
}

/// Where the gradients of all parameters lie in the tensors that leave a device.
pub(super) struct GradientMap {
    parameters: Vec<Pieces>,
    /// The tensors that hold losses and hits of predictions, and those of sequences.
    rows: [Vec<usize>; 2],
}

/// A parameter, and for each piece of its gradient the tensor and the words of it.
struct Pieces {
    name: String,
    shape: Vec<usize>,
    pieces: Vec<(usize, std::ops::Range<usize>)>,
}

impl GradientMap {
    /// In `tensors` of a trainer whose step is done in parts.
    pub fn new(trainer: &Trainer, tensors: &[Tensor]) -> Self {
        let (step, no_slabs) = (trainer.step(), Vec::new());
        let slabs = step.parts.as_ref().map_or(&no_slabs, |parts| &parts.gradients.slabs);
        let place = |tensor: &Tensor| {
            slabs.iter().enumerate().find_map(|(i, slab)| Some((i, tensor.start_in(slab)?)))
        };
        let places: Vec<_> = tensors.iter().map(place).collect();
        let pieces = |slab: usize, start: usize, end: usize| {
            let mut pieces = Vec::new();
            for (index, (tensor, place)) in tensors.iter().zip(&places).enumerate() {
                let Some((_, at)) = place.filter(|(of, _)| *of == slab) else { continue };
                let (first, last) = (start.max(at), end.min(at + tensor.len()));
                if first < last {
                    pieces.push((first, (index, first - at..last - at)));
                }
            }
            pieces.sort_by_key(|(first, _)| *first);
            pieces.into_iter().map(|(_, piece)| piece).collect()
        };
        let parameters = step.table.parameters.iter().map(|p| Pieces {
            name: p.name.clone(),
            shape: p.shape.clone(),
            pieces: pieces(p.slab, p.offset, p.offset + p.len()),
        });
        let rows = step.parts.as_ref().map_or(&[][..], |parts| &parts.stages[0].sums);
        let rows_of = |sums: &[Tensor]| {
            let holds = |tensor: &Tensor| sums.iter().any(|sum| tensor.start_in(sum).is_some());
            tensors.iter().enumerate().filter(|(_, tensor)| holds(tensor)).map(|(index, _)| index).collect()
        };
        let (predictions, sequences) = rows.split_at(rows.len().min(2));
        Self { parameters: parameters.collect(), rows: [predictions, sequences].map(rows_of) }
    }

    /// Passes the gradients of a replica, which are those of its loss times `loss_scale`, through a function that sees them
    /// unscaled; `tensors` are for each tensor what every replica has of it.
    pub fn pass(
        &self,
        tensors: &mut [Vec<Vec<f32>>],
        replica: usize,
        loss_scale: f32,
        through: impl FnOnce(&mut [NamedTensor]) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let gradient = |Pieces { name, shape, pieces }: &Pieces| {
            let data = pieces.iter().flat_map(|(tensor, words)| &tensors[*tensor][replica][words.clone()]);
            NamedTensor {
                name: name.clone(),
                shape: shape.clone(),
                data: data.map(|g| g / loss_scale).collect(),
            }
        };
        let mut gradients: Vec<_> = self.parameters.iter().map(gradient).collect();
        through(&mut gradients)?;
        for (Pieces { pieces, .. }, gradient) in self.parameters.iter().zip(&gradients) {
            let mut rest = &gradient.data[..];
            for (tensor, words) in pieces {
                let (piece, behind) = rest.split_at(words.len());
                let scaled = tensors[*tensor][replica][words.clone()].iter_mut();
                scaled.zip(piece).for_each(|(scaled, g)| *scaled = g * loss_scale);
                rest = behind;
            }
        }
        Ok(())
    }

    /// Multiplies the losses and hits that a replica has of its predictions, and of its sequences.
    pub fn scale_rows(&self, tensors: &mut [Vec<Vec<f32>>], replica: usize, factors: [f64; 2]) {
        for (rows, factor) in self.rows.iter().zip(factors) {
            for row in rows {
                tensors[*row][replica]
                    .iter_mut()
                    .for_each(|value| *value = (f64::from(*value) * factor) as f32);
            }
        }
    }
}

/// Calls callbacks in their order.
pub(super) fn call(
    callbacks: &mut [AllReduceCallback<'_>],
    point: &'static str,
    gradients: &mut [NamedTensor],
) -> Result<(), TrainError> {
    let words: Vec<_> = gradients.iter().map(|gradient| gradient.data.len()).collect();
    for callback in callbacks {
        let failed = |source| TrainError::Callback { method: point, source };
        callback(gradients).map_err(failed)?;
        if let Some((changed, _)) = gradients.iter().zip(&words).find(|(g, words)| g.data.len() != **words) {
            let source = format!("it left {} another number of elements", changed.name);
            return Err(failed(source.into()));
        }
    }
    Ok(())
}

impl SeedCompat {
    /// What the reference does to the gradients of one of so many replicas before they are summed.
    pub(super) fn before_sum(self, gradients: &mut [NamedTensor], replicas: usize, clip_norm: Option<f64>) {
        if self.scale_loss {
            let replicas = replicas as f32;
            gradients.iter_mut().flat_map(|tensor| &mut tensor.data).for_each(|g| *g /= replicas);
        }
        if let Some(clip_norm) = clip_norm {
            clip_by_global_norm(gradients, clip_norm);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradients(values: [&[f32]; 2]) -> Vec<NamedTensor> {
        let tensor = |(name, data): (&str, &[f32])| NamedTensor {
            name: name.into(),
            shape: vec![data.len()],
            data: data.to_vec(),
        };
        ["a", "b"].into_iter().zip(values).map(tensor).collect()
    }

    #[test]
    fn only_gradients_above_the_norm_are_clipped() {
        let mut long = gradients([&[3.0], &[0.0, 4.0]]);
        clip_by_global_norm(&mut long, 1.0);
        assert_eq!(long, gradients([&[0.6], &[0.0, 0.8]]));
        clip_by_global_norm(&mut long, 1.5);
        assert_eq!(long, gradients([&[0.6], &[0.0, 0.8]]));
        let mut infinite = gradients([&[f32::INFINITY], &[1.0, 2.0]]);
        clip_by_global_norm(&mut infinite, 1.0);
        assert_eq!(infinite, gradients([&[f32::INFINITY], &[1.0, 2.0]]));
    }

    #[test]
    fn the_reference_scales_before_it_clips() {
        for (scale_loss, want) in [(false, [0.6, 0.8]), (true, [0.3, 0.4])] {
            let mut scaled = gradients([&[0.6], &[0.0, 0.8]]);
            SeedCompat { scale_loss }.before_sum(&mut scaled, 2, Some(1.0));
            let [a, b] = want;
            for (got, want) in scaled.iter().flat_map(|tensor| &tensor.data).zip([a, 0.0, b]) {
                assert!((got - want).abs() < 1e-6, "{got}, not {want}");
            }
        }
    }

    #[test]
    fn callbacks_keep_the_number_of_elements() {
        let mut callbacks: [AllReduceCallback<'_>; 1] = [Box::new(|gradients| {
            gradients[1].data.pop();
            Ok(())
        })];
        let error = call(&mut callbacks, "pre_allreduce_callbacks", &mut gradients([&[1.0], &[2.0, 3.0]]));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("pre_allreduce_callbacks") && error.contains("left b another"), "{error}");
    }
}
