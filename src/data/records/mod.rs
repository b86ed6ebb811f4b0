//! TFRecord files of `tf.train.Example`: what TensorFlow's BERT pre-training reads and its data script writes.
//!
//! ```
//! use wgpu_bert::data::{Features, FeatureNames, read_records, write_records};
//!
//! let features = Features {
//!     origin: "example".into(),
//!     seq_length: 4,
//!     predictions: 1,
//!     input_ids: vec![2, 4, 7, 3],
//!     input_mask: vec![1; 4],
//!     segment_ids: vec![0, 0, 1, 1],
//!     masked_lm_positions: vec![1],
//!     masked_lm_ids: vec![9],
//!     masked_lm_weights: vec![1.0],
//!     next_sentence_labels: vec![0],
//! };
//! let file = write_records(&features, FeatureNames::V1);
//! assert_eq!(read_records("example", &file, true)?, features);
//! # Ok::<(), wgpu_bert::data::Error>(())
//! ```

mod encoder;
mod example;
mod framing;
mod reader;

use std::io::Read;

use flate2::read::GzDecoder;

use super::{Error, Features};
pub(super) use encoder::Encoder;
use example::{Example, Values};
pub(crate) use framing::append as append_record;
#[cfg(not(target_family = "wasm"))]
pub(crate) use framing::masked_crc;
pub use reader::{Record, RecordReader, Skipped};

