//! What a step reads: the batch and its scalars, laid one after another in one tensor, so that one upload does.

use super::config::BertConfig;
use crate::gpu::{Plan, Tensor};
use crate::ops::{RowsById, Scalar};

/// Sizes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchShape {
    /// B: sequences.
    pub batch_size: usize,
    /// S: tokens of a sequence.
    pub seq_length: usize,
    /// M: predictions of a sequence.
    pub predictions: usize,
}

impl BatchShape {
    /// Token rows, B·S.
    pub fn tokens(&self) -> usize {
        self.batch_size * self.seq_length
    }

    /// Prediction rows, B·M.
    pub fn slots(&self) -> usize {
        self.batch_size * self.predictions
    }

    /// Shapes for batches of which no sequence has more tokens than a quarter, a half or three quarters of S, shortest
    /// first, with as many predictions a token. Lengths are multiples of 32, as whole tiles of matrix products are.
    pub(super) fn shorter(&self) -> Vec<Self> {
        let Self { seq_length, predictions, .. } = *self;
        let mut lengths: Vec<_> =
            (1..4).map(|quarters| (seq_length * quarters).div_ceil(4).next_multiple_of(32)).collect();
        lengths.dedup();
        // Dropout decides over four neighbours at once, which must be the same four.
        lengths.retain(|length| *length < seq_length && seq_length.is_multiple_of(4));
        let shape = |length| Self {
            seq_length: length,
            predictions: (predictions * length).div_ceil(seq_length),
            ..*self
        };
        lengths.into_iter().map(shape).collect()
    }

    /// The same with all M predictions.
    pub(super) fn shorter_with_all_predictions(&self) -> Vec<Self> {
        let shorter = self.shorter().into_iter();
        shorter.map(|shorter| Self { predictions: self.predictions, ..shorter }).collect()
    }
}

/// The host cuts longer groups of rows into several segments, so that no workgroup sums more rows in one go.
pub const MAX_SEGMENT_ROWS: usize = 128;

/// A scalar of a step, by its word in [`Inputs::scalars`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum StepWord {
    /// First word of the dropout key of this step.
    DropoutKeyLow,
    /// Second word of it.
    DropoutKeyHigh,
    /// Record of the metrics ring this step writes.
    RingSlot,
    /// Number of the step, from 0.
    Step,
    /// Which part of the whole batch this is, from 0.
    Part,
    /// 0 for the first part that a device does, 1 for others, which are added to it.
    Adds,
    /// 1 / Σ weights of the predictions of the whole batch, f32; 0 when there are none.
    MlmScale,
    /// 1 / (Σ weights + 1e-5), f32: the reference's denominator of the accuracy.
    MlmHitScale,
    /// 1 / B of the whole batch, f32.
    NspScale,
    /// Learning rate, f32.
    LearningRate,
    /// AdamW's learning rate with bias correction, f32.
    AdamRate,
    /// 1 / (1 - β₁ᵗ), f32.
    FirstCorrection,
    /// 1 / (1 - β₂ᵗ), f32.
    SecondCorrection,
    /// Segments by word.
    WordSegments,
    /// Different words.
    WordIds,
    /// Segments by position.
    PositionSegments,
    /// Different positions.
    PositionIds,
    /// Segments by token type.
    TypeSegments,
    /// Different token types.
    TypeIds,
}

impl StepWord {
    /// Number of words.
    pub const COUNT: usize = Self::TypeIds as usize + 1;
}

/// Where each part of a step's input lies.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// All of it.
    pub all: Tensor,
    /// The scalars, by [`StepWord`].
    pub scalars: Tensor,
    /// Token ids, `[B·S]`.
    pub input_ids: Tensor,
    /// Segment kinds, `[B·S]`.
    pub token_type_ids: Tensor,
    /// 1 for a token, 0 for padding, `[B·S]`.
    pub attention_mask: Tensor,
    /// The token row each prediction reads, `[B·M]`.
    pub mlm_rows: Tensor,
    /// The token that was there, `[B·M]`.
    pub mlm_ids: Tensor,
    /// Weight of each prediction, f32 `[B·M]`.
    pub mlm_weights: Tensor,
    /// 1 = random next, `[B]`.
    pub nsp_labels: Tensor,
    /// Ones, f32 `[B]`.
    pub nsp_weights: Tensor,
    /// Token rows by word, position and token type.
    pub rows_by_id: [RowsById; 3],
    /// Prediction slots by token row: offsets `[B·S + 1]` and slots `[B·M]`.
    pub predictions_by_row: (Tensor, Tensor),
}

impl Inputs {
    /// Lay out the input of a batch in `plan`.
    pub fn new(plan: &mut Plan, shape: BatchShape, config: &BertConfig) -> Self {
        let (tokens, slots) = (shape.tokens(), shape.slots());
        let segment_lengths = [tokens, tokens + 1, tokens, tokens + 1];
        let mut lengths = vec![Tensor::ALIGNMENT_WORDS, tokens, tokens, tokens, slots, slots, slots];
        lengths.extend([shape.batch_size, shape.batch_size]);
        lengths.extend(segment_lengths.repeat(3));
        lengths.extend([tokens + 1, slots]);
        let total = lengths.iter().map(|len| len.next_multiple_of(Tensor::ALIGNMENT_WORDS)).sum();
        let all = plan.persistent("inputs", total);
        let mut start = 0;
        let parts: Vec<_> = lengths
            .iter()
            .map(|len| {
                let part = all.part(start, *len);
                start += len.next_multiple_of(Tensor::ALIGNMENT_WORDS);
                part
            })
            .collect();
        let scalar = |word: StepWord| Scalar { tensor: parts[0], word: word as u32 };
        let segments = |first: usize, segments: StepWord, ids: StepWord, entries: usize| {
            let max_unique = tokens.min(entries);
            RowsById {
                rows: parts[first],
                segment_offsets: parts[first + 1],
                unique_ids: parts[first + 2],
                unique_offsets: parts[first + 3],
                segments: scalar(segments),
                unique: scalar(ids),
                // Every id has one segment that is not full, at most.
                max_segments: tokens.min(max_unique + tokens / MAX_SEGMENT_ROWS),
                max_unique,
            }
        };
        Self {
            all,
            scalars: parts[0],
            input_ids: parts[1],
            token_type_ids: parts[2],
            attention_mask: parts[3],
            mlm_rows: parts[4],
            mlm_ids: parts[5],
            mlm_weights: parts[6],
            nsp_labels: parts[7],
            nsp_weights: parts[8],
            rows_by_id: [
                segments(9, StepWord::WordSegments, StepWord::WordIds, config.vocab_size),
                segments(13, StepWord::PositionSegments, StepWord::PositionIds, shape.seq_length),
                segments(17, StepWord::TypeSegments, StepWord::TypeIds, config.type_vocab_size),
            ],
            predictions_by_row: (parts[21], parts[22]),
        }
    }

    /// One scalar of the step.
    pub fn scalar(&self, word: StepWord) -> Scalar {
        Scalar { tensor: self.scalars, word: word as u32 }
    }
}
