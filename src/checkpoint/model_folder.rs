//! A trained model as the files Hugging Face reads: `config.json`, `model.safetensors`, `vocab.txt`,
//! `tokenizer_config.json`, `tokenizer.json`. Bytes in, bytes out; the disk is the business of `save` and `load`.
//!
//! ```no_run
//! use wgpu_bert::checkpoint::ModelFolder;
//!
//! let model = ModelFolder::load("my-model".as_ref())?;
//! println!("{} words", model.vocabulary.lines().count());
//! model.save("copy".as_ref())?;
//! # Ok::<(), wgpu_bert::checkpoint::CheckpointError>(())
//! ```

use serde_json::{Value, json};

use super::{CheckpointError, NamedTensor, TensorFile, names, safetensors};
use crate::model::config::BertConfig;

pub(super) const CONFIG: &str = "config.json";
pub(super) const WEIGHTS: &str = "model.safetensors";
pub(super) const VOCABULARY: &str = "vocab.txt";
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";

/// A model with its vocabulary, as one unit that is saved and loaded together.
///
/// The folder of a run is always a whole `BertForPreTraining`. A model trained without the next-sentence task writes
/// pooler and next-sentence head with the values they started from, as the reference does: every program that reads
/// such a folder finds all it asks for, and the masked-LM predictions do not depend on them. Folders of
/// `BertForMaskedLM`, which lack those four tensors, are read, and written of such a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFolder {
    /// Sizes of the model.
    pub config: BertConfig,
    /// The parameters, in the order of [`parameter_shapes`](crate::model::parameters::parameter_shapes).
    pub tensors: Vec<NamedTensor>,
    /// The text of `vocab.txt`: a word piece a line, its id the line's number from 0.
    pub vocabulary: String,
    /// Whether text is lower-cased before it is cut into word pieces.
    pub do_lower_case: bool,
    /// Whether it is stripped of accents; `None`: as `do_lower_case`.
    pub strip_accents: Option<bool>,
    /// The text of `tokenizer.json`, which fast tokenizers prefer to `vocab.txt`; a folder may do without.
    pub tokenizer_json: Option<String>,
}

impl ModelFolder {
    /// The files of the folder, by name.
    ///
    /// # Errors
    /// [`CheckpointError::TensorNames`], [`CheckpointError::TensorShape`] or [`CheckpointError::Unstorable`] if
    /// `tensors` are not the parameters of `config`; [`CheckpointError::Vocabulary`] if it is larger than the model's;
    /// [`CheckpointError::Config`].
    pub fn to_files(&self) -> Result<Vec<(&'static str, Vec<u8>)>, CheckpointError> {
        let architecture = self.check()?;
        let mut files = vec![
            (CONFIG, format!("{:#}\n", self.config.to_hugging_face(architecture)).into_bytes()),
            (VOCABULARY, self.vocabulary.clone().into_bytes()),
            (TOKENIZER_CONFIG, self.tokenizer_config().into_bytes()),
            (WEIGHTS, safetensors::write(&self.tensors)?),
        ];
        if let Some(text) = &self.tokenizer_json {
            files.push((TOKENIZER, text.clone().into_bytes()));
        }
        Ok(files)
    }

