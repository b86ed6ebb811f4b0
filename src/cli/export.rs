//! `wgpu-bert export`: a trained model as a folder for other programs.

use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use serde_json::json;
use wgpu_bert::checkpoint::import::{ImportSource, Imported, import};
use wgpu_bert::checkpoint::names::is_of_next_sentence;
use wgpu_bert::checkpoint::{ModelFolder, NewFolder, RunFolder};
use wgpu_bert::data::{Tokenizer, Vocabulary};
use wgpu_bert::model::config::BertConfig;

use super::error::CliError;
use super::output;
use super::pretrain::{list_tensors, read_config_file};

/// Write a trained model as a folder for other programs, without what only training needs
///
/// huggingface: config.json, model.safetensors and the tokenizer, for BertForPreTraining and what is built upon it. onnx:
/// onnx/model.onnx, which fills masks, config.json and the tokenizer, for onnxruntime and transformers.js.
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct ExportFlags {
    /// Folder of a model or a checkpoint, as `wgpu-bert pretrain` saves it, or weights that its --init_checkpoint takes
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Who is to read it
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// Folder to write; nothing may be in it
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Configuration of weights that come without one, as TensorFlow or Hugging Face has it
    #[arg(long, value_name = "FILE")]
    bert_config_file: Option<PathBuf>,
    /// WordPiece vocabulary of weights that come without one
    #[arg(long, value_name = "FILE")]
    vocab_file: Option<PathBuf>,
    /// Whether the model's text is lower-cased [default: as its folder says, or true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    do_lower_case: Option<bool>,
    /// Whether its accents are stripped [default: as its folder says, or as do_lower_case]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    strip_accents: Option<bool>,
    /// Print what was written as a JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Format {
    Huggingface,
    Onnx,
}

pub fn run(flags: &ExportFlags) -> Result<(), CliError> {
    let place = NewFolder::at(&flags.output_dir)?;
    let model = model(flags, open(&flags.model)?)?;
    let files = match flags.format {
        Format::Huggingface => model.to_files()?,
        Format::Onnx => model.into_onnx_files()?,
    };
    place.write(&files)?;
    let dir = flags.output_dir.display();
    let files: Vec<_> = files.into_iter().map(|(name, _)| name).collect();
    output::note(format_args!("Written in {dir}: {}", files.join(", ")));
    if flags.json {
        return output::result(json!({"kind": "done", "output_dir": dir.to_string(), "files": files}));
    }
    Ok(())
}

fn open(path: &Path) -> Result<ImportSource, CliError> {
    let checkpoints = if path.is_dir() { RunFolder::checkpoints(path)? } else { Vec::new() };
    if let Some((_, newest)) = checkpoints.last().filter(|_| !path.join("model.safetensors").exists()) {
        return Err(CliError::NoFinalModel { dir: path.into(), newest: newest.clone() });
    }
    Ok(ImportSource::open(path)?)
}

fn model(flags: &ExportFlags, mut source: ImportSource) -> Result<ModelFolder, CliError> {
    let origin = source.name.clone();
    let config = config(flags, &mut source)?;
    let vocabulary = vocabulary(flags, &source)?;
    let do_lower_case = flags.do_lower_case.or(source.do_lower_case).unwrap_or(true);
    let strip_accents = flags.strip_accents.or(source.strip_accents);
    let Imported { matched: mut tensors, missing, unexpected } = import(&config, &mut source)?;
    drop(source); // As large as the tensors.
    if !unexpected.is_empty() {
        output::note(format_args!(
            "In {origin}, but no part of the model, so left out:{}",
            list_tensors(&unexpected)
        ));
    }
    if missing.iter().any(|(name, _)| name.starts_with("cls.predictions.")) {
        return Err(CliError::NoMaskedLmHead { origin });
    }
    if !missing.is_empty() {
        // A pooler alone is of no use.
        tensors.retain(|tensor| !is_of_next_sentence(&tensor.name));
        output::note(format_args!("{origin} has no next-sentence head, and so the export has none."));
    }
    if let Some(tensor) = tensors.iter().find(|tensor| !tensor.data.iter().all(|value| value.is_finite())) {
        return Err(CliError::NotFinite { origin, tensor: tensor.name.clone() });
    }
    let tokenizer = Tokenizer::new(vocabulary, do_lower_case).with_strip_accents(strip_accents);
    Ok(ModelFolder {
        config,
        tensors,
        vocabulary: tokenizer.vocabulary().to_text(),
        do_lower_case,
        strip_accents,
        tokenizer_json: Some(tokenizer.to_tokenizer_json()),
    })
}

fn config(flags: &ExportFlags, source: &mut ImportSource) -> Result<BertConfig, CliError> {
    match (&flags.bert_config_file, source.config.take()) {
        (None, Some(config)) => Ok(config),
        (Some(path), None) => Ok(read_config_file(path)?.0),
        (None, None) => Err(CliError::WeightsNeedConfig { origin: source.name.clone() }),
        (Some(_), Some(_)) => Err(needless("bert_config_file", source)),
    }
}

fn vocabulary(flags: &ExportFlags, source: &ImportSource) -> Result<Vocabulary, CliError> {
    match (&flags.vocab_file, &source.vocabulary) {
        (None, Some(text)) => Ok(Vocabulary::parse(text, &format!("the vocab.txt beside {}", source.name))?),
        (Some(path), None) => Ok(Vocabulary::load(path)?),
        (None, None) => Err(CliError::WeightsNeedVocabulary { origin: source.name.clone() }),
        (Some(_), Some(_)) => Err(needless("vocab_file", source)),
    }
}

/// Two of a thing, and no way to tell which one the weights were trained with.
fn needless(flag: &'static str, source: &ImportSource) -> CliError {
    CliError::HasItsOwn { flag, origin: source.name.clone() }
}
