//! A batch: what one training step uploads, with every number checked.

use super::segments::Segments;
use super::{Error, Features};

/// What the model's tables hold: ids at or beyond these would silently read another row on a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchLimits {
    /// V: entries of the word embeddings.
    pub vocab_size: usize,
    /// T: entries of the segment embeddings.
    pub type_vocab_size: usize,
    /// P: entries of the position embeddings.
    pub max_position_embeddings: usize,
}

impl BatchLimits {
    /// Those of a vocabulary alone, whatever the model.
    pub fn of_vocabulary(size: usize) -> Self {
        Self { vocab_size: size, type_vocab_size: usize::MAX, max_position_embeddings: usize::MAX }
    }
}

/// B instances of S tokens and M predictions, flat. A token row is `b·S + s`, a prediction slot `b·M + m`.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// B.
    pub batch_size: usize,
    /// S.
    pub seq_length: usize,
    /// M.
    pub predictions: usize,
    /// `[B·S]`
    pub input_ids: Vec<u32>,
    /// `[B·S]`
    pub token_type_ids: Vec<u32>,
    /// `[B·S]`, 1 for a token, 0 for padding.
    pub attention_mask: Vec<u32>,
    /// `[B·M]`: the token row each prediction reads.
    pub mlm_rows: Vec<u32>,
    /// `[B·M]`: the token that was there.
    pub mlm_ids: Vec<u32>,
    /// `[B·M]`: finite, at least 0; 0 for padding.
    pub mlm_weights: Vec<f32>,
    /// `[B]`: 0 = B follows A, 1 = B is random.
    pub nsp_labels: Vec<u32>,
    /// Live token rows by word id, for the gradient of the word embeddings. See [`Batch::new`] for "live".
    pub word_segments: Segments,
    /// Live token rows by position.
    pub position_segments: Segments,
    /// Live token rows by segment id.
    pub type_segments: Segments,
    /// `[B·S + 1]`: token row `r` is read by the slots `prediction_slots[prediction_offsets[r]..prediction_offsets[r + 1]]`.
    pub prediction_offsets: Vec<u32>,
    /// Prediction slots by token row, at most B·M. Slots of weight 0 have no gradient and are left out.
    pub prediction_slots: Vec<u32>,
}

impl Batch {
    /// Takes the instances `records` out of `features`.
    ///
    /// Segments list live rows only: those that can receive a gradient. A padding row cannot: as a key its attention
    /// is exactly 0, and nothing reads its output. But rows that something does read are live whatever the mask says:
    /// the first of each sequence (the pooler's) and those with a prediction that counts. And where a sequence is
    /// masked altogether, attention is uniform, so all its rows are.
    ///
    /// # Errors
    /// When an array's length does not fit its shape, S exceeds the positions, or a number is out of its range: the
    /// error says where.
    pub fn new(features: &Features, records: &[usize], limits: &BatchLimits) -> Result<Self, Error> {
        let Numbers { input_ids, token_type_ids, attention_mask, mlm_rows, mlm_ids, mlm_weights, nsp_labels } =
            Numbers::gather(features, records, limits)?;
        let (seq_length, predictions) = (features.seq_length, features.predictions);

        let counting =
            || mlm_rows.iter().zip(0u32..).zip(&mlm_weights).filter(|(_, w)| **w > 0.0).map(|(x, _)| x);
        let by_row = group_slots(counting().map(|(&row, slot)| (row, slot)), input_ids.len());
        let (prediction_offsets, prediction_slots) = by_row;

        let mut live: Vec<bool> = attention_mask.iter().map(|&mask| mask == 1).collect();
        for sequence in live.chunks_mut(seq_length.max(1)) {
            if !sequence.contains(&true) {
                sequence.fill(true);
            }
            sequence[0] = true;
        }
        counting().for_each(|(&row, _)| live[row as usize] = true);
        let rows = || (0u32..).zip(&live).filter(|(_, live)| **live).map(|(row, _)| row);
        let by = |ids: &[u32]| Segments::group(rows().map(|row| (ids[row as usize], row)));
        let word_segments = by(&input_ids);
        let type_segments = by(&token_type_ids);
        let position_segments = Segments::group(rows().map(|row| (row % seq_length as u32, row)));

        Ok(Self {
            batch_size: records.len(),
            seq_length,
            predictions,
            input_ids,
            token_type_ids,
            attention_mask,
            mlm_rows,
            mlm_ids,
            mlm_weights,
            nsp_labels,
            word_segments,
            position_segments,
            type_segments,
            prediction_offsets,
            prediction_slots,
        })
    }

