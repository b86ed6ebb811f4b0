//! Reading a configuration from JSON and writing it as Hugging Face does.
//!
//! Two programs write BERT configurations and mean different things by the same words. The reference's
//! `bert_config.json` has "gelu" for the tanh form and 16 segment kinds where none are given; Hugging Face's
//! `config.json` has "gelu" for the erf form and two. Only the latter carries `model_type` or `architectures`.

use serde_json::{Map, Value, json};

use super::{Activation, BertConfig, ConfigError, ConfigProblem};

/// The keys that make the model.
const MODEL_KEYS: [&str; 12] = [
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
];

/// Keys that real files carry and that change nothing in pre-training. Keys with a leading underscore are
/// Hugging Face's own notes and pass too.
const IGNORED_KEYS: &[&str] = &[
    // The reference, and the released multilingual checkpoints.
    "backward_compatible",
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    // Hugging Face.
    "architectures",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "dtype",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "label2id",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "pad_token_id",
    "prefix",
    "problem_type",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "tie_encoder_decoder",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "use_bfloat16",
    "use_cache",
];

/// Keys that change the model: the one value that is this model, and why no other is taken.
const FIXED_KEYS: [(&str, Fixed, &str); 8] = [
    ("model_type", Fixed::Text("bert"), "only \"bert\" is"),
    ("position_embedding_type", Fixed::Text("absolute"), "positions are a learned table: \"absolute\""),
    ("is_decoder", Fixed::Flag(false), "attention sees both sides: use false"),
    ("is_encoder_decoder", Fixed::Flag(false), "there is an encoder only: use false"),
    ("add_cross_attention", Fixed::Flag(false), "there is no decoder to attend from: use false"),
    ("tie_word_embeddings", Fixed::Flag(true), "the masked-LM head shares the word embedding: use true"),
    ("pruned_heads", Fixed::Empty, "all heads of a layer are computed: leave it empty"),
    (
        "embedding_size",
        Fixed::HiddenSize,
        "embeddings are as wide as the layers: use hidden_size, or leave it out",
    ),
];

#[derive(Clone, Copy)]
enum Fixed {
    Text(&'static str),
    Flag(bool),
    Empty,
    HiddenSize,
}

impl BertConfig {
    /// Reads the reference's `bert_config.json` or Hugging Face's `config.json`. `source_name` is for messages.
    ///
    /// `vocab_size` is required; the rest has the defaults of the kind of file. A file with `model_type` or
    /// `architectures` is Hugging Face's: "gelu" is the erf form there, and the tanh form in the reference's.
    ///
    /// # Errors
    /// Names `source_name` and the key, for a key that is missing, unknown or of the wrong type, a value that asks
    /// for another model, or numbers that fail [`BertConfig::validate`].
    pub fn from_json(text: &str, source_name: &str) -> Result<Self, ConfigError> {
        read(text).map_err(|problem| ConfigError::new(source_name, problem))
    }

    /// The `config.json` of a Hugging Face `BertForPreTraining` folder.
    pub fn to_hugging_face_json(&self) -> String {
        format!("{:#}\n", self.to_hugging_face("BertForPreTraining"))
    }

