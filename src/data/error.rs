use std::path::PathBuf;

use super::RecordProblem;

/// What can go wrong between a text file and a batch. `origin` is the file's name, or what stands for it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A vocabulary without a token.
    #[error(
        "{origin}: the vocabulary is empty; it needs one token a line, [PAD], [UNK], [CLS], [SEP] and [MASK] among them"
    )]
    EmptyVocabulary {
        /// The vocabulary.
        origin: String,
    },
    /// A vocabulary in another encoding.
    #[error("{origin}, line {line}: the vocabulary is not UTF-8; convert it")]
    NotUtf8 {
        /// The vocabulary.
        origin: String,
        /// Line, from 1.
        line: usize,
    },
    /// A line without a token, before the end of a vocabulary.
    #[error(
        "{origin}, line {line}: blank line inside the vocabulary; the line number is the token's id, so put a token such as [unused{line}] there"
    )]
    BlankToken {
        /// The vocabulary.
        origin: String,
        /// Line, from 1.
        line: usize,
    },
    /// A token that stands on two lines of a vocabulary, and would have two ids.
    #[error(
        "{origin}, line {line}: {token:?} is on line {first_line} already; a token may have one line only"
    )]
    DuplicateToken {
        /// The vocabulary.
        origin: String,
        /// Line of the second one, from 1.
        line: usize,
        /// Line of the first one, from 1.
        first_line: usize,
        /// The token.
        token: String,
    },
    /// A vocabulary that lacks one of the five tokens BERT cannot do without.
    #[error(
        "{origin}: the vocabulary has no {token}; add it as a line of its own (a model trained with this vocabulary has its own place for it), or train a new vocabulary"
    )]
    MissingSpecialToken {
        /// The vocabulary.
        origin: String,
        /// The missing token.
        token: &'static str,
    },
    /// A vocabulary of SentencePiece.
    #[error(
        "{origin}: this is a SentencePiece model, which cannot be read; give a WordPiece vocabulary, one token a line, or train one (train-vocab)"
    )]
    SentencePiece {
        /// The vocabulary.
        origin: String,
    },
    /// A vocabulary size that does not hold the text's characters.
    #[error(
        "a vocabulary of {size} tokens cannot hold the special tokens and the characters of this text; ask for at least {needed}"
    )]
    VocabularyTooSmall {
        /// The size asked for.
        size: usize,
        /// The smallest size that would do.
        needed: usize,
    },
    /// The trainer failed.
    #[error("training the vocabulary failed: {0}")]
    VocabularyTraining(tokenizers::Error),
    /// A gzip file of text that cannot be unpacked.
    #[error("{origin}: damaged gzip file: {error}")]
    BadGzip {
        /// The file.
        origin: String,
        /// What the decoder said.
        error: std::io::Error,
    },
    /// A gzip file of records that cannot be unpacked.
    #[error("{origin}: damaged gzip file: {error}")]
    BadRecordsGzip {
        /// The file.
        origin: String,
        /// What the decoder said.
        error: std::io::Error,
    },
    /// TFRecord data where text was expected.
    #[error("{origin}: this is a TFRecord file of training instances, not text; give files of one kind")]
    RecordsNotText {
        /// The file.
        origin: String,
    },
    /// A file that is no text, or one in another encoding.
    #[error(
        "{origin}: this is no text in UTF-8: {strange} of its first {bytes} bytes, from byte {offset} on, are none of one; give plain text, or convert it to UTF-8"
    )]
    NotText {
        /// The file.
        origin: String,
        /// The first byte that is none of such a text, in the unpacked file.
        offset: usize,
        /// How many are not.
        strange: usize,
        /// How many were looked at.
        bytes: usize,
    },
    /// A text of no bytes.
    #[error("{origin}: the text is empty; it needs one sentence a line, a blank line between documents")]
    EmptyText {
        /// The file.
        origin: String,
    },
    /// A text of blank lines.
    #[error(
        "{origin}: the text has only blank lines; it needs one sentence a line, a blank line between documents"
    )]
    BlankText {
        /// The file.
        origin: String,
    },
    /// A text that tokenises to nothing, control characters for instance.
    #[error("{origin}: there is no token in the text; is it text, in UTF-8?")]
    NoTokens {
        /// The text.
        origin: String,
    },
    /// An option out of its range.
    #[error("{option} is {value}, but must be {expected}")]
    BadOption {
        /// Its name.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        expected: String,
    },
    /// One document: a random next sentence, which must come from another document, would come from the same one.
    #[error(
        "{origin}: the text is a single document, so next-sentence labels would be wrong; put blank lines between documents, or train without them (use_next_sentence_label=false)"
    )]
    SingleDocument {
        /// The text.
        origin: String,
    },
    /// Documents of one sentence each have no next sentences.
    #[error(
        "{origin}: every document has one sentence only, so no sentence has a next one and all next-sentence labels would be \"random\"; put each sentence on a line of its own and blank lines between documents only, or train without these labels (use_next_sentence_label=false)"
    )]
    OneSentencePerDocument {
        /// The text.
        origin: String,
    },
    /// Documents of one token each cannot be cut in two.
    #[error("{origin}: the text makes no training instance; its documents have a single token each")]
    NoInstances {
        /// The text.
        origin: String,
    },
    /// A line that is no JSON object with a text in it.
    #[error(
        "{origin}, line {line}: {problem}; a line must be a JSON object with the text of a document in it"
    )]
    BadJsonLine {
        /// The file.
        origin: String,
        /// Line, from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A line that is too long for a sentence.
    #[error(
        "{origin}, line {line}: the line is longer than {limit} MiB; put one sentence on a line, and a blank line between documents"
    )]
    LineTooLong {
        /// The file.
        origin: String,
        /// Line, from 1.
        line: u64,
        /// The most a line may have, in MiB.
        limit: usize,
    },
    /// Files for what does not stay in memory cannot be written or read.
    #[error("cannot keep intermediate data in {}: {error}", folder.display())]
    Spill {
        /// Where they are.
        folder: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A file that another run is writing.
    #[error(
        "{} is being written by another run; wait for that one, or write to another file",
        path.display()
    )]
    OutputInUse {
        /// The file.
        path: PathBuf,
    },
    /// It was broken off from outside.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// A record that cannot be read.
    #[error("{origin}: record {record}, which starts at byte {offset}: {problem}")]
    Record {
        /// The file.
        origin: String,
        /// Number of the record, from 1.
        record: usize,
        /// Where its frame starts in the unpacked file.
        offset: u64,
        /// What is wrong with it.
        problem: RecordProblem,
    },
    /// A file of records that is not what it was when it was read first.
    #[error("{}: the file was changed since training started", path.display())]
    RecordsChanged {
        /// The file.
        path: PathBuf,
    },
    /// Two files whose instances do not fit together.
    #[error(
        "{first} has sequences of {} tokens with {} predictions, but {second} of {} with {}; give files of one shape",
        first_shape.0, first_shape.1, second_shape.0, second_shape.1
    )]
    ShapesDiffer {
        /// The first file, or files.
        first: String,
        /// Its sequence length and predictions.
        first_shape: (usize, usize),
        /// The file that differs.
        second: String,
        /// Its sequence length and predictions.
        second_shape: (usize, usize),
    },
    /// A file of records without a record.
    #[error(
        "{origin}: the file holds no records; make it again with create_pretraining_data, or give another file"
    )]
    NoRecords {
        /// The file.
        origin: String,
    },
    /// An array of a record file or a caller that is not as long as its shape says.
    #[error("{origin}: {field} has {length} numbers, but the shapes ask for {expected}")]
    FeatureLength {
        /// The instances.
        origin: String,
        /// The array.
        field: &'static str,
        /// Its length.
        length: usize,
        /// The length it should have.
        expected: usize,
    },
    /// Sequences with more tokens than the model has positions.
    #[error(
        "{origin}: sequences have {seq_length} tokens, but the model has {max_position_embeddings} positions (max_position_embeddings); use shorter sequences, at most {max_position_embeddings}, or a model with more positions"
    )]
    SequenceTooLong {
        /// The instances.
        origin: String,
        /// S.
        seq_length: usize,
        /// P.
        max_position_embeddings: usize,
    },
    /// An id the model has no entry for.
    #[error(
        "{origin}, record {record} (from 0): {field}[{position}] is {value}, but must be below {limit}; were the data made with another vocabulary or length than the model's?"
    )]
    IdOutOfRange {
        /// The instances.
        origin: String,
        /// The instance, from 0.
        record: usize,
        /// The feature.
        field: &'static str,
        /// Place in the feature, from 0.
        position: usize,
        /// What stands there.
        value: u32,
        /// The first number that is too large.
        limit: usize,
    },
    /// A weight that is negative, infinite or not a number.
    #[error(
        "{origin}, record {record} (from 0): masked_lm_weights[{position}] is {value}, but must be finite and at least 0"
    )]
    BadWeight {
        /// The instances.
        origin: String,
        /// The instance, from 0.
        record: usize,
        /// Place in the feature, from 0.
        position: usize,
        /// What stands there.
        value: f32,
    },
    /// An instance was asked for that is not there.
    #[error("{origin}: there is no record {record} (from 0), only {count} records")]
    NoSuchRecord {
        /// The instances.
        origin: String,
        /// The instance asked for, from 0.
        record: usize,
        /// How many there are.
        count: usize,
    },
    /// Not one full batch.
    #[error("{origin}: {}", too_few(*instances, *batch_size))]
    TooFewInstances {
        /// The instances.
        origin: String,
        /// How many there are.
        instances: usize,
        /// B.
        batch_size: usize,
    },
}

fn too_few(instances: usize, batch_size: usize) -> String {
    match instances {
        0 => "there is no instance in it; give more text, or another file".into(),
        _ => format!(
            "{instances} training instances do not fill a batch of {batch_size}; use a batch size between 1 and \
             {instances}, more text, or a higher dupe_factor"
        ),
    }
}