/// Which names the token ids and segments have in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureNames {
    /// `input_ids` and `segment_ids`.
    V1,
    /// `input_word_ids` and `input_type_ids`; TensorFlow's own trainer of this model cannot read them.
    V2,
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RecordProblem {
    /// The file ends inside it.
    #[error("the file ends inside this record; it was cut off, so copy or make it again")]
    Truncated,
    /// The length of the first does not match its checksum.
    #[error("no record starts here: the file is no TFRecord file, or its start is damaged")]
    NoStart,
    /// Its length does not match its checksum.
    #[error("the record's length is corrupt (its checksum does not match)")]
    CorruptLength,
    /// Its content does not match its checksum.
    #[error("the record is corrupt (its checksum does not match)")]
    CorruptData,
    /// Its content is no `tf.train.Example`.
    #[error("the record is no tf.train.Example: {0}")]
    NotAnExample(String),
    /// A feature is missing.
    #[error("there is no feature {0}")]
    MissingFeature(&'static str),
    /// A feature holds another kind of values.
    #[error("feature {feature} must hold {expected}")]
    WrongKind {
        /// The feature.
        feature: &'static str,
        /// What it must hold.
        expected: &'static str,
    },
    /// A feature has not as many values as in the first record.
    #[error("feature {feature} has {found} values, not {expected}")]
    WrongLength {
        /// The feature.
        feature: &'static str,
        /// How many it has.
        found: usize,
        /// How many it must have.
        expected: usize,
    },
    /// More tokens are to be guessed than there are.
    #[error("the sequence has {seq_length} tokens, which is less than its {predictions} predictions")]
    TooManyPredictions {
        /// S.
        seq_length: usize,
        /// M.
        predictions: usize,
    },
    /// An id below 0 or beyond 32 bits.
    #[error("feature {feature} holds {value}, which is no id")]
    NoId {
        /// The feature.
        feature: &'static str,
        /// The value.
        value: i64,
    },
}

/// Is this a TFRecord file, plain or gzip? It starts with a record's length and its checksum; no text does.
pub fn holds_records(bytes: &[u8]) -> bool {
    let mut start = Vec::new();
    // Of what is no sound gzip file the bytes that can be unpacked decide.
    match bytes.starts_with(&[0x1f, 0x8b]) {
        true => drop(GzDecoder::new(bytes).take(framing::HEADER as u64).read_to_end(&mut start)),
        false => start.extend(bytes.iter().take(framing::HEADER)),
    }
    framing::starts_with_record(&start)
}

/// Read a whole file of records, plain or gzip. Sequence length and predictions are those of the first record;
/// without `next_sentence` labels may be missing, and are 0 then.
///
/// # Errors
/// [`Error::Record`] names the record, where it starts (in the unpacked file), and what is wrong;
/// [`Error::NoRecords`] when there is none.
pub fn read_records(origin: &str, bytes: &[u8], next_sentence: bool) -> Result<Features, Error> {
    let failed = |error| Error::Read { path: origin.into(), error };
    let (features, _) = read_all(origin, RecordReader::new(origin, bytes).map_err(failed)?, next_sentence)?;
    Ok(features)
}

/// Read a file of records as [`read_records`], but leave out and count those that are damaged or do not fit.
///
/// # Errors
/// When the file cannot be read or unpacked, or no record is left: then with what is wrong with the first.
pub fn read_sound_records(
    origin: &str,
    bytes: &[u8],
    next_sentence: bool,
) -> Result<(Features, Skipped), Error> {
    let failed = |error| Error::Read { path: origin.into(), error };
    let reader = RecordReader::new(origin, bytes).map_err(failed)?.skipping_bad();
    read_all(origin, reader, next_sentence)
}

fn read_all(
    origin: &str,
    mut reader: RecordReader,
    next_sentence: bool,
) -> Result<(Features, Skipped), Error> {
    let mut features = Features { origin: origin.into(), ..Features::default() };
    while let Some(Record { number, offset, content }) = reader.read()? {
        if let Err(problem) = features.append_record(content, next_sentence) {
            reader.refuse(number, offset, problem)?;
        }
    }
    let skipped = reader.into_skipped();
    match features.count() {
        0 => Err(skipped.first.unwrap_or_else(|| Error::NoRecords { origin: origin.into() })),
        _ => Ok((features, skipped)),
    }
}

impl Features {
    /// Adds the instance of a record's content; to none at all one of any shape may be added. Without `next_sentence`
    /// the label may be missing, and is 0 then.
    ///
    /// # Errors
    /// When the content is none, or of another shape.
    pub fn append_record(&mut self, content: &[u8], next_sentence: bool) -> Result<(), RecordProblem> {
        append(self, content, next_sentence)
    }
}

fn append(features: &mut Features, payload: &[u8], next_sentence: bool) -> Result<(), RecordProblem> {
    let example = Example::parse(payload)?;
    let first = features.count() == 0;
    let ids = |names: &[&'static str], length: Option<usize>| -> Result<Vec<u32>, RecordProblem> {
        let (feature, values) = example.find(names)?;
        let Values::Ints(values) = values else {
            return Err(RecordProblem::WrongKind { feature, expected: "integers" });
        };
        check_length(feature, values.len(), length)?;
        let id =
            |value: &i64| u32::try_from(*value).map_err(|_| RecordProblem::NoId { feature, value: *value });
        values.iter().map(id).collect()
    };
    let known = |length: usize| (!first).then_some(length);
    let input_ids = ids(&["input_ids", "input_word_ids"], known(features.seq_length))?;
    let seq = Some(input_ids.len());
    let input_mask = ids(&["input_mask"], seq)?;
    let segment_ids = ids(&["segment_ids", "input_type_ids"], seq)?;
    let masked_lm_positions = ids(&["masked_lm_positions"], known(features.predictions))?;
    let predictions = Some(masked_lm_positions.len());
    let masked_lm_ids = ids(&["masked_lm_ids"], predictions)?;
    let (feature, weights) = example.find(&["masked_lm_weights"])?;
    let Values::Floats(weights) = weights else {
        return Err(RecordProblem::WrongKind { feature, expected: "floats" });
    };
    check_length(feature, weights.len(), predictions)?;
    let label = match ids(&["next_sentence_labels"], Some(1)) {
        Err(RecordProblem::MissingFeature(_)) if !next_sentence => vec![0],
        label => label?,
    };
    let (seq_length, predictions) = (input_ids.len(), masked_lm_positions.len());
    if predictions > seq_length {
        return Err(RecordProblem::TooManyPredictions { seq_length, predictions });
    }
    (features.seq_length, features.predictions) = (seq_length, predictions);
    features.masked_lm_weights.extend(weights);
    for (all, new) in [
        (&mut features.input_ids, input_ids),
        (&mut features.input_mask, input_mask),
        (&mut features.segment_ids, segment_ids),
        (&mut features.masked_lm_positions, masked_lm_positions),
        (&mut features.masked_lm_ids, masked_lm_ids),
        (&mut features.next_sentence_labels, label),
    ] {
        all.extend(new);
    }
    Ok(())
}

fn check_length(feature: &'static str, found: usize, expected: Option<usize>) -> Result<(), RecordProblem> {
    match expected {
        Some(expected) if expected != found => Err(RecordProblem::WrongLength { feature, found, expected }),
        _ => Ok(()),
    }
}

/// The instances as the bytes of a TFRecord file, as TensorFlow reads it.
pub fn write_records(features: &Features, names: FeatureNames) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(names);
    (0..features.count()).for_each(|n| encoder.append(&mut bytes, features, n));
    bytes
}