    /// Tokens and predictions of its longest sequence: up to its last live row, and its last prediction that counts.
    pub fn used(&self) -> (usize, usize) {
        let last_row = self.position_segments.unique_ids.last().map_or(0, |position| *position as usize);
        let counting = self.mlm_weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        let last_slot = counting.map(|(slot, _)| slot % self.predictions + 1).max();
        (last_row + 1, last_slot.unwrap_or(0))
    }

    /// The same batch with less padding: the first `seq_length` tokens and `predictions` of each sequence. A prediction
    /// that does not count reads the first token where its own is gone.
    ///
    /// # Panics
    /// When more are [used](Self::used), or there are fewer: a mistake in the caller.
    pub fn trimmed(&self, seq_length: usize, predictions: usize) -> Self {
        let used = self.used();
        assert!(used.0 <= seq_length && used.1 <= predictions, "{used:?} are used");
        assert!(seq_length <= self.seq_length && predictions <= self.predictions, "there are not so many");
        let tokens = |x: &[u32]| first_of_each(x, self.seq_length, seq_length);
        let slots = |x: &[u32]| first_of_each(x, self.predictions, predictions);
        let renumbered =
            |number: u32, of: usize, here: usize| (number as usize / of * here + number as usize % of) as u32;
        let row = |row: u32| renumbered(row, self.seq_length, seq_length);
        let read = |x: u32| match x as usize % self.seq_length < seq_length {
            true => row(x),
            false => row(x - x % self.seq_length as u32),
        };
        let mut prediction_offsets = tokens(&self.prediction_offsets[..self.batch_size * self.seq_length]);
        prediction_offsets.push(self.prediction_slots.len() as u32);
        let slot = |slot: &u32| renumbered(*slot, self.predictions, predictions);
        Self {
            batch_size: self.batch_size,
            seq_length,
            predictions,
            input_ids: tokens(&self.input_ids),
            token_type_ids: tokens(&self.token_type_ids),
            attention_mask: tokens(&self.attention_mask),
            mlm_rows: slots(&self.mlm_rows).into_iter().map(read).collect(),
            mlm_ids: slots(&self.mlm_ids),
            mlm_weights: first_of_each(&self.mlm_weights, self.predictions, predictions),
            nsp_labels: self.nsp_labels.clone(),
            word_segments: self.word_segments.renumbered(row),
            position_segments: self.position_segments.renumbered(row),
            type_segments: self.type_segments.renumbered(row),
            prediction_offsets,
            prediction_slots: self.prediction_slots.iter().map(slot).collect(),
        }
    }
}

/// The first `count` of every `width`.
fn first_of_each<T: Copy>(x: &[T], width: usize, count: usize) -> Vec<T> {
    x.chunks(width.max(1)).flat_map(|row| &row[..count]).copied().collect()
}

/// # Errors
/// As [`Batch::new`] for any of the instances.
pub(super) fn check_features(features: &Features, limits: &BatchLimits) -> Result<(), Error> {
    (0..features.count()).try_for_each(|n| Numbers::gather(features, &[n], limits).map(drop))
}

/// The numbers of a batch, checked.
struct Numbers {
    input_ids: Vec<u32>,
    token_type_ids: Vec<u32>,
    attention_mask: Vec<u32>,
    mlm_rows: Vec<u32>,
    mlm_ids: Vec<u32>,
    mlm_weights: Vec<f32>,
    nsp_labels: Vec<u32>,
}

