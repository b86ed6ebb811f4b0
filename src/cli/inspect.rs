//! `wgpu-bert inspect`: what is in a file of text or of training examples, or in the plan of a step.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::json;
use wgpu_bert::data::{
    Features, InstanceOptions, Record, RecordReader, Skipped, TextOptions, TextSource, TextSurvey, Tokenizer,
    Vocabulary, VocabularyOptions, count_words, create_instances, survey_text,
};

use super::error::CliError;
use super::examples::example;
use super::step_flags::StepFlags;
use super::text_progress::Reporter;
use super::{default_threads, input, inspect_plan, output};

/// The vocabulary that is trained for a look at a text.
const VOCABULARY_SIZE: usize = 8192;

/// Tell what a file of text or of training examples holds, and show examples with their masks; or with --plan what a
/// training step takes
///
/// An example is shown as its words; a masked one in brackets with the one that was there: [MASK|light] where it is
/// hidden, [king|light] where another stands in its place, [light|light] where it was left.
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct InspectFlags {
    /// A text or a TFRecord file, plain or gzip
    #[arg(required_unless_present = "plan")]
    file: Option<PathBuf>,
    /// Tell which memory and how many dispatches a training step takes on this adapter; allocates nothing
    #[arg(long)]
    plan: bool,
    /// WordPiece vocabulary, a token a line [default: for a text one is trained; for examples numbers are shown]
    #[arg(long, value_name = "FILE")]
    vocab_file: Option<PathBuf>,
    /// Lower-case the text
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = BoolishValueParser::new())]
    do_lower_case: bool,
    /// Strip accents [default: as do_lower_case]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    strip_accents: Option<bool>,
    /// The text is in this field of JSON lines
    #[arg(long, value_name = "NAME")]
    json_field: Option<String>,
    /// Examples to show
    #[arg(long, value_name = "N", default_value_t = 3)]
    count: usize,
    /// Leave out and count damaged records, instead of ending at the first
    #[arg(long)]
    skip_bad_records: bool,
    /// Print it as a JSON object on stdout
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    step: StepFlags,
}

pub fn run(flags: &InspectFlags) -> Result<(), CliError> {
    let Some(path) = &flags.file else { return inspect_plan::run(&flags.step, flags.json) };
    let is_records = input::is_records(path)?;
    let vocabulary = flags.vocab_file.as_deref().map(Vocabulary::load).transpose()?;
    if is_records { records(flags, path, vocabulary.as_ref()) } else { text(flags, path, vocabulary) }
}

fn records(flags: &InspectFlags, path: &Path, vocabulary: Option<&Vocabulary>) -> Result<(), CliError> {
    let RecordsSummary { shown, counts, skipped } = summarise(path, flags.skip_bad_records, flags.count)?;
    let RecordCounts { records, tokens, guesses, random_next, largest_id } = counts;
    let (seq_length, predictions) = (shown.seq_length, shown.predictions);
    if let Some(first) = &skipped.first {
        output::note(format_args!("{} bad records were left out; the first: {first}", skipped.count));
    }
    if let Some(size) = vocabulary.map(Vocabulary::size).filter(|&size| largest_id as usize >= size) {
        output::note(format_args!(
            "The largest token id is {largest_id}, but the vocabulary has {size} tokens: it is not that of these examples."
        ));
    }
    let examples: Vec<_> =
        (0..shown.count().min(flags.count)).map(|n| example(&shown, n, vocabulary)).collect();
    if flags.json {
        return output::result(json!({
            "kind": "records",
            "records": records,
            "max_seq_length": seq_length,
            "max_predictions_per_seq": predictions,
            "tokens": tokens,
            "predictions": guesses,
            "random_next": random_next,
            "largest_id": largest_id,
            "skipped": skipped.count,
            "examples": examples,
        }));
    }
    let mean = |sum: u64| sum as f64 / records as f64;
    output::result(format_args!(
        "{}: {records} examples of {seq_length} tokens with {predictions} predictions",
        path.display()
    ))?;
    output::result(format_args!(
        "On average {:.1} tokens without padding, {:.1} of them to guess; {:.1} % have a random next sentence; the \
         largest token id is {largest_id}",
        mean(tokens),
        mean(guesses),
        100.0 * mean(random_next)
    ))?;
    examples.into_iter().try_for_each(output::result)
}

struct RecordsSummary {
    /// The first examples.
    shown: Features,
    counts: RecordCounts,
    skipped: Skipped,
}

#[derive(Default)]
struct RecordCounts {
    records: u64,
    /// Without padding.
    tokens: u64,
    guesses: u64,
    random_next: u64,
    largest_id: u32,
}

