//! Text → documents → instances → batches, with the exact algorithm and random numbers of the reference.
//!
//! ```
//! use wgpu_bert::data::{
//!     BatchLimits, Batcher, Corpus, InstanceOptions, Tokenizer, create_instances, train_vocabulary,
//! };
//! let mut corpus = Corpus::default();
//! corpus.add("example", b"The day is long.\nThe night is longer.\n\nThe sun is up.\nIt is day.", false)?;
//! let tokenizer = Tokenizer::new(train_vocabulary(corpus.sentences(), 60, true)?, true);
//! let options = InstanceOptions { max_seq_length: 16, max_predictions_per_seq: 3, ..InstanceOptions::default() };
//! let features = create_instances(&corpus.encode(&tokenizer)?, tokenizer.vocabulary(), &options)?;
//!
//! let vocab_size = tokenizer.vocabulary().size();
//! let limits = BatchLimits { vocab_size, type_vocab_size: 2, max_position_embeddings: 16 };
//! let mut batcher = Batcher::new(features, 8, 0, limits)?;
//! assert_eq!(batcher.batch(0)?.input_ids.len(), 8 * 16);
//! # Ok::<(), wgpu_bert::data::Error>(())
//! ```

mod batch;
mod batcher;
mod corpus;
mod draw;
mod error;
mod example;
mod features;
mod generator;
#[cfg(target_family = "wasm")]
mod host;
mod instance_set;
mod instances;
mod library;
mod masking;
mod no_text;
#[cfg(not(target_family = "wasm"))]
mod no_turns;
mod pool;
#[cfg(not(target_family = "wasm"))]
mod prefetch;
mod python_random;
#[cfg(not(target_family = "wasm"))]
mod read_at;
mod record_set;
mod records;
mod report;
mod segments;
mod show;
mod stream_random;
mod tokenization;
mod tokenizer_json;
mod training_data;
mod unigram;
mod vocabulary;
mod vocabulary_training;
mod windows;
mod word_cache;

pub use batch::{Batch, BatchLimits};
pub use batcher::Batcher;
pub use corpus::{Corpus, Documents};
pub use error::Error;
pub use example::{Example, ExampleToken};
pub use features::Features;
pub use generator::{
    Disk, GeneratorProgress, Stage, TextData, TextInstances, TextOptions, TextSource, count_words,
    training_data,
};
#[cfg(not(target_family = "wasm"))]
pub use generator::{Generated, GeneratorOptions, TextSurvey, create_pretraining_data, survey_text};
#[cfg(target_family = "wasm")]
use host::Turns;
#[cfg(target_family = "wasm")]
pub use host::{Host, HostFile, Workspace, set_host};
pub use instance_set::InstanceSet;
pub use instances::{InstanceOptions, Instances, create_instances};
#[cfg(not(target_family = "wasm"))]
use no_turns::Turns;
pub use python_random::PythonRandom;
pub use record_set::{RecordFile, RecordSet};
pub(crate) use records::append_record;
#[cfg(not(target_family = "wasm"))]
pub(crate) use records::masked_crc;
pub use records::{
    FeatureNames, Record, RecordProblem, RecordReader, Skipped, holds_records, read_records,
    read_sound_records, write_records,
};
pub use report::DataReport;
pub use segments::Segments;
pub use show::show_instance;
pub use tokenization::{MAX_CHARS_PER_WORD, Tokenizer, basic_tokens};
pub use training_data::TrainingData;
pub use unigram::UnigramBaseline;
pub use vocabulary::{SPECIAL_TOKENS, SpecialIds, Vocabulary};
pub use vocabulary_training::{VocabularyOptions, WordCounts, train_vocabulary};
