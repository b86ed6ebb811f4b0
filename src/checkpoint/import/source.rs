//! What a path given as the start of a run names, and what lies beside the weights.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use super::super::checksums;
use super::super::model_folder::{
    CONFIG, TOKENIZER_CONFIG, VOCABULARY, WEIGHTS, read_do_lower_case, read_flag,
};
use super::super::storage::io_error;
use super::super::tensor_bundle::{TensorBundle, find_prefix, folder_of};
use super::super::{CheckpointError, TensorFile};
use crate::model::config::BertConfig;

/// The configuration beside a checkpoint of TensorFlow, as Google's archives have it.
const BERT_CONFIG: &str = "bert_config.json";

/// A model of another program or run, read but for its weights.
#[derive(Debug)]
pub struct ImportSource {
    /// The file of the weights or the name of the checkpoint, for messages.
    pub name: String,
    /// Where they are.
    pub weights: ImportWeights,
    /// What lies beside them and says what the model is.
    pub config: Option<BertConfig>,
    /// The text of a `vocab.txt` beside them.
    pub vocabulary: Option<String>,
    /// Whether the tokenizer beside them lower-cases, where it says so.
    pub do_lower_case: Option<bool>,
    /// Whether it strips accents, where it says so.
    pub strip_accents: Option<bool>,
}

/// Weights in one of the forms that can be read.
#[derive(Debug)]
pub enum ImportWeights {
    /// The bytes of a safetensors file.
    Safetensors(Vec<u8>),
    /// A checkpoint of TensorFlow.
    TensorFlow(TensorBundle<File>),
}

impl ImportSource {
    /// Opens a folder with `config.json` and `model.safetensors`, a safetensors file alone, or a checkpoint of TensorFlow:
    /// by its prefix (`bert_model.ckpt`), by one of its files, or by its folder, which means the latest.
    ///
    /// # Errors
    /// Names the file that is missing or cannot be read, and what is wrong with it.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let is_ours = path.join(WEIGHTS).exists();
        if let Some(prefix) = if is_ours { None } else { find_prefix(path)? } {
            return Self::tensorflow(&prefix);
        }
        if path.is_dir() {
            return Self::folder(path);
        }
        let name = path.display().to_string();
        let none = || io_error("read", path)(ErrorKind::NotFound.into());
        let weights = safetensors(checksums::read(path)?.ok_or_else(none)?, &name)?;
        Ok(Self { name, weights, config: None, vocabulary: None, do_lower_case: None, strip_accents: None })
    }

    fn folder(path: &Path) -> Result<Self, CheckpointError> {
        let need = |file: &'static str| {
            let missing = || CheckpointError::MissingFile { folder: path.display().to_string(), file };
            checksums::read(&path.join(file))?.ok_or_else(missing)
        };
        need(CONFIG)?;
        let name = path.join(WEIGHTS).display().to_string();
        let weights = safetensors(need(WEIGHTS)?, &name)?;
        Self::beside(name, weights, path, &[CONFIG])
    }

    fn tensorflow(prefix: &Path) -> Result<Self, CheckpointError> {
        let weights = ImportWeights::TensorFlow(TensorBundle::open(prefix)?);
        let name = prefix.display().to_string();
        Self::beside(name, weights, folder_of(prefix), &[BERT_CONFIG, CONFIG])
    }

    /// With what `folder` says of the model; its configuration has one of the names `configs`.
    fn beside(
        name: String,
        weights: ImportWeights,
        folder: &Path,
        configs: &[&'static str],
    ) -> Result<Self, CheckpointError> {
        let mut config = None;
        for file in configs {
            if let Some(found) = text(folder, file)?.filter(|_| config.is_none()) {
                config = Some(BertConfig::from_json(&found, &folder.join(file).display().to_string())?);
            }
        }
        let vocabulary = text(folder, VOCABULARY)?;
        let tokenizer = folder.join(TOKENIZER_CONFIG).display().to_string();
        let (do_lower_case, strip_accents) = match text(folder, TOKENIZER_CONFIG)? {
            Some(text) => {
                (Some(read_do_lower_case(&text, &tokenizer)?), read_flag(&text, &tokenizer, "strip_accents")?)
            }
            None => (None, None),
        };
        Ok(Self { name, weights, config, vocabulary, do_lower_case, strip_accents })
    }
}

/// What is no such file is told at once, and not when the weights are needed.
fn safetensors(bytes: Vec<u8>, name: &str) -> Result<ImportWeights, CheckpointError> {
    TensorFile::parse(&bytes, name)?;
    Ok(ImportWeights::Safetensors(bytes))
}

fn text(folder: &Path, file: &str) -> Result<Option<String>, CheckpointError> {
    let utf8 = |bytes| {
        String::from_utf8(bytes).map_err(|error| {
            let position = error.utf8_error().valid_up_to();
            CheckpointError::NotText { file: folder.join(file).display().to_string(), position }
        })
    };
    checksums::read(&folder.join(file))?.map(utf8).transpose()
}