    /// The content of the `config.json` of a folder for this class of Hugging Face's.
    pub(crate) fn to_hugging_face(&self, architecture: &str) -> Value {
        json!({
            "architectures": [architecture],
            "model_type": "bert",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "intermediate_size": self.intermediate_size,
            "hidden_act": self.hidden_act.hugging_face_name(),
            "hidden_dropout_prob": self.hidden_dropout_prob,
            "attention_probs_dropout_prob": self.attention_probs_dropout_prob,
            "max_position_embeddings": self.max_position_embeddings,
            "type_vocab_size": self.type_vocab_size,
            "initializer_range": self.initializer_range,
            "layer_norm_eps": self.layer_norm_eps,
        })
    }
}

fn read(text: &str) -> Result<BertConfig, ConfigProblem> {
    let value = serde_json::from_str(text).map_err(ConfigProblem::Json)?;
    let Value::Object(object) = value else { return Err(ConfigProblem::NotAnObject) };
    let hugging_face = object.contains_key("model_type") || object.contains_key("architectures");

    // A misspelt key is told before the key it should have been is missed.
    if let Some(key) = object.keys().find(|key| !is_known(key)) {
        return Err(ConfigProblem::UnknownKey { key: key.clone(), closest: closest_key(key) });
    }
    let size = |key, default| whole_number(&object, key).map(|value| value.unwrap_or(default));
    let rate = |key, default| number(&object, key).map(|value| value.unwrap_or(default));
    let config = BertConfig {
        vocab_size: whole_number(&object, "vocab_size")?
            .ok_or(ConfigProblem::MissingKey { key: "vocab_size" })?,
        hidden_size: size("hidden_size", 768)?,
        num_hidden_layers: size("num_hidden_layers", 12)?,
        num_attention_heads: size("num_attention_heads", 12)?,
        intermediate_size: size("intermediate_size", 3072)?,
        hidden_act: activation(&object, hugging_face)?,
        hidden_dropout_prob: rate("hidden_dropout_prob", 0.1)?,
        attention_probs_dropout_prob: rate("attention_probs_dropout_prob", 0.1)?,
        max_position_embeddings: size("max_position_embeddings", 512)?,
        type_vocab_size: size("type_vocab_size", if hugging_face { 2 } else { 16 })?,
        initializer_range: rate("initializer_range", 0.02)?,
        layer_norm_eps: rate("layer_norm_eps", 1e-12)?,
    };
    check_fixed(&object, &config)?;
    config.find_problem().map_or(Ok(config), Err)
}

fn is_known(key: &str) -> bool {
    key.starts_with('_')
        || MODEL_KEYS.contains(&key)
        || FIXED_KEYS.iter().any(|(fixed, ..)| *fixed == key)
        || IGNORED_KEYS.contains(&key)
}

fn closest_key(key: &str) -> Option<&'static str> {
    MODEL_KEYS
        .into_iter()
        .map(|known| (strsim::jaro_winkler(key, known), known))
        .filter(|(likeness, _)| *likeness > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

fn whole_number(object: &Map<String, Value>, key: &'static str) -> Result<Option<usize>, ConfigProblem> {
    let Some(value) = object.get(key) else { return Ok(None) };
    let wrong_type =
        || ConfigProblem::WrongType { key, expected: "a whole number", found: value.to_string() };
    value.as_u64().and_then(|number| number.try_into().ok()).map(Some).ok_or_else(wrong_type)
}

fn number(object: &Map<String, Value>, key: &'static str) -> Result<Option<f64>, ConfigProblem> {
    let Some(value) = object.get(key) else { return Ok(None) };
    let wrong_type = || ConfigProblem::WrongType { key, expected: "a number", found: value.to_string() };
    value.as_f64().map(Some).ok_or_else(wrong_type)
}

fn activation(object: &Map<String, Value>, hugging_face: bool) -> Result<Activation, ConfigProblem> {
    const KEY: &str = "hidden_act";
    let gelu = if hugging_face { Activation::GeluErf } else { Activation::GeluTanh };
    let Some(value) = object.get(KEY) else { return Ok(gelu) };
    let Some(name) = value.as_str() else {
        return Err(ConfigProblem::WrongType { key: KEY, expected: "a name", found: value.to_string() });
    };
    match name {
        "gelu" => Ok(gelu),
        "gelu_new" | "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        "silu" | "swish" => Ok(Activation::Silu),
        _ => Err(ConfigProblem::Unsupported {
            key: KEY,
            value: value.to_string(),
            reason: "choose gelu, gelu_new, relu or silu",
        }),
    }
}

fn check_fixed(object: &Map<String, Value>, config: &BertConfig) -> Result<(), ConfigProblem> {
    for (key, fixed, reason) in FIXED_KEYS {
        // null is how both programs write "not set".
        let Some(value) = object.get(key).filter(|value| !value.is_null()) else { continue };
        let fits = match fixed {
            Fixed::Text(text) => value == text,
            Fixed::Flag(flag) => value == flag,
            Fixed::Empty => value.as_object().is_some_and(Map::is_empty),
            Fixed::HiddenSize => value == config.hidden_size,
        };
        if !fits {
            return Err(ConfigProblem::Unsupported { key, value: value.to_string(), reason });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        BertConfig::from_json(text, "a.json").unwrap_err().to_string()
    }

    #[test]
    fn the_kind_of_file_decides_what_words_mean() {
        let reference = BertConfig::from_json(r#"{"vocab_size": 9, "hidden_act": "gelu"}"#, "").unwrap();
        assert_eq!((reference.hidden_act, reference.type_vocab_size), (Activation::GeluTanh, 16));
        for mark in [r#""model_type": "bert""#, r#""architectures": ["BertModel"]"#] {
            let text = format!(r#"{{"vocab_size": 9, "hidden_act": "gelu", {mark}}}"#);
            let hugging_face = BertConfig::from_json(&text, "").unwrap();
            assert_eq!((hugging_face.hidden_act, hugging_face.type_vocab_size), (Activation::GeluErf, 2));
        }
    }

    #[test]
    fn every_activation_is_read_and_written() {
        for (name, activation) in [
            ("gelu_new", Activation::GeluTanh),
            ("gelu_pytorch_tanh", Activation::GeluTanh),
            ("gelu", Activation::GeluErf),
            ("relu", Activation::Relu),
            ("silu", Activation::Silu),
            ("swish", Activation::Silu),
        ] {
            let text = format!(r#"{{"model_type": "bert", "vocab_size": 9, "hidden_act": "{name}"}}"#);
            let config = BertConfig::from_json(&text, "").unwrap();
            assert_eq!(config.hidden_act, activation);
            assert_eq!(BertConfig::from_json(&config.to_hugging_face_json(), "").unwrap(), config);
        }
    }

    #[test]
    fn defaults_are_those_of_base() {
        let config = BertConfig::from_json(r#"{"vocab_size": 30522, "type_vocab_size": 2}"#, "").unwrap();
        assert_eq!(config, BertConfig::preset("base", 30522).unwrap());
    }

    #[test]
    fn files_of_other_programs_are_read() {
        // The multilingual release of the reference.
        BertConfig::from_json(
            r#"{"attention_probs_dropout_prob": 0.1, "directionality": "bidi", "hidden_act": "gelu",
                "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
                "intermediate_size": 3072, "max_position_embeddings": 512, "num_attention_heads": 12,
                "num_hidden_layers": 12, "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
                "pooler_num_fc_layers": 3, "pooler_size_per_head": 128,
                "pooler_type": "first_token_transform", "type_vocab_size": 2, "vocab_size": 119547,
                "embedding_size": null, "backward_compatible": true}"#,
            "bert_config.json",
        )
        .unwrap();
        // Hugging Face, with everything it has been seen to add.
        BertConfig::from_json(
            r#"{"_name_or_path": "x", "architectures": ["BertForMaskedLM"], "model_type": "bert",
                "classifier_dropout": null, "gradient_checkpointing": false, "pad_token_id": 0,
                "position_embedding_type": "absolute", "torch_dtype": "float32", "dtype": "float32",
                "transformers_version": "4.6.0", "use_cache": true, "id2label": {"0": "A"},
                "label2id": {"A": 0}, "is_decoder": false, "add_cross_attention": false,
                "tie_word_embeddings": true, "pruned_heads": {}, "embedding_size": 768,
                "vocab_size": 30522, "hidden_act": "gelu"}"#,
            "config.json",
        )
        .unwrap();
    }

    #[test]
    fn bad_files_are_told_by_file_and_key() {
        assert!(message("{\n\"vocab_size\": }").starts_with("a.json: not valid JSON: "));
        assert!(message("{\n\"vocab_size\": }").contains("line 2"));
        assert!(message("[1]").starts_with("a.json: a model configuration is one JSON object"));
        assert_eq!(
            message(r#"{"hidden_size": 128}"#),
            "a.json: the key \"vocab_size\" is missing: it has no default"
        );
        for found in ["\"100\"", "1.5", "-3", "true", "null", "[1]"] {
            assert_eq!(
                message(&format!("{{\"vocab_size\": {found}}}")),
                format!("a.json: \"vocab_size\" must be a whole number, not {found}")
            );
        }
        assert_eq!(
            message(r#"{"vocab_size": 9, "initializer_range": "small"}"#),
            "a.json: \"initializer_range\" must be a number, not \"small\""
        );
        assert_eq!(
            message(r#"{"vocab_size": 9, "hidden_act": 1}"#),
            "a.json: \"hidden_act\" must be a name, not 1"
        );
        assert!(message(r#"{"vocab_size": 9, "hidden_size": 100}"#).contains("= 100 cannot be divided by"));
        assert!(message(r#"{"vocab_size": 0}"#).starts_with("a.json: \"vocab_size\" = 0 is out of range"));
    }

    #[test]
    fn a_misspelt_key_gets_the_closest_known_one() {
        for (found, meant) in [
            ("vocab_sise", "vocab_size"),
            ("vocabSize", "vocab_size"),
            ("num_layers", "num_hidden_layers"),
            ("num_attn_heads", "num_attention_heads"),
            ("hidden_dropout", "hidden_dropout_prob"),
            ("max_positions_embedding", "max_position_embeddings"),
            ("layernorm_eps", "layer_norm_eps"),
            ("hidden_activation", "hidden_act"),
        ] {
            assert_eq!(
                message(&format!("{{\"{found}\": 1}}")),
                format!("a.json: unknown key \"{found}\": did you mean \"{meant}\"?")
            );
        }
        assert_eq!(message(r#"{"zebra": 1}"#), "a.json: unknown key \"zebra\"");
    }

    #[test]
    fn values_that_make_another_model_are_refused_with_the_reason() {
        for (key, value) in [
            ("model_type", "\"roberta\""),
            ("position_embedding_type", "\"relative_key\""),
            ("is_decoder", "true"),
            ("is_encoder_decoder", "true"),
            ("add_cross_attention", "true"),
            ("tie_word_embeddings", "false"),
            ("pruned_heads", "{\"1\":[0]}"),
            ("embedding_size", "128"),
            ("hidden_act", "\"mish\""),
        ] {
            let message = message(&format!("{{\"vocab_size\": 9, \"{key}\": {value}}}"));
            let start = format!("a.json: \"{key}\" = {value} is not supported: ");
            assert!(message.len() > start.len() && message.starts_with(&start), "{message}");
        }
    }
}
