//! From input files to what a run trains on, and the vocabulary.

use std::path::{Path, PathBuf};

use wgpu_bert::checkpoint::CheckpointError;
use wgpu_bert::data::{
    self, Disk, Features, InstanceOptions, TextData, TextSource, Tokenizer, TrainingData, Vocabulary,
    VocabularyOptions, count_words,
};

use super::super::error::CliError;
use super::super::examples::example;
use super::super::input::{self, Input};
use super::super::output;
use super::super::text_progress::Reporter;
use super::record::checksum;
use super::resolve::{PretrainArgs, VocabularySource};

/// Examples shown.
const EXAMPLES: usize = 3;

/// What a run needs besides its options.
pub struct Prepared {
    pub tokenizer: Tokenizer,
    pub data: TrainingData,
    /// Of all that is trained on.
    pub checksum: String,
    /// Of all that the model is evaluated on.
    pub eval_checksum: Option<String>,
}

/// Read the input, text or records, and the vocabulary. The model gets as many words as the vocabulary has, and examples
/// the shape that records have.
pub fn prepare(args: &mut PretrainArgs) -> Result<Prepared, CliError> {
    let input = args.input_files.as_deref().map(input::find).transpose()?;
    let mut prepared = match input {
        None => of_text(vec![TextSource::Bundled], args)?,
        Some(Input::Text(sources)) => of_text(sources, args)?,
        Some(Input::Records(paths)) => of_records(&paths, args)?,
    };
    if args.dynamic_masking {
        let vocabulary = prepared.tokenizer.vocabulary();
        prepared.data = prepared.data.with_dynamic_masking(vocabulary, &args.instances)?;
    }
    if let Some(names) = &args.eval_files {
        let mut held_out = held_out(names, &prepared.tokenizer, args)?;
        prepared.eval_checksum = Some(checksum(&mut held_out)?);
        prepared.data = prepared.data.with_evaluation(held_out);
    }
    Ok(prepared)
}

/// The examples of --eval_files. A text is gone through once: other masks would make no other text of it.
fn held_out(names: &[String], tokenizer: &Tokenizer, args: &PretrainArgs) -> Result<TrainingData, CliError> {
    output::note("For evaluation:");
    match input::find(names)? {
        Input::Text(sources) => {
            let options = InstanceOptions { dupe_factor: 1, ..args.instances.clone() };
            Ok(input::of_text(sources, tokenizer, &options, &disk(args))?.instances.into())
        }
        Input::Records(paths) => {
            let next_sentence = args.options.use_next_sentence_label;
            let size = tokenizer.vocabulary().size();
            // Flags about shapes are about what is trained on.
            let any = (None, None);
            Ok(input::of_records(&paths, next_sentence, any, size, args.skip_bad_records, &disk(args))?
                .into())
        }
    }
}

fn of_text(sources: Vec<TextSource>, args: &mut PretrainArgs) -> Result<Prepared, CliError> {
    let (seq_length, positions) =
        (args.instances.max_seq_length, args.options.config.max_position_embeddings);
    if seq_length > positions {
        let origin = "--max_seq_length".into();
        return Err(
            data::Error::SequenceTooLong { origin, seq_length, max_position_embeddings: positions }.into()
        );
    }
    args.instances.check()?;
    let (vocabulary, origin) = match given_vocabulary(&args.vocabulary)? {
        Ok(given) => given,
        Err(size) => {
            output::note(format_args!("Training a vocabulary of up to {size} word pieces"));
            let mut reporter = Reporter::new(|_| ("words counted", "bytes"))?;
            let words =
                pollster::block_on(count_words(sources.clone(), &input::text_options(), &mut |progress| {
                    reporter.progress(progress)
                }));
            let options = VocabularyOptions {
                size,
                do_lower_case: args.do_lower_case,
                strip_accents: args.strip_accents,
                ..VocabularyOptions::default()
            };
            (reporter.finish(words)?.train(&options)?, "the trained vocabulary".into())
        }
    };
    let tokenizer = tokenizer(args, vocabulary, origin)?;
    let made = input::of_text(sources, &tokenizer, &args.instances, &disk(args))?;
    let TextData { mut instances, checksum, .. } = made;
    show(&instances.features(0..EXAMPLES.min(instances.count()))?, &tokenizer);
    Ok(Prepared { tokenizer, data: instances.into(), checksum, eval_checksum: None })
}

fn of_records(paths: &[PathBuf], args: &mut PretrainArgs) -> Result<Prepared, CliError> {
    let origin = || paths[0].display().to_string();
    // Their examples are as they are, so flags about making examples have nothing to act on.
    if let Some(flag) = args.flags_for_text.first() {
        return Err(CliError::FlagForText { flag, origin: origin() });
    }
    let Ok((vocabulary, name)) = given_vocabulary(&args.vocabulary)? else {
        return Err(CliError::RecordsNeedVocabulary { origin: origin() });
    };
    let tokenizer = tokenizer(args, vocabulary, name)?;
    let next_sentence = args.options.use_next_sentence_label;
    let size = tokenizer.vocabulary().size();
    let (shape, disk) = (args.given_shape, disk(args));
    let records = input::of_records(paths, next_sentence, shape, size, args.skip_bad_records, &disk)?;
    args.instances.max_seq_length = records.seq_length();
    args.instances.max_predictions_per_seq = records.predictions();
    show(records.examples(), &tokenizer);
    let checksum = records.checksum().to_owned();
    Ok(Prepared { tokenizer, data: records.into(), checksum, eval_checksum: None })
}

/// The vocabulary and its name, or the size of one to be trained.
fn given_vocabulary(source: &VocabularySource) -> Result<Result<(Vocabulary, String), usize>, CliError> {
    Ok(match source {
        VocabularySource::File(path) => Ok((Vocabulary::load(path)?, path.display().to_string())),
        VocabularySource::Given(text, origin) => Ok((Vocabulary::parse(text, origin)?, origin.clone())),
        VocabularySource::Trained(size) => Err(*size),
    })
}

/// The tokenizer of a vocabulary, which the model must have room for; `origin` names it in errors.
fn tokenizer(args: &mut PretrainArgs, vocabulary: Vocabulary, origin: String) -> Result<Tokenizer, CliError> {
    let config = &mut args.options.config;
    if !args.vocab_size_is_fixed {
        config.vocab_size = vocabulary.size();
    } else if vocabulary.size() > config.vocab_size {
        let (entries, vocab_size) = (vocabulary.size(), config.vocab_size);
        return Err(CheckpointError::Vocabulary { file: origin, entries, vocab_size }.into());
    }
    Ok(Tokenizer::new(vocabulary, args.do_lower_case).with_strip_accents(args.strip_accents))
}

/// So that what is masked can be judged before anything is trained.
fn show(examples: &Features, tokenizer: &Tokenizer) {
    for n in 0..examples.count().min(EXAMPLES) {
        output::note(example(examples, n, Some(tokenizer.vocabulary())));
    }
}

/// The disk that the run is written to has room; that of temporary files may be memory.
fn disk(args: &PretrainArgs) -> Disk {
    Disk::at(&existing(&args.model_dir))
}

/// The folder, or the one it will be in.
fn existing(folder: &Path) -> PathBuf {
    // A relative path has an ancestor that exists.
    let path = Path::new(".").join(folder);
    path.ancestors().find(|path| path.is_dir()).unwrap_or(&path).to_owned()
}