impl Numbers {
    fn gather(features: &Features, records: &[usize], limits: &BatchLimits) -> Result<Self, Error> {
        features.check_shapes()?;
        let (seq_length, predictions) = (features.seq_length, features.predictions);
        if seq_length > limits.max_position_embeddings {
            let max_position_embeddings = limits.max_position_embeddings;
            return Err(Error::SequenceTooLong {
                origin: features.origin.clone(),
                seq_length,
                max_position_embeddings,
            });
        }
        let tokens = Gather { features, records, width: seq_length };
        let slots = Gather { features, records, width: predictions };
        let labels = Gather { features, records, width: 1 };
        let input_ids = tokens.take("input_ids", &features.input_ids, limits.vocab_size)?;
        let token_type_ids = tokens.take("segment_ids", &features.segment_ids, limits.type_vocab_size)?;
        let attention_mask = tokens.take("input_mask", &features.input_mask, 2)?;
        let mut mlm_rows = slots.take("masked_lm_positions", &features.masked_lm_positions, seq_length)?;
        for (slot, row) in mlm_rows.iter_mut().enumerate() {
            *row += (slot / predictions * seq_length) as u32;
        }
        Ok(Self {
            input_ids,
            token_type_ids,
            attention_mask,
            mlm_rows,
            mlm_ids: slots.take("masked_lm_ids", &features.masked_lm_ids, limits.vocab_size)?,
            mlm_weights: slots.take_weights(&features.masked_lm_weights)?,
            nsp_labels: labels.take("next_sentence_labels", &features.next_sentence_labels, 2)?,
        })
    }
}

/// Offsets and slots in CSR form of `(row, slot)` pairs, slots ascending.
fn group_slots(pairs: impl Iterator<Item = (u32, u32)>, rows: usize) -> (Vec<u32>, Vec<u32>) {
    let mut pairs: Vec<(u32, u32)> = pairs.collect();
    pairs.sort_unstable();
    let mut offsets = vec![0u32; rows + 1];
    for &(row, _) in &pairs {
        offsets[row as usize + 1] += 1;
    }
    for row in 0..rows {
        offsets[row + 1] += offsets[row];
    }
    (offsets, pairs.into_iter().map(|(_, slot)| slot).collect())
}

/// Copies the records' rows of an array and checks each number on the way.
struct Gather<'a> {
    features: &'a Features,
    records: &'a [usize],
    width: usize,
}

impl Gather<'_> {
    fn take(&self, field: &'static str, values: &[u32], limit: usize) -> Result<Vec<u32>, Error> {
        self.copy(values, |&value, record, position| {
            if (value as usize) < limit {
                return Ok(());
            }
            let origin = self.features.origin.clone();
            Err(Error::IdOutOfRange { origin, record, field, position, value, limit })
        })
    }

    fn take_weights(&self, values: &[f32]) -> Result<Vec<f32>, Error> {
        self.copy(values, |&value, record, position| {
            if value.is_finite() && value >= 0.0 {
                return Ok(());
            }
            Err(Error::BadWeight { origin: self.features.origin.clone(), record, position, value })
        })
    }

    fn copy<T: Copy>(
        &self,
        values: &[T],
        check: impl Fn(&T, usize, usize) -> Result<(), Error>,
    ) -> Result<Vec<T>, Error> {
        let mut copied = Vec::with_capacity(self.records.len() * self.width);
        for &record in self.records {
            let Some(row) = values.get(record * self.width..(record + 1) * self.width) else {
                let (origin, count) = (self.features.origin.clone(), self.features.count());
                return Err(Error::NoSuchRecord { origin, record, count });
            };
            for (position, value) in row.iter().enumerate() {
                check(value, record, position)?;
            }
            copied.extend_from_slice(row);
        }
        Ok(copied)
    }
}
