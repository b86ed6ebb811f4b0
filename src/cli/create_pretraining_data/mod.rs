//! `wgpu-bert create-pretraining-data`: text → files of training examples.

mod flags;

use std::path::PathBuf;

use serde_json::json;
use wgpu_bert::data::{
    FeatureNames, Generated, GeneratorOptions, InstanceOptions, Stage, TextOptions, Tokenizer, Vocabulary,
    create_pretraining_data,
};

pub use flags::CreatePretrainingDataFlags;

use super::error::CliError;
use super::examples::example;
use super::text_progress::Reporter;
use super::{default_threads, input, input_files, output, output_files};
use flags::Compat;

pub fn run(flags: CreatePretrainingDataFlags) -> Result<(), CliError> {
    let sources = input_files::text_sources("input_file", &flags.input_file)?;
    let tokenizer = Tokenizer::new(Vocabulary::load(&flags.vocab_file)?, flags.do_lower_case)
        .with_strip_accents(flags.strip_accents)
        .with_max_chars_per_word(flags.max_chars_per_word);
    let options = options(&flags)?;
    output_files::check(&options.outputs, &sources, Some(&flags.vocab_file))?;
    let mut reporter = Reporter::new(|stage| match stage {
        Stage::Tokenizing => ("pass 1 of 3, text to tokens", "bytes"),
        Stage::Pairing => ("pass 2 of 3, sentences to examples", "sentences"),
        Stage::Checking | Stage::Writing => ("pass 3 of 3, examples to files", "examples"),
    })?;
    let made =
        create_pretraining_data(sources, &tokenizer, &options, &mut |progress| reporter.progress(progress));
    tell(&reporter.finish(made)?, &options, &tokenizer, flags.json)
}

fn options(flags: &CreatePretrainingDataFlags) -> Result<GeneratorOptions, CliError> {
    let outputs = input_files::names("output_file", &flags.output_file)?;
    let names = match flags.use_v2_feature_names {
        true => FeatureNames::V2,
        false => FeatureNames::V1,
    };
    Ok(GeneratorOptions {
        instances: InstanceOptions {
            max_seq_length: flags.max_seq_length,
            max_predictions_per_seq: flags.max_predictions_per_seq,
            dupe_factor: flags.dupe_factor,
            masked_lm_prob: flags.masked_lm_prob,
            short_seq_prob: flags.short_seq_prob,
            random_seed: flags.random_seed,
            whole_word_mask: flags.do_whole_word_mask,
            max_ngram_size: flags.max_ngram_size,
            use_next_sentence_label: flags.use_next_sentence_label,
            first_segment_tokens: None,
        },
        reference_order: flags.compat == Some(Compat::Seed),
        text: TextOptions {
            documents_run_on: flags.documents_run_on || flags.compat == Some(Compat::Seed),
            json_field: flags.json_field.clone(),
            threads: flags.threads.unwrap_or_else(default_threads),
        },
        outputs: outputs.into_iter().map(PathBuf::from).collect(),
        gzip: flags.gzip_compress,
        names,
    })
}

fn tell(
    made: &Generated,
    options: &GeneratorOptions,
    tokenizer: &Tokenizer,
    json: bool,
) -> Result<(), CliError> {
    let Generated { report, undecodable, empty_files, examples } = made;
    input::tell_text(report, *undecodable, *empty_files);
    for n in 0..examples.count() {
        output::note(example(examples, n, Some(tokenizer.vocabulary())));
    }
    let files: Vec<_> = options.outputs.iter().map(|path| path.display().to_string()).collect();
    output::note(format_args!("Written: {}", files.join(", ")));
    if json {
        return output::result(json!({
            "kind": "done",
            "documents": report.documents,
            "sentences": report.sentences,
            "tokens": report.tokens,
            "unknown": report.unknown,
            "instances": report.instances,
            "random_next": report.random_next,
            "undecodable": undecodable,
            "output_files": files,
        }));
    }
    Ok(())
}
