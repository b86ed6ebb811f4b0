//! The flags of `create-pretraining-data`. Names and defaults are those of the reference where it has them.

use std::path::PathBuf;

use clap::builder::{BoolishValueParser, RangedU64ValueParser};
use clap::{Args, ValueEnum};
use wgpu_bert::data::MAX_CHARS_PER_WORD;

use super::super::pretrain::{positive, probability};

/// Make training examples of text and write them as TFRecord files
///
/// Memory does not grow with the text: what does not fit lies in files without names beside the output meanwhile, some
/// 3 bytes for each token of the text and 3 for each token of an example. The files appear under their names only when
/// they are complete; after an interruption the same command starts anew.
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct CreatePretrainingDataFlags {
    /// Text, plain or gzip: names, folders or patterns (* ? [a-z]) with commas between, or - for stdin. It has one
    /// sentence a line and a blank line between documents
    #[arg(long, value_name = "FILES")]
    pub input_file: String,
    /// Files to write: names with commas between; examples are dealt out to them in turn
    #[arg(long, value_name = "FILES")]
    pub output_file: String,
    /// WordPiece vocabulary, a token a line
    #[arg(long, value_name = "FILE")]
    pub vocab_file: PathBuf,
    /// WordPiece, the only way of splitting words there is
    #[arg(long, value_name = "NAME", value_parser = tokenization)]
    pub tokenization: Option<()>,
    /// Lower-case the text
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub do_lower_case: bool,
    /// Strip accents [default: as do_lower_case]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub strip_accents: Option<bool>,
    /// Longer words become [UNK]
    #[arg(long, value_name = "N", default_value_t = MAX_CHARS_PER_WORD, value_parser = positive)]
    pub max_chars_per_word: usize,
    /// Mask whole words
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub do_whole_word_mask: bool,
    /// The most words masked together, where whole words are masked
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    pub max_ngram_size: usize,
    /// Tokens of an example
    #[arg(long, value_name = "N", default_value = "128", value_parser = positive)]
    pub max_seq_length: usize,
    /// The most tokens masked in an example
    #[arg(long, value_name = "N", default_value = "20", value_parser = positive)]
    pub max_predictions_per_seq: usize,
    /// Decides everything random
    #[arg(long, alias = "seed", value_name = "N", default_value_t = 12345)]
    pub random_seed: u64,
    /// How often the text is gone through, each time with other masks
    #[arg(long, value_name = "N", default_value = "10", value_parser = positive)]
    pub dupe_factor: usize,
    /// Share of the tokens that are masked
    #[arg(long, value_name = "P", default_value = "0.15", value_parser = probability)]
    pub masked_lm_prob: f64,
    /// Share of the visits to a document that make shorter examples
    #[arg(long, value_name = "P", default_value = "0.1", value_parser = probability)]
    pub short_seq_prob: f64,
    /// Pack the files with gzip
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub gzip_compress: bool,
    /// Call the features input_word_ids and input_type_ids; TensorFlow's own run_pretraining cannot read that
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub use_v2_feature_names: bool,
    /// Whether next-sentence labels will be learned from: then the text must have documents of several sentences
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub use_next_sentence_label: bool,
    /// Lines are JSON objects, each a document, with its text in this field
    #[arg(long, value_name = "NAME")]
    pub json_field: Option<String>,
    /// Let a document go on from file to file unless a blank line ends it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub documents_run_on: bool,
    /// seed: the examples and their order that TensorFlow's create_pretraining_data makes, number for number; they must
    /// fit in memory. Documents then go on from file to file
    #[arg(long, value_name = "MODE")]
    pub compat: Option<Compat>,
    /// Threads that work at a time; the result does not depend on it [default: one for each core]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub threads: Option<usize>,
    /// Print what was made as a JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Compat {
    Seed,
}

fn tokenization(name: &str) -> Result<(), String> {
    match name.to_lowercase().as_str() {
        "wordpiece" => Ok(()),
        "sentencepiece" => {
            Err("SentencePiece models cannot be read here; train a WordPiece vocabulary with \
                                `wgpu-bert train-vocab` and give it with --vocab_file"
                .into())
        }
        _ => Err("must be WordPiece".into()),
    }
}
