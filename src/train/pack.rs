//! A batch and the step's scalars as the words of one upload.

use crate::data::{Batch, Segments};
use crate::gpu::Tensor;
use crate::model::{Inputs, StepWord};
use crate::ops::RowsById;

/// What changes from step to step besides the batch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepScalars {
    /// Number of the step, from 0.
    pub step: u64,
    /// Record of the metrics ring to write.
    pub ring_slot: u32,
    /// Decides every dropout mask of the step.
    pub dropout_key: u64,
    /// The optimizer's [`step_words`](crate::optimizer::OptimizerOptions::step_words).
    pub rates: [f32; 4],
}

/// Which part of a step's batch a smaller one is, and what the whole comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Number of the part, from 0, of all equal parts: it has the dropout masks that its rows have in the whole.
    pub part: usize,
    /// Is it added to one that the device did before, in the same step?
    pub adds: bool,
    /// Σ weights of the whole batch's predictions.
    pub weight: f64,
    /// Its sequences.
    pub sequences: usize,
}

impl Share {
    /// The first of such parts.
    pub fn first_of(parts: &[Batch]) -> Self {
        let weights = parts.iter().flat_map(|batch| &batch.mlm_weights);
        Self {
            part: 0,
            adds: false,
            weight: weights.map(|weight| f64::from(*weight)).sum(),
            sequences: parts.iter().map(|batch| batch.batch_size).sum(),
        }
    }
}

/// The key of a step's dropout masks: `seed` and `step` mixed so that neighbours have nothing in common
/// (the finalizer of SplitMix64, applied to one and then to both).
pub fn dropout_key(seed: u64, step: u64) -> u64 {
    fn mix(mut x: u64) -> u64 {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    mix(mix(seed) ^ step)
}

/// The words to upload into [`Inputs::all`].
///
/// # Panics
/// When the batch has another shape than the plan: a mistake in the caller.
pub fn pack(inputs: &Inputs, batch: &Batch, share: &Share, scalars: &StepScalars) -> Vec<u32> {
    let mut words = vec![0; inputs.all.len()];
    let mut put = |tensor: Tensor, values: &[u32], exact: bool| {
        assert!(
            if exact { values.len() == tensor.len() } else { values.len() <= tensor.len() },
            "batch shape"
        );
        words[tensor.first_word()..][..values.len()].copy_from_slice(values);
    };
    let weights: Vec<u32> = batch.mlm_weights.iter().map(|weight| weight.to_bits()).collect();
    put(inputs.input_ids, &batch.input_ids, true);
    put(inputs.token_type_ids, &batch.token_type_ids, true);
    put(inputs.attention_mask, &batch.attention_mask, true);
    put(inputs.mlm_rows, &batch.mlm_rows, true);
    put(inputs.mlm_ids, &batch.mlm_ids, true);
    put(inputs.mlm_weights, &weights, true);
    put(inputs.nsp_labels, &batch.nsp_labels, true);
    put(inputs.nsp_weights, &vec![1_f32.to_bits(); batch.batch_size], true);
    let segments = [&batch.word_segments, &batch.position_segments, &batch.type_segments];
    for (RowsById { rows, segment_offsets, unique_ids, unique_offsets, .. }, segments) in
        inputs.rows_by_id.into_iter().zip(segments)
    {
        put(rows, &segments.rows, false);
        put(segment_offsets, &segments.segment_offsets, false);
        put(unique_ids, &segments.unique_ids, false);
        put(unique_offsets, &segments.unique_offsets, false);
    }
    let (offsets, slots) = inputs.predictions_by_row;
    put(offsets, &batch.prediction_offsets, true);
    put(slots, &batch.prediction_slots, false);
    put(inputs.scalars, &scalar_words(share, segments, scalars), false);
    words
}

fn scalar_words(share: &Share, segments: [&Segments; 3], scalars: &StepScalars) -> Vec<u32> {
    let Share { part, adds, weight, sequences } = *share;
    let mlm_scale = if weight > 0.0 { 1.0 / weight } else { 0.0 };
    let mut words = vec![0; StepWord::COUNT];
    let mut set = |word: StepWord, value: u32| words[word as usize] = value;
    set(StepWord::DropoutKeyLow, scalars.dropout_key as u32);
    set(StepWord::DropoutKeyHigh, (scalars.dropout_key >> 32) as u32);
    set(StepWord::RingSlot, scalars.ring_slot);
    set(StepWord::Step, scalars.step as u32);
    set(StepWord::Part, part as u32);
    set(StepWord::Adds, adds.into());
    set(StepWord::MlmScale, (mlm_scale as f32).to_bits());
    set(StepWord::MlmHitScale, ((1.0 / (weight + 1e-5)) as f32).to_bits());
    set(StepWord::NspScale, (1.0 / sequences as f32).to_bits());
    let rates =
        [StepWord::LearningRate, StepWord::AdamRate, StepWord::FirstCorrection, StepWord::SecondCorrection];
    for (word, rate) in rates.into_iter().zip(scalars.rates) {
        set(word, rate.to_bits());
    }
    let counts = [
        (StepWord::WordSegments, StepWord::WordIds),
        (StepWord::PositionSegments, StepWord::PositionIds),
        (StepWord::TypeSegments, StepWord::TypeIds),
    ];
    for ((segment_word, id_word), segments) in counts.into_iter().zip(segments) {
        set(segment_word, segments.segment_count() as u32);
        set(id_word, segments.unique_count() as u32);
    }
    words
}