    /// Reads and checks the files of a folder. Files of other names are passed over; `folder` is for messages.
    ///
    /// # Errors
    /// Names the file, and in it the key or the tensor, for whatever is missing, damaged or does not fit the rest.
    pub fn from_files(files: &[(String, Vec<u8>)], folder: &str) -> Result<Self, CheckpointError> {
        let path = |name: &str| format!("{folder}/{name}");
        let find = |wanted: &'static str| {
            files.iter().find(|(name, _)| name == wanted).map(|(_, bytes)| bytes.as_slice())
        };
        let need = |file: &'static str| {
            find(file).ok_or_else(|| CheckpointError::MissingFile { folder: folder.into(), file })
        };
        let text = |name: &'static str, bytes| -> Result<&str, CheckpointError> {
            str::from_utf8(bytes)
                .map_err(|error| CheckpointError::NotText { file: path(name), position: error.valid_up_to() })
        };
        let (config, weights, vocabulary) = (need(CONFIG)?, need(WEIGHTS)?, need(VOCABULARY)?);
        let config = BertConfig::from_json(text(CONFIG, config)?, &path(CONFIG))?;
        let vocabulary = text(VOCABULARY, vocabulary)?.to_owned();
        check_vocabulary(&vocabulary, &config, &path(VOCABULARY))?;
        let (do_lower_case, strip_accents) = match find(TOKENIZER_CONFIG) {
            Some(bytes) => {
                let (text, path) = (text(TOKENIZER_CONFIG, bytes)?, path(TOKENIZER_CONFIG));
                (read_do_lower_case(text, &path)?, read_flag(text, &path, "strip_accents")?)
            }
            None => (true, None),
        };
        let tokenizer_json = match find(TOKENIZER) {
            Some(bytes) => Some(text(TOKENIZER, bytes)?.to_owned()),
            None => None,
        };
        let tensors = names::read_parameters(&config, &TensorFile::parse(weights, &path(WEIGHTS))?)?;
        Ok(Self { config, tensors, vocabulary, do_lower_case, strip_accents, tokenizer_json })
    }

    /// Checks that the parts fit together, and tells the class that Hugging Face has for such a model.
    pub(super) fn check(&self) -> Result<&'static str, CheckpointError> {
        self.config.validate()?;
        let next_sentence = self.tensors.iter().any(|tensor| names::is_of_next_sentence(&tensor.name));
        names::check_parameters(&self.config, next_sentence, &self.tensors, "the model to save")?;
        check_vocabulary(&self.vocabulary, &self.config, VOCABULARY)?;
        Ok(if next_sentence { "BertForPreTraining" } else { "BertForMaskedLM" })
    }

    pub(super) fn tokenizer_config(&self) -> String {
        let value = json!({
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.do_lower_case,
            "tokenize_chinese_chars": true,
            "strip_accents": self.strip_accents,
            "model_max_length": self.config.max_position_embeddings,
            "unk_token": "[UNK]",
            "sep_token": "[SEP]",
            "pad_token": "[PAD]",
            "cls_token": "[CLS]",
            "mask_token": "[MASK]",
        });
        format!("{value:#}\n")
    }
}

fn check_vocabulary(text: &str, config: &BertConfig, file: &str) -> Result<(), CheckpointError> {
    // Blank lines at the end are none.
    let entries = text.trim_end_matches(|c: char| c.is_ascii_whitespace()).lines().count();
    let vocab_size = config.vocab_size;
    if entries > vocab_size {
        return Err(CheckpointError::Vocabulary { file: file.into(), entries, vocab_size });
    }
    Ok(())
}

pub(super) fn read_do_lower_case(text: &str, file: &str) -> Result<bool, CheckpointError> {
    // The default of Hugging Face's BertTokenizer.
    Ok(read_flag(text, file, "do_lower_case")?.unwrap_or(true))
}

