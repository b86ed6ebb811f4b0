//! `wgpu-bert train-vocab`: text → a WordPiece vocabulary.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{BoolishValueParser, RangedU64ValueParser};
use serde_json::json;
use wgpu_bert::data::{self, MAX_CHARS_PER_WORD, TextOptions, VocabularyOptions, count_words};

use super::error::CliError;
use super::pretrain::positive;
use super::text_progress::Reporter;
use super::{default_threads, input_files, output, output_files};

/// Train a WordPiece vocabulary on text
///
/// It has the five special tokens, those of --special_tokens, the unused ones, the text's characters, and the most
/// frequent pieces of its words.
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct TrainVocabFlags {
    /// Text, plain or gzip: names, folders or patterns (* ? [a-z]) with commas between, or - for stdin
    #[arg(long, value_name = "FILES")]
    input_file: String,
    /// File to write, a token a line
    #[arg(long, value_name = "FILE")]
    output_file: PathBuf,
    /// The most tokens
    #[arg(long, value_name = "N", default_value = "30522", value_parser = positive)]
    vocab_size: usize,
    /// Pieces that occur less often get no place
    #[arg(long, value_name = "N", default_value = "2", value_parser = positive)]
    min_frequency: usize,
    /// Lower-case the text
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    do_lower_case: bool,
    /// Strip accents [default: as do_lower_case]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    strip_accents: Option<bool>,
    /// Tokens of your own with commas between, behind [PAD], [UNK], [CLS], [SEP] and [MASK]
    #[arg(long, value_name = "TOKENS")]
    special_tokens: Option<String>,
    /// Places to be named later: [unused0], [unused1] and so on
    #[arg(long, value_name = "N", default_value_t = 0)]
    unused_tokens: usize,
    /// Longer words are left to [UNK]
    #[arg(long, value_name = "N", default_value_t = MAX_CHARS_PER_WORD, value_parser = positive)]
    max_chars_per_word: usize,
    /// Lines are JSON objects with text in this field
    #[arg(long, value_name = "NAME")]
    json_field: Option<String>,
    /// Threads that count words at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    threads: Option<usize>,
    /// Print what was made as a JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

pub fn run(flags: &TrainVocabFlags) -> Result<(), CliError> {
    let sources = input_files::text_sources("input_file", &flags.input_file)?;
    output_files::check(std::slice::from_ref(&flags.output_file), &sources, None)?;
    let special_tokens = match &flags.special_tokens {
        Some(list) => input_files::names("special_tokens", list)?,
        None => Vec::new(),
    };
    let options = VocabularyOptions {
        size: flags.vocab_size,
        min_frequency: flags.min_frequency as u64,
        do_lower_case: flags.do_lower_case,
        strip_accents: flags.strip_accents,
        special_tokens,
        unused_tokens: flags.unused_tokens,
        max_chars_per_word: flags.max_chars_per_word,
    };
    let text = TextOptions {
        documents_run_on: false,
        json_field: flags.json_field.clone(),
        threads: flags.threads.unwrap_or_else(default_threads),
    };
    let mut reporter = Reporter::new(|_| ("words counted", "bytes"))?;
    let words = pollster::block_on(count_words(sources, &text, &mut |progress| reporter.progress(progress)));
    let words = reporter.finish(words)?;
    output::note(format_args!("{} different words", words.len()));
    let vocabulary = words.train(&options)?;
    write(&flags.output_file, &vocabulary.to_text())?;
    let file = flags.output_file.display();
    output::note(format_args!("{} tokens written: {file}", vocabulary.size()));
    if flags.json {
        let (words, tokens) = (words.len(), vocabulary.size());
        let output_file = file.to_string();
        return output::result(
            json!({"kind": "done", "words": words, "tokens": tokens, "output_file": output_file}),
        );
    }
    Ok(())
}

/// Under another name first, so that nothing half-written bears its own.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let written = std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, path));
    written.map_err(|error| {
        // Where that fails too, there is nothing more to be done.
        let _ = std::fs::remove_file(&partial);
        data::Error::Write { path: path.to_owned(), error }.into()
    })
}
