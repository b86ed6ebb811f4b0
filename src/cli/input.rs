//! Input files → training examples: text that they are made of, or records that hold them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use wgpu_bert::data::{
    DataReport, Disk, InstanceOptions, RecordFile, RecordSet, Stage, TextData, TextInstances, TextOptions,
    TextSource, Tokenizer, holds_records, training_data,
};

use super::error::CliError;
use super::text_progress::Reporter;
use super::{default_threads, input_files, output};

/// Files, and what they hold, told apart by the start of the first.
pub enum Input {
    Text(Vec<TextSource>),
    /// TFRecord files.
    Records(Vec<PathBuf>),
}

/// Find the files of names and patterns.
pub fn find(names: &[String]) -> Result<Input, CliError> {
    let paths = input_files::expand(names)?;
    paths.iter().try_for_each(|path| check_is_file(path))?;
    match is_records(&paths[0])? {
        true => Ok(Input::Records(paths)),
        false => Ok(Input::Text(paths.into_iter().map(TextSource::File).collect())),
    }
}

/// Does a file hold records, not text?
pub fn is_records(path: &Path) -> Result<bool, CliError> {
    check_is_file(path)?;
    let failed = |error| CliError::Read { path: path.into(), error };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    Ok(holds_records(file.fill_buf().map_err(failed)?))
}

/// A pipe would lose what is read of it before it is opened again.
fn check_is_file(path: &Path) -> Result<(), CliError> {
    match path.metadata() {
        Err(error) if path.as_os_str() != "-" => Err(CliError::Read { path: path.into(), error }),
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) if found.is_dir() => Err(CliError::Folder { path: path.into() }),
        _ => Err(CliError::ReadOnlyOnce { path: path.into() }),
    }
}

/// Make examples of text, and tell what it amounts to. Many of them lie on `disk`.
pub fn of_text(
    sources: Vec<TextSource>,
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
    disk: &Disk,
) -> Result<TextData, CliError> {
    let mut reporter = Reporter::new(|stage| match stage {
        Stage::Tokenizing => ("text to tokens", "bytes"),
        _ => ("sentences to examples", "sentences"),
    })?;
    let text = text_options();
    let mut progress = |progress| reporter.progress(progress);
    let made =
        training_data(sources, tokenizer, options, &text, disk, TextInstances::IN_MEMORY, &mut progress);
    let made = pollster::block_on(made);
    let made = reporter.finish(made)?;
    tell_text(&made.report, made.undecodable, made.empty_files);
    Ok(made)
}

/// How text is read.
pub fn text_options() -> TextOptions {
    TextOptions { documents_run_on: false, json_field: None, threads: default_threads() }
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

/// Look through TFRecord files, and tell what they amount to. `shape` is that of --max_seq_length and
/// --max_predictions_per_seq where they are given. `vocab_size` is that of the vocabulary. `only_sound`: damaged records
/// are left out. What gzip files hold lies on `disk`.
pub fn of_records(
    paths: &[PathBuf],
    next_sentence: bool,
    shape: (Option<usize>, Option<usize>),
    vocab_size: usize,
    only_sound: bool,
    disk: &Disk,
) -> Result<RecordSet, CliError> {
    let files = paths.iter().map(RecordFile::from).collect();
    let mut reporter = Reporter::new(|_| ("records looked through", "bytes"))?;
    let mut progress = |progress| reporter.progress(progress);
    let records = RecordSet::open(files, next_sentence, only_sound, disk, &mut progress);
    let records = pollster::block_on(records);
    let records = reporter.finish(records)?;
    if let Some(first) = &records.skipped().first {
        output::note(format_args!(
            "{} bad records were left out; the first: {first}",
            records.skipped().count
        ));
    }
    let found = (records.seq_length(), records.predictions());
    // The model may have room for more.
    records.check_vocabulary(vocab_size)?;
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
