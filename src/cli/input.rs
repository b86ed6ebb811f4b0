//! Input files → training examples: text that they are made of, or records that hold them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use wgpu_bert::data::{
    BatchLimits, Corpus, DataReport, Features, InstanceOptions, InstanceSet, RecordSet, Tokenizer,
    create_instances, holds_records, read_records, read_sound_records,
};

use super::error::CliError;
use super::{input_files, output};

/// Files, and what they hold, told apart by the start of the first.
pub enum Input {
    Text(Vec<PathBuf>),
    /// TFRecord files.
    Records(Vec<PathBuf>),
}

/// Find the files of names and patterns.
pub fn find(names: &[String]) -> Result<Input, CliError> {
    let paths = input_files::expand(names)?;
    let failed = |error| CliError::Read { path: paths[0].clone(), error };
    let mut first = BufReader::new(File::open(&paths[0]).map_err(failed)?);
    match holds_records(first.fill_buf().map_err(failed)?) {
        true => Ok(Input::Records(paths)),
        false => Ok(Input::Text(paths)),
    }
}

/// Make examples of text, and tell what it amounts to.
pub fn of_text(
    paths: &[PathBuf],
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
) -> Result<Features, CliError> {
    let corpus = Corpus::read(paths, false)?;
    let documents = corpus.encode(tokenizer)?;
    let features = create_instances(&documents, tokenizer.vocabulary(), options)?;
    tell_text(
        &DataReport::new(&documents, tokenizer.vocabulary(), &features),
        corpus.undecodable() as u64,
        0,
    );
    Ok(features)
}

/// Tell what a text amounts to.
pub fn tell_text(report: &DataReport, undecodable: u64, empty_files: u64) {
    if undecodable > 0 {
        output::note(format_args!(
            "{undecodable} bytes of the text are not UTF-8 and were left out. If it has another encoding, convert it, or \
             its words lack letters."
        ));
    }
    if empty_files > 0 {
        output::note(format_args!("{empty_files} of the files are empty."));
    }
    output::note(report);
    for warning in report.warnings() {
        output::note(warning);
    }
}

/// Read the examples of TFRecord files, and tell what they amount to. `shape` is that of --max_seq_length and
/// --max_predictions_per_seq where they are given. `vocab_size` is that of the vocabulary. `only_sound`: damaged records are left out.
pub fn of_records(
    paths: &[PathBuf],
    next_sentence: bool,
    shape: (Option<usize>, Option<usize>),
    vocab_size: usize,
    only_sound: bool,
) -> Result<Features, CliError> {
    let mut features = Features::default();
    for path in paths {
        let (name, bytes) = (path.display().to_string(), read(path)?);
        if !only_sound {
            features.append(read_records(&name, &bytes, next_sentence)?)?;
            continue;
        }
        let (sound, skipped) = read_sound_records(&name, &bytes, next_sentence)?;
        features.append(sound)?;
        if let Some(first) = &skipped.first {
            output::note(format_args!("{} bad records were left out; the first: {first}", skipped.count));
        }
    }
    features.check(&BatchLimits::of_vocabulary(vocab_size))?;
    let random = features.next_sentence_labels.iter().filter(|label| **label == 1).count();
    tell_records(paths, shape, (features.seq_length, features.predictions), features.count(), random)?;
    Ok(features)
}

/// Read TFRecord files as [`of_records`], but keep only some of their examples in memory at a time.
pub fn record_set(
    paths: &[PathBuf],
    next_sentence: bool,
    shape: (Option<usize>, Option<usize>),
    only_sound: bool,
) -> Result<RecordSet, CliError> {
    let records = RecordSet::open(paths, next_sentence, only_sound)?;
    if let Some(first) = &records.skipped().first {
        output::note(format_args!(
            "{} bad records were left out; the first: {first}",
            records.skipped().count
        ));
    }
    let found = (records.seq_length(), records.predictions());
    tell_records(paths, shape, found, records.count(), records.random_next())?;
    Ok(records)
}

/// Refuse another shape than the flags ask for, and tell what the records amount to.
fn tell_records(
    paths: &[PathBuf],
    given: (Option<usize>, Option<usize>),
    found: (usize, usize),
    count: usize,
    random_next: usize,
) -> Result<(), CliError> {
    for (flag, given, found) in
        [("max_seq_length", given.0, found.0), ("max_predictions_per_seq", given.1, found.1)]
    {
        if let Some(given) = given.filter(|given| *given != found) {
            return Err(CliError::OtherShape { flag, given, origin: paths[0].display().to_string(), found });
        }
    }
    output::note(format_args!(
        "{count} instances of {} tokens with {} predictions ({:.1} % with a random next sentence)",
        found.0,
        found.1,
        100.0 * random_next as f64 / count as f64,
    ));
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|error| CliError::Read { path: path.to_owned(), error })
}
