//! A trained model: guesses, and its files in a zip archive.

use std::cell::RefCell;
use std::io::{Cursor, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use wasm_bindgen::prelude::*;
use zip::result::ZipResult;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::event::EvaluationView;
use super::guesses::GuessesView;
use super::options::{EvaluationOptions, from_js};
use super::prepare::RecordsWanted;
use super::resolve::resolve;
use super::survey::derive;
use super::text::Reading;
use super::{Rejection, to_js};
use crate::checkpoint::{ModelFolder, names};
use crate::data::{InstanceOptions, Tokenizer, TrainingData, Vocabulary};
use crate::gpu::{DeviceOptions, Gpu};
use crate::model::config::BertConfig;
use crate::train::{Predictor, Snapshot, evaluate};

/// Examples evaluated at once where nothing is said.
const EVAL_BATCH_SIZE: usize = 32;

/// A file: its name, for messages, and its bytes.
#[derive(Deserialize)]
struct File {
    name: String,
    bytes: ByteBuf,
}

/// A model in the worker's memory.
#[wasm_bindgen]
pub struct Model {
    folder: ModelFolder,
    tokenizer: Tokenizer,
    /// Opened by the first guess.
    gpu: RefCell<Option<Arc<Gpu>>>,
    /// Compiled for the guesses so far.
    predictor: RefCell<Option<Predictor>>,
}

impl Model {
    pub(super) fn new(folder: ModelFolder, tokenizer: Tokenizer) -> Self {
        Self { folder, tokenizer, gpu: RefCell::default(), predictor: RefCell::default() }
    }

    /// Of the files of a folder.
    fn of_files(files: Vec<(String, Vec<u8>)>) -> Result<Self, Rejection> {
        let folder = ModelFolder::from_files(&files, "the model")?;
        let vocabulary = Vocabulary::parse(&folder.vocabulary, "vocab.txt").map_err(Rejection::model_file)?;
        let tokenizer =
            Tokenizer::new(vocabulary, folder.do_lower_case).with_strip_accents(folder.strip_accents);
        Ok(Self::new(folder, tokenizer))
    }

    /// The device of the guesses; a new one where it was lost.
    async fn gpu(&self) -> Result<Arc<Gpu>, Rejection> {
        if let Some(gpu) = self.gpu.borrow().as_ref().filter(|gpu| gpu.check().is_ok()) {
            return Ok(gpu.clone());
        }
        let gpu = Arc::new(derive(Some("auto")).await?.open(DeviceOptions::default()).await?);
        self.gpu.replace(Some(gpu.clone()));
        Ok(gpu)
    }

    /// Those of a text, or of records.
    async fn examples(
        &self,
        reading: &Reading,
        options: &EvaluationOptions,
    ) -> Result<TrainingData, Rejection> {
        let next_sentence =
            self.folder.tensors.iter().any(|tensor| tensor.name.starts_with("cls.seq_relationship."));
        if reading.holds_records() {
            let shape = (options.max_seq_length, options.max_predictions_per_seq);
            let skip_bad = options.skip_bad_records.unwrap_or(false);
            let wanted = RecordsWanted { next_sentence, skip_bad, shape };
            return Ok(reading.records(&wanted, self.tokenizer.vocabulary()).await?.into());
        }
        let reference = InstanceOptions::default();
        let most = self.folder.config.max_position_embeddings;
        let wanted = InstanceOptions {
            max_seq_length: options.max_seq_length.unwrap_or(reference.max_seq_length.min(most)),
            max_predictions_per_seq: options
                .max_predictions_per_seq
                .unwrap_or(reference.max_predictions_per_seq),
            dupe_factor: 1,
            random_seed: options.seed.unwrap_or(reference.random_seed),
            use_next_sentence_label: next_sentence,
            ..reference
        };
        let (instances, _) =
            reading.make_examples(&self.tokenizer, &wanted, options.max_tokens_in_memory).await?;
        Ok(instances.into())
    }

    async fn guesses(&self, text: &str, top_k: usize) -> Result<GuessesView, Rejection> {
        let gpu = self.gpu().await?;
        let ModelFolder { config, tensors, .. } = &self.folder;
        // Another question may be under way with it.
        let predictor = self.predictor.take().filter(|predictor| Arc::ptr_eq(predictor.gpu(), &gpu));
        let mut predictor = predictor.unwrap_or_else(|| Predictor::new(gpu));
        let filled = predictor.fill_masks(config, tensors, &self.tokenizer, &[text], top_k).await;
        self.predictor.replace(Some(predictor));
        filled?
            .into_iter()
            .next()
            .map(Into::into)
            .ok_or_else(|| Rejection::option("text", "nothing was guessed"))
    }
}

#[wasm_bindgen]
impl Model {
    /// The model's sizes.
    ///
    /// # Errors
    /// None that a caller could cause.
    #[wasm_bindgen(getter)]
    pub fn config(&self) -> Result<JsValue, JsValue> {
        Ok(to_js(&ConfigView::from(&self.folder.config))?)
    }

    /// `fillMask(text, topK)`: the likeliest tokens for every `[MASK]` of a text.
    ///
    /// # Errors
    /// An `OptionError` for a text without a mask, a `StrategyError` where there is no device, a `DeviceError` when it
    /// fails.
    #[wasm_bindgen(js_name = fillMask)]
    pub async fn fill_mask(&self, text: String, top_k: usize) -> Result<JsValue, JsValue> {
        Ok(to_js(&self.guesses(&text, top_k).await?)?)
    }

    /// `evaluate(reading, options)`: losses and accuracies over all examples of a text or records.
    ///
    /// # Errors
    /// An `OptionError` that names the option; a `TextError`, a `RecordsError`, an `AbortError`; a `StrategyError` where there
    /// is no device, a `DeviceError` when it fails.
    pub async fn evaluate(&self, reading: Reading, options: JsValue) -> Result<JsValue, JsValue> {
        let options: EvaluationOptions = from_js(options)?;
        let data = self.examples(&reading, &options).await?;
        let gpu = self.gpu().await?;
        let batch_size = options.batch_size.unwrap_or(EVAL_BATCH_SIZE);
        let ModelFolder { config, tensors, .. } = &self.folder;
        let instances = data.count() as u64;
        let told = |done| reading.tell("evaluation", done as u64, Some(instances));
        let evaluation = evaluate(&gpu, config, tensors, data, batch_size, told).await;
        Ok(to_js(&EvaluationView::from(evaluation.map_err(Rejection::from)?))?)
    }

    /// `exportHuggingFace()`: the files that Hugging Face reads, in a zip archive. Weights do not get smaller by
    /// compression, so nothing is compressed.
    ///
    /// # Errors
    /// None for a model that was trained or loaded here.
    #[wasm_bindgen(js_name = exportHuggingFace)]
    pub fn export_hugging_face(&self) -> Result<Vec<u8>, JsValue> {
        let files = self.folder.to_files().map_err(Rejection::from)?;
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        let written = files.into_iter().try_for_each(|(name, bytes)| {
            archive.start_file(name, options)?;
            Ok(archive.write_all(&bytes)?)
        });
        let archive = written.and_then(|()| archive.finish()).map_err(Rejection::model_file)?;
        Ok(archive.into_inner())
    }
}

/// `loadModel(files)`: a model of the files of a Hugging Face folder, an array of `{ name, bytes }`; a single file is an
/// archive of them.
///
/// # Errors
/// A `ModelFileError` that names the file, and in it the key or the tensor.
#[wasm_bindgen(js_name = loadModel)]
pub fn load_model(files: JsValue) -> Result<Model, JsValue> {
    let files: Vec<File> = serde_wasm_bindgen::from_value(files).map_err(Rejection::from)?;
    let files = match &files[..] {
        [File { name, bytes }] => unzip(bytes).map_err(|error| {
            let what = "give a zip archive of a Hugging Face folder, or all files of the folder";
            Rejection::model_file(format!("{name} is not a whole zip archive: {error}; {what}"))
        })?,
        _ => files.into_iter().map(|File { name, bytes }| (name, bytes.into_vec())).collect(),
    };
    Ok(Model::of_files(files)?)
}

/// The files of an archive, without the folders they lie in.
fn unzip(bytes: &[u8]) -> ZipResult<Vec<(String, Vec<u8>)>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    let mut files = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        if entry.is_file() {
            let name = entry.name()?.rsplit('/').next().unwrap_or_default().to_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            files.push((name, content));
        }
    }
    Ok(files)
}

