//! Instances → records: `tf.train.Example` messages in their frames, written straight into the file's bytes.

use super::{FeatureNames, framing};
use crate::data::Features;

/// Field keys of the messages: number and wire type.
const FIRST_MESSAGE: u8 = 1 << 3 | 2;
const SECOND_MESSAGE: u8 = 2 << 3 | 2;
/// The kinds of lists that a feature holds.
const FLOATS: u8 = 2 << 3 | 2;
const INTS: u8 = 3 << 3 | 2;

/// Writes one instance after another; keeps its memory between them.
pub(in crate::data) struct Encoder {
    names: FeatureNames,
    /// The map's entries.
    entries: Vec<u8>,
    /// The numbers of a feature.
    packed: Vec<u8>,
    message: Vec<u8>,
}

impl Encoder {
    pub(in crate::data) fn new(names: FeatureNames) -> Self {
        Self { names, entries: Vec::new(), packed: Vec::new(), message: Vec::new() }
    }

    /// Appends instance `n`, in its frame.
    pub(in crate::data) fn append(&mut self, file: &mut Vec<u8>, features: &Features, n: usize) {
        let (tokens, slots) = (n * features.seq_length, n * features.predictions);
        let tokens = tokens..tokens + features.seq_length;
        let slots = slots..slots + features.predictions;
        self.entries.clear();
        // In alphabetical order, with which a map is usually written.
        match self.names {
            FeatureNames::V1 => {
                self.ints("input_ids", &features.input_ids[tokens.clone()]);
                self.ints("input_mask", &features.input_mask[tokens.clone()]);
            }
            FeatureNames::V2 => {
                self.ints("input_mask", &features.input_mask[tokens.clone()]);
                self.ints("input_type_ids", &features.segment_ids[tokens.clone()]);
                self.ints("input_word_ids", &features.input_ids[tokens.clone()]);
            }
        }
        self.ints("masked_lm_ids", &features.masked_lm_ids[slots.clone()]);
        self.ints("masked_lm_positions", &features.masked_lm_positions[slots.clone()]);
        self.floats("masked_lm_weights", &features.masked_lm_weights[slots]);
        self.ints("next_sentence_labels", &features.next_sentence_labels[n..=n]);
        if self.names == FeatureNames::V1 {
            self.ints("segment_ids", &features.segment_ids[tokens]);
        }
        self.message.clear();
        self.message.push(FIRST_MESSAGE);
        varint(&mut self.message, self.entries.len() as u32);
        self.message.extend_from_slice(&self.entries);
        framing::append(file, &self.message);
    }

    fn ints(&mut self, name: &str, values: &[u32]) {
        self.packed.clear();
        values.iter().for_each(|&value| varint(&mut self.packed, value));
        self.entry(name, INTS);
    }

    fn floats(&mut self, name: &str, values: &[f32]) {
        self.packed.clear();
        values.iter().for_each(|value| self.packed.extend_from_slice(&value.to_le_bytes()));
        self.entry(name, FLOATS);
    }

    /// An entry of the map: key and value; the value is a feature with one list of one packed field.
    fn entry(&mut self, name: &str, kind: u8) {
        // Of a field: its key, its length, its content.
        let field = |content: usize| 1 + varint_length(content as u32) + content;
        let packed = self.packed.len();
        let list = if packed == 0 { 0 } else { field(packed) };
        let feature = field(list);
        let entry = field(name.len()) + field(feature);
        let entries = &mut self.entries;
        entries.push(FIRST_MESSAGE);
        varint(entries, entry as u32);
        entries.push(FIRST_MESSAGE);
        varint(entries, name.len() as u32);
        entries.extend_from_slice(name.as_bytes());
        entries.push(SECOND_MESSAGE);
        varint(entries, feature as u32);
        entries.push(kind);
        varint(entries, list as u32);
        if packed > 0 {
            entries.push(FIRST_MESSAGE);
            varint(entries, packed as u32);
            entries.extend_from_slice(&self.packed);
        }
    }
}

fn varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn varint_length(value: u32) -> usize {
    (32 - (value | 1).leading_zeros()).div_ceil(7) as usize
}