/// A setting of a tokenizer, if it is there and not null.
pub(super) fn read_flag(text: &str, file: &str, key: &str) -> Result<Option<bool>, CheckpointError> {
    let problem = |problem| CheckpointError::TokenizerConfig { file: file.into(), problem };
    let value: Value =
        serde_json::from_str(text).map_err(|error| problem(format!("not valid JSON: {error}")))?;
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => Err(problem(format!("\"{key}\" must be true or false, not {other}"))),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::parameters::parameter_shapes;

    /// A whole model whose every value is `value`.
    pub(in super::super) fn small_model(value: f32) -> ModelFolder {
        let config = BertConfig {
            hidden_size: 4,
            num_hidden_layers: 1,
            intermediate_size: 6,
            max_position_embeddings: 8,
            ..BertConfig::preset("tiny", 7).unwrap()
        };
        let tensors = parameter_shapes(&config, true)
            .into_iter()
            .map(|(name, shape)| NamedTensor { data: vec![value; shape.iter().product()], name, shape })
            .collect();
        ModelFolder {
            config,
            tensors,
            vocabulary: "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##é\n".into(),
            do_lower_case: true,
            strip_accents: None,
            tokenizer_json: Some("{}".into()),
        }
    }

    fn files_of(model: &ModelFolder) -> Vec<(String, Vec<u8>)> {
        model.to_files().unwrap().into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
    }

    /// What `from_files` says after one file was changed, or taken away.
    fn message(name: &str, bytes: Option<&[u8]>) -> String {
        let mut files = files_of(&small_model(1.0));
        files.retain(|(file, _)| file != name);
        files.extend(bytes.map(|bytes| (name.to_owned(), bytes.to_vec())));
        ModelFolder::from_files(&files, "dir").unwrap_err().to_string()
    }

    #[test]
    fn files_are_read_back() {
        for model in [
            small_model(0.5),
            ModelFolder { do_lower_case: false, tokenizer_json: None, ..small_model(-1.5) },
        ] {
            let mut files = files_of(&model);
            files.push(("pytorch_model.bin".into(), vec![1, 2, 3]));
            assert_eq!(ModelFolder::from_files(&files, "dir").unwrap(), model);
        }
    }

    #[test]
    fn the_tokenizer_settings_are_those_of_hugging_face() {
        let settings = (false, Some(true));
        let model = ModelFolder { do_lower_case: settings.0, strip_accents: settings.1, ..small_model(0.0) };
        let files = files_of(&model);
        assert_eq!(ModelFolder::from_files(&files, "dir").unwrap(), model);
        let (_, bytes) = files.iter().find(|(name, _)| name == TOKENIZER_CONFIG).unwrap();
        let value: Value = serde_json::from_slice(bytes).unwrap();
        assert_eq!(value["tokenizer_class"], "BertTokenizer");
        assert_eq!((&value["do_lower_case"], &value["strip_accents"]), (&false.into(), &true.into()));
        assert_eq!(value["model_max_length"], 8);
        assert_eq!(value["mask_token"], "[MASK]");
    }

    #[test]
    fn a_folder_of_another_program_may_lack_the_tokenizer_files() {
        let mut files = files_of(&small_model(1.0));
        files.retain(|(name, _)| !name.starts_with("tokenizer"));
        let model = ModelFolder::from_files(&files, "dir").unwrap();
        assert_eq!(model, ModelFolder { tokenizer_json: None, ..small_model(1.0) });
    }

    #[test]
    fn every_wrong_file_is_named() {
        for file in [CONFIG, WEIGHTS, VOCABULARY] {
            assert_eq!(message(file, None), format!("dir is not a model folder: {file} is missing"));
        }
        for file in [CONFIG, VOCABULARY, TOKENIZER_CONFIG, TOKENIZER] {
            let told = format!("dir/{file} is not UTF-8 text: the first wrong byte is number 2");
            assert_eq!(message(file, Some(b"ab\xff")), told);
        }
        let blank_end = ModelFolder { vocabulary: small_model(1.0).vocabulary + "\n\n", ..small_model(1.0) };
        assert_eq!(ModelFolder::from_files(&files_of(&blank_end), "dir").unwrap(), blank_end);
        assert!(
            message(CONFIG, Some(b"{\"vocab\": 7}")).starts_with("dir/config.json: unknown key \"vocab\"")
        );
        assert!(
            message(WEIGHTS, Some(b"")).starts_with("dir/model.safetensors is not a whole safetensors file")
        );
        assert!(
            message(TOKENIZER_CONFIG, Some(b"{")).starts_with("dir/tokenizer_config.json: not valid JSON")
        );
        assert_eq!(
            message(TOKENIZER_CONFIG, Some(b"{\"do_lower_case\": 1}")),
            "dir/tokenizer_config.json: \"do_lower_case\" must be true or false, not 1"
        );
        assert_eq!(
            message(VOCABULARY, Some(b"a\nb\nc\nd\ne\nf\ng\nh\n")),
            "dir/vocab.txt has 8 entries, but \"vocab_size\" of the model is 7: they do not belong together"
        );
        let config = BertConfig { max_position_embeddings: 9, ..small_model(1.0).config };
        let error = message(CONFIG, Some(config.to_hugging_face_json().as_bytes()));
        assert!(
            error.starts_with("dir/model.safetensors: tensor bert.embeddings.position_embeddings.weight")
        );
    }

    #[test]
    fn a_model_without_next_sentences_is_one_of_masked_words() {
        let mut model = small_model(1.0);
        model.tensors.retain(|tensor| !names::is_of_next_sentence(&tensor.name));
        let files = files_of(&model);
        let config: Value = serde_json::from_slice(&files[0].1).unwrap();
        assert_eq!(config["architectures"], json!(["BertForMaskedLM"]));
        assert_eq!(ModelFolder::from_files(&files, "dir").unwrap(), model);
    }

    #[test]
    fn a_model_that_does_not_fit_together_is_not_written() {
        let mut model = small_model(1.0);
        model.tensors.pop();
        let error = model.to_files().unwrap_err().to_string();
        assert!(
            error.starts_with("the model to save does not fit the configuration: missing cls."),
            "{error}"
        );
        let model = ModelFolder { vocabulary: "a\n".repeat(8), ..small_model(1.0) };
        assert!(matches!(
            model.to_files(),
            Err(CheckpointError::Vocabulary { entries: 8, vocab_size: 7, .. })
        ));
        let mut model = small_model(1.0);
        model.config.num_attention_heads = 3;
        assert!(matches!(model.to_files(), Err(CheckpointError::Config(_))));
    }
}
