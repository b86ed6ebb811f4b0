//! The words of a text of any size.

use super::lines::Line;
use super::text::{Batch, Batches, Counters, TextSource};
use super::{GeneratorProgress, Stage, TextOptions, parallel, tell};
use crate::data::{Error, WordCounts};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// Counts the words of files. `progress` is told how far it is, and may break it off. Natively the future
/// does not wait: poll it once.
///
/// # Errors
/// When a file cannot be read, there is no word, or `progress` breaks it off ([`Error::Interrupted`]).
pub async fn count_words(
    sources: Vec<TextSource>,
    options: &TextOptions,
    progress: &mut dyn FnMut(GeneratorProgress) -> ControlFlow<()>,
) -> Result<WordCounts, Error> {
    let (files, origin) = (sources.len(), TextSource::name_all(&sources));
    let total = sources.iter().map(TextSource::bytes).sum();
    let counters = Counters::default();
    let batches = Batches::new(sources, options.documents_run_on, counters.clone());
    let worker = || {
        |batch: Batch| {
            let mut words = WordCounts::default();
            batch.for_each_line(options.json_field.as_deref(), |line| match line {
                Line::Sentence(sentence) => words.add(sentence),
                Line::DocumentEnd => {}
            })?;
            Ok(words)
        }
    };
    let mut tell = tell(progress);
    let mut all = WordCounts::default();
    parallel::ordered(options.threads, batches, worker, |words| {
        all.merge(words);
        let done = counters.read.load(Ordering::Relaxed);
        tell(Stage::Tokenizing, done, total)
    })
    .await?;
    if all.is_empty() { Err(counters.nothing(files, origin)) } else { Ok(all) }
}
