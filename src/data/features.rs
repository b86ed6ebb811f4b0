//! Training data as numbers: what the reference writes into its records, here as one array per feature.

use super::Error;
use super::instances::InstanceView;

/// N training instances of S tokens with M predictions each, every array row after row. Names are the reference's
/// record features.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features {
    /// Where they come from, for errors: a file's name, or what stands for it.
    pub origin: String,
    /// S.
    pub seq_length: usize,
    /// M.
    pub predictions: usize,
    /// Token ids, `[N, S]`, padded with 0.
    pub input_ids: Vec<u32>,
    /// 1 for a token, 0 for padding, `[N, S]`.
    pub input_mask: Vec<u32>,
    /// 0 for `[CLS] A [SEP]` and padding, 1 for `B [SEP]`, `[N, S]`.
    pub segment_ids: Vec<u32>,
    /// Where tokens are to be guessed, `[N, M]`, padded with 0.
    pub masked_lm_positions: Vec<u32>,
    /// The tokens that were there, `[N, M]`, padded with 0.
    pub masked_lm_ids: Vec<u32>,
    /// 1 for a guess that counts, 0 for padding, `[N, M]`. Fractions count as fractions.
    pub masked_lm_weights: Vec<f32>,
    /// 0 if B follows A in the text, 1 if it was drawn from elsewhere, `[N]`.
    pub next_sentence_labels: Vec<u32>,
}

impl Features {
    /// Room for `count` instances.
    pub(super) fn zeros(origin: String, count: usize, seq_length: usize, predictions: usize) -> Self {
        Self {
            origin,
            seq_length,
            predictions,
            input_ids: vec![0; count * seq_length],
            input_mask: vec![0; count * seq_length],
            segment_ids: vec![0; count * seq_length],
            masked_lm_positions: vec![0; count * predictions],
            masked_lm_ids: vec![0; count * predictions],
            masked_lm_weights: vec![0.0; count * predictions],
            next_sentence_labels: vec![0; count],
        }
    }

    /// Puts `instance`, padded, in place `n`.
    pub(super) fn set(&mut self, n: usize, instance: InstanceView) {
        let tokens = n * self.seq_length..(n + 1) * self.seq_length;
        let slots = n * self.predictions..(n + 1) * self.predictions;
        let length = instance.tokens.len();
        let input_ids = &mut self.input_ids[tokens.clone()];
        input_ids[..length].copy_from_slice(instance.tokens);
        input_ids[length..].fill(0);
        let input_mask = &mut self.input_mask[tokens.clone()];
        input_mask[..length].fill(1);
        input_mask[length..].fill(0);
        let segment_ids = &mut self.segment_ids[tokens];
        segment_ids.fill(0);
        segment_ids[instance.first_length..length].fill(1);
        self.masked_lm_positions[slots.clone()].fill(0);
        self.masked_lm_ids[slots.clone()].fill(0);
        self.masked_lm_weights[slots.clone()].fill(0.0);
        for (slot, &(position, id)) in slots.zip(instance.masked) {
            self.masked_lm_positions[slot] = position;
            self.masked_lm_ids[slot] = id;
            self.masked_lm_weights[slot] = 1.0;
        }
        self.next_sentence_labels[n] = u32::from(instance.is_random_next);
    }

    /// N.
    pub fn count(&self) -> usize {
        self.next_sentence_labels.len()
    }

    /// Copies of these instances, which must be there.
    pub(super) fn take(&self, instances: impl IntoIterator<Item = usize>) -> Self {
        let (s, m) = (self.seq_length, self.predictions);
        let mut taken =
            Self { origin: self.origin.clone(), seq_length: s, predictions: m, ..Self::default() };
        for n in instances {
            taken.input_ids.extend_from_slice(&self.input_ids[n * s..][..s]);
            taken.input_mask.extend_from_slice(&self.input_mask[n * s..][..s]);
            taken.segment_ids.extend_from_slice(&self.segment_ids[n * s..][..s]);
            taken.masked_lm_positions.extend_from_slice(&self.masked_lm_positions[n * m..][..m]);
            taken.masked_lm_ids.extend_from_slice(&self.masked_lm_ids[n * m..][..m]);
            taken.masked_lm_weights.extend_from_slice(&self.masked_lm_weights[n * m..][..m]);
            taken.next_sentence_labels.push(self.next_sentence_labels[n]);
        }
        taken
    }

    /// Keeps the first `count` instances.
    pub fn truncate(&mut self, count: usize) {
        for tokens in [&mut self.input_ids, &mut self.input_mask, &mut self.segment_ids] {
            tokens.truncate(count * self.seq_length);
        }
        self.masked_lm_positions.truncate(count * self.predictions);
        self.masked_lm_ids.truncate(count * self.predictions);
        self.masked_lm_weights.truncate(count * self.predictions);
        self.next_sentence_labels.truncate(count);
    }

    /// Adds the instances of another file behind these; to none at all any may be added.
    ///
    /// # Errors
    /// [`Error::ShapesDiffer`] when they are of another shape.
    pub fn append(&mut self, mut other: Features) -> Result<(), Error> {
        if self.count() == 0 {
            *self = other;
            return Ok(());
        }
        let shape = |features: &Self| (features.seq_length, features.predictions);
        if shape(self) != shape(&other) {
            return Err(Error::ShapesDiffer {
                first: self.origin.clone(),
                first_shape: shape(self),
                second: other.origin.clone(),
                second_shape: shape(&other),
            });
        }
        self.origin = format!("{}, {}", self.origin, other.origin);
        self.masked_lm_weights.append(&mut other.masked_lm_weights);
        for (all, more) in [
            (&mut self.input_ids, &mut other.input_ids),
            (&mut self.input_mask, &mut other.input_mask),
            (&mut self.segment_ids, &mut other.segment_ids),
            (&mut self.masked_lm_positions, &mut other.masked_lm_positions),
            (&mut self.masked_lm_ids, &mut other.masked_lm_ids),
            (&mut self.next_sentence_labels, &mut other.next_sentence_labels),
        ] {
            all.append(more);
        }
        Ok(())
    }

    /// # Errors
    /// When an array has not the length its shape asks for.
    pub(super) fn check_shapes(&self) -> Result<(), Error> {
        let (tokens, predictions) = (self.count() * self.seq_length, self.count() * self.predictions);
        for (field, length, expected) in [
            ("input_ids", self.input_ids.len(), tokens),
            ("input_mask", self.input_mask.len(), tokens),
            ("segment_ids", self.segment_ids.len(), tokens),
            ("masked_lm_positions", self.masked_lm_positions.len(), predictions),
            ("masked_lm_ids", self.masked_lm_ids.len(), predictions),
            ("masked_lm_weights", self.masked_lm_weights.len(), predictions),
        ] {
            if length != expected {
                return Err(Error::FeatureLength { origin: self.origin.clone(), field, length, expected });
            }
        }
        Ok(())
    }
}