/// `loadSnapshot(options, vocabulary, step, bytes)`: the model of a saved run.
///
/// # Errors
/// As the run with these options; a `ModelFileError` for bytes that are no snapshot of it.
#[wasm_bindgen(js_name = loadSnapshot)]
pub fn load_snapshot(options: JsValue, vocabulary: &str, step: f64, bytes: &[u8]) -> Result<Model, JsValue> {
    let mut run = resolve(from_js(options)?)?;
    let vocabulary =
        Vocabulary::parse(vocabulary, "the vocabulary of the saved run").map_err(Rejection::from)?;
    run.options.config.vocab_size = vocabulary.size();
    let snapshot = Snapshot::from_safetensors(step as u64, Duration::ZERO, bytes, "the snapshot")
        .map_err(Rejection::from)?;
    let tensors = snapshot.into_model(&run.options);
    names::check_complete(&run.options.config, &tensors, "the snapshot").map_err(Rejection::from)?;
    let tokenizer = Tokenizer::new(vocabulary, run.do_lower_case);
    Ok(Model::new(run.into_folder(tensors, &tokenizer), tokenizer))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigView {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: &'static str,
    hidden_dropout_prob: f64,
    attention_probs_dropout_prob: f64,
    max_position_embeddings: usize,
    initializer_range: f64,
}

impl From<&BertConfig> for ConfigView {
    fn from(config: &BertConfig) -> Self {
        Self {
            vocab_size: config.vocab_size,
            hidden_size: config.hidden_size,
            num_hidden_layers: config.num_hidden_layers,
            num_attention_heads: config.num_attention_heads,
            intermediate_size: config.intermediate_size,
            hidden_act: config.hidden_act.hugging_face_name(),
            hidden_dropout_prob: config.hidden_dropout_prob,
            attention_probs_dropout_prob: config.attention_probs_dropout_prob,
            max_position_embeddings: config.max_position_embeddings,
            initializer_range: config.initializer_range,
        }
    }
}