/// Reads all records, one at a time.
fn summarise(file: &Path, skip_bad: bool, count: usize) -> Result<RecordsSummary, CliError> {
    let reader = RecordReader::open(file)?;
    let mut reader = if skip_bad { reader.skipping_bad() } else { reader };
    let mut counts = RecordCounts::default();
    let mut shown = Features { origin: file.display().to_string(), ..Features::default() };
    while let Some(Record { number, offset, content }) = reader.read()? {
        let before = shown.count();
        if let Err(problem) = shown.append_record(content, false) {
            reader.refuse(number, offset, problem)?;
            continue;
        }
        let (s, m) = (shown.seq_length, shown.predictions);
        counts.records += 1;
        counts.tokens += shown.input_mask[before * s..].iter().filter(|&&mask| mask == 1).count() as u64;
        counts.guesses += shown.masked_lm_weights[before * m..].iter().filter(|&&w| w > 0.0).count() as u64;
        counts.random_next += u64::from(shown.next_sentence_labels[before] == 1);
        let ids = shown.input_ids[before * s..].iter().chain(&shown.masked_lm_ids[before * m..]);
        counts.largest_id = ids.fold(counts.largest_id, |most, &id| most.max(id));
        // The first stays in any case: the others must be of its shape.
        if before >= count.max(1) {
            shown.truncate(before);
        }
    }
    let skipped = reader.into_skipped();
    if counts.records == 0 {
        let origin = file.display().to_string();
        return Err(skipped.first.unwrap_or(wgpu_bert::data::Error::NoRecords { origin }).into());
    }
    Ok(RecordsSummary { shown, counts, skipped })
}

fn text(flags: &InspectFlags, path: &Path, vocabulary: Option<Vocabulary>) -> Result<(), CliError> {
    let source = || vec![TextSource::File(path.into())];
    let options = TextOptions {
        documents_run_on: false,
        json_field: flags.json_field.clone(),
        threads: default_threads(),
    };
    let mut reporter = Reporter::new(|_| ("text", "bytes"))?;
    let vocabulary = match vocabulary {
        Some(vocabulary) => vocabulary,
        None => {
            let words = pollster::block_on(count_words(source(), &options, &mut |progress| {
                reporter.progress(progress)
            }));
            let wanted = VocabularyOptions {
                size: VOCABULARY_SIZE,
                do_lower_case: flags.do_lower_case,
                strip_accents: flags.strip_accents,
                ..VocabularyOptions::default()
            };
            let vocabulary = reporter.finish(words)?.train(&wanted)?;
            let size = vocabulary.size();
            output::note(format_args!("Tokens are those of a vocabulary of {size}, trained from the text."));
            vocabulary
        }
    };
    let tokenizer = Tokenizer::new(vocabulary, flags.do_lower_case).with_strip_accents(flags.strip_accents);
    let survey = survey_text(source(), &tokenizer, &options, &mut |progress| reporter.progress(progress));
    let survey = reporter.finish(survey)?;

    let instances =
        InstanceOptions { max_seq_length: flags.step.max_seq_length, dupe_factor: 1, ..Default::default() };
    let made = create_instances(&survey.sample, tokenizer.vocabulary(), &instances).or_else(|error| {
        output::note(error);
        let without = InstanceOptions { use_next_sentence_label: false, ..instances };
        create_instances(&survey.sample, tokenizer.vocabulary(), &without)
    })?;
    let shown = 0..made.count().min(flags.count);
    let examples: Vec<_> = shown.map(|n| example(&made, n, Some(tokenizer.vocabulary()))).collect();
    let random_next = made.next_sentence_labels.iter().filter(|&&label| label == 1).count();
    let random_next = random_next as f64 / made.count() as f64;
    let TextSurvey { documents, sentences, longest_document, tokens, unknown, undecodable, .. } = survey;
    if flags.json {
        return output::result(json!({
            "kind": "text",
            "documents": documents,
            "sentences": sentences,
            "longest_document": longest_document,
            "tokens": tokens,
            "unknown": unknown,
            "undecodable": undecodable,
            "random_next_share": random_next,
            "examples": examples,
        }));
    }
    output::result(format_args!(
        "{}: {documents} documents of {:.1} sentences (the longest has {longest_document}), {sentences} sentences of \
         {:.1} tokens, {tokens} tokens ({:.2} % [UNK])",
        path.display(),
        sentences as f64 / documents as f64,
        tokens as f64 / sentences as f64,
        100.0 * unknown as f64 / tokens as f64,
    ))?;
    if undecodable > 0 {
        output::result(format_args!("{undecodable} bytes are not UTF-8"))?;
    }
    output::result(format_args!(
        "Of examples of {} tokens {:.1} % have a random next sentence",
        flags.step.max_seq_length,
        100.0 * random_next
    ))?;
    examples.into_iter().try_for_each(output::result)
}
