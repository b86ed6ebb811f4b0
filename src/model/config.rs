//! The configuration of a BERT model, with the field names of Hugging Face's `config.json`.
//!
//! ```
//! use wgpu_bert::model::config::{Activation, BertConfig};
//!
//! // A file of the reference: "gelu" means the tanh form there.
//! let config = BertConfig::from_json(r#"{"vocab_size": 1000, "hidden_size": 128,
//!     "num_attention_heads": 2}"#, "bert_config.json")?;
//! assert_eq!(config.hidden_act, Activation::GeluTanh);
//! assert_eq!(config.head_size(), 64);
//!
//! // What Hugging Face reads back is the same model.
//! let json = config.to_hugging_face_json();
//! assert_eq!(BertConfig::from_json(&json, "config.json")?, config);
//! # Ok::<(), wgpu_bert::model::config::ConfigError>(())
//! ```

mod json;

/// Sizes and rates of a BERT model. Everything that decides what a forward pass computes, and how weights start.
#[derive(Clone, Debug, PartialEq)]
pub struct BertConfig {
    /// V: entries of the vocabulary, and rows of the word embedding.
    pub vocab_size: usize,
    /// H: width of every token's vector.
    pub hidden_size: usize,
    /// L: transformer layers.
    pub num_hidden_layers: usize,
    /// A: attention heads; each is `hidden_size / num_attention_heads` wide.
    pub num_attention_heads: usize,
    /// I: width of the feed-forward layer inside each transformer layer.
    pub intermediate_size: usize,
    /// The activation of the feed-forward layers and of the masked-LM transform. The pooler always has tanh.
    pub hidden_act: Activation,
    /// Dropout after the embeddings, the attention output and the feed-forward output, in [0, 1).
    pub hidden_dropout_prob: f64,
    /// Dropout on the attention probabilities, in [0, 1).
    pub attention_probs_dropout_prob: f64,
    /// P: the longest sequence the position embedding covers.
    pub max_position_embeddings: usize,
    /// T: segment kinds, rows of the token type embedding.
    pub type_vocab_size: usize,
    /// Standard deviation of the truncated normal that kernels and embeddings start from.
    pub initializer_range: f64,
    /// Added to the variance inside every layer normalisation.
    pub layer_norm_eps: f64,
}

/// The activation function of the feed-forward layers and of the masked-LM transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))`: "gelu" in the reference, "gelu_new" in Hugging Face.
    GeluTanh,
    /// `0.5 x (1 + erf(x / sqrt(2)))`: "gelu" in Hugging Face.
    GeluErf,
    /// `max(x, 0)`.
    Relu,
    /// `x / (1 + exp(-x))`, also called swish.
    Silu,
}

impl Activation {
    /// The name in a Hugging Face `config.json`.
    pub fn hugging_face_name(self) -> &'static str {
        match self {
            Self::GeluTanh => "gelu_new",
            Self::GeluErf => "gelu",
            Self::Relu => "relu",
            Self::Silu => "silu",
        }
    }
}

/// Name, layers, hidden size, heads, feed-forward size: Google's miniature BERTs (arXiv:1908.08962) and base.
const PRESETS: [(&str, usize, usize, usize, usize); 5] = [
    ("tiny", 2, 128, 2, 512),
    ("mini", 4, 256, 4, 1024),
    ("small", 4, 512, 8, 2048),
    ("medium", 8, 512, 8, 2048),
    ("base", 12, 768, 12, 3072),
];

impl BertConfig {
    /// A model of a named size: `tiny`, `mini`, `small`, `medium` or `base`, with 512 positions, two segment kinds,
    /// tanh GELU and dropout 0.1.
    ///
    /// # Errors
    /// [`ConfigProblem::UnknownPreset`] for another name.
    pub fn preset(name: &str, vocab_size: usize) -> Result<Self, ConfigError> {
        let Some(&(_, num_hidden_layers, hidden_size, num_attention_heads, intermediate_size)) =
            PRESETS.iter().find(|preset| preset.0 == name)
        else {
            return Err(ConfigError::new("model size", ConfigProblem::UnknownPreset { name: name.into() }));
        };
        Ok(Self {
            vocab_size,
            hidden_size,
            num_hidden_layers,
            num_attention_heads,
            intermediate_size,
            hidden_act: Activation::GeluTanh,
            hidden_dropout_prob: 0.1,
            attention_probs_dropout_prob: 0.1,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            initializer_range: 0.02,
            layer_norm_eps: 1e-12,
        })
    }

    /// D: width of one attention head.
    pub fn head_size(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    /// Checks that the numbers make a model. [`BertConfig::from_json`] has done so already.
    ///
    /// # Errors
    /// [`ConfigProblem::OutOfRange`] or [`ConfigProblem::HeadsDoNotDivide`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.find_problem().map_or(Ok(()), |problem| Err(ConfigError::new("model configuration", problem)))
    }

    fn find_problem(&self) -> Option<ConfigProblem> {
        // Ids and sizes travel as 32-bit integers on the device.
        const LARGEST: usize = i32::MAX as usize;
        // A step is a list of what every layer does; a number with a digit too many must not fill the memory.
        const MOST_LAYERS: usize = 1000;
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
        ];
        let rates = [
            ("hidden_dropout_prob", self.hidden_dropout_prob),
            ("attention_probs_dropout_prob", self.attention_probs_dropout_prob),
        ];
        // All are used in f32 on the device, so they must not vanish or become 1 there.
        let positives =
            [("initializer_range", self.initializer_range), ("layer_norm_eps", self.layer_norm_eps)];
        let out_of_range =
            |key, value: String, allowed| Some(ConfigProblem::OutOfRange { key, value, allowed });
        if let Some((key, value)) = sizes.into_iter().find(|(_, value)| !(1..=LARGEST).contains(value)) {
            return out_of_range(key, value.to_string(), "1 to 2147483647");
        }
        if !(1..=MOST_LAYERS).contains(&self.num_hidden_layers) {
            return out_of_range("num_hidden_layers", self.num_hidden_layers.to_string(), "1 to 1000");
        }
        if let Some((key, value)) =
            rates.into_iter().find(|(_, value)| !(0.0..1.0).contains(&(*value as f32)))
        {
            return out_of_range(key, value.to_string(), "0 up to, but not including, 1");
        }
        if let Some((key, value)) =
            positives.into_iter().find(|&(_, value)| !(value as f32).is_normal() || value < 0.0)
        {
            return out_of_range(key, format!("{value:e}"), "a number above 0");
        }
        (!self.hidden_size.is_multiple_of(self.num_attention_heads)).then_some(
            ConfigProblem::HeadsDoNotDivide {
                hidden_size: self.hidden_size,
                num_attention_heads: self.num_attention_heads,
            },
        )
    }
}

/// A configuration that cannot be used: where it came from, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{source_name}: {problem}")]
pub struct ConfigError {
    /// The file, or the option, that holds the configuration.
    pub source_name: String,
    /// What is wrong.
    #[source]
    pub problem: ConfigProblem,
}

impl ConfigError {
    fn new(source_name: &str, problem: ConfigProblem) -> Self {
        Self { source_name: source_name.to_owned(), problem }
    }
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigProblem {
    /// The text is not JSON.
    #[error("not valid JSON: {0}")]
    Json(serde_json::Error),
    /// The text is JSON, but not `{…}`.
    #[error("a model configuration is one JSON object, {{\"vocab_size\": …}}")]
    NotAnObject,
    /// A key without a default is not there.
    #[error("the key \"{key}\" is missing: it has no default")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// A key that no BERT configuration has.
    #[error("unknown key \"{key}\"{}", did_you_mean(.closest))]
    UnknownKey {
        /// The key found.
        key: String,
        /// The known key that looks most like it.
        closest: Option<&'static str>,
    },
    /// A value of the wrong JSON type.
    #[error("\"{key}\" must be {expected}, not {found}")]
    WrongType {
        /// The key.
        key: &'static str,
        /// The type it should have.
        expected: &'static str,
        /// The value found, as JSON.
        found: String,
    },
    /// A value that asks for another model than the one built here.
    #[error("\"{key}\" = {value} is not supported: {reason}")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// The value found, as JSON.
        value: String,
        /// Why, and which values are.
        reason: &'static str,
    },
    /// A number no model can have.
    #[error("\"{key}\" = {value} is out of range: {allowed}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// The value found.
        value: String,
        /// The values that are allowed, in words.
        allowed: &'static str,
    },
    /// The hidden size cannot be cut into equal heads.
    #[error(
        "\"hidden_size\" = {hidden_size} cannot be divided by \"num_attention_heads\" = {num_attention_heads}: \
         all heads have the same width"
    )]
    HeadsDoNotDivide {
        /// H.
        hidden_size: usize,
        /// A.
        num_attention_heads: usize,
    },
    /// No model size of this name.
    #[error("there is no \"{name}\": choose tiny, mini, small, medium or base")]
    UnknownPreset {
        /// The name asked for.
        name: String,
    },
}

fn did_you_mean(closest: &Option<&'static str>) -> String {
    closest.map_or_else(String::new, |key| format!(": did you mean \"{key}\"?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_the_published_sizes() {
        let parameters = |name| {
            let c = BertConfig::preset(name, 30522).unwrap();
            c.validate().unwrap();
            let (h, i) = (c.hidden_size, c.intermediate_size);
            let embeddings = (c.vocab_size + c.max_position_embeddings + c.type_vocab_size) * h + 2 * h;
            let layer = 4 * (h * h + h) + 2 * h * i + i + h + 4 * h;
            embeddings + c.num_hidden_layers * layer + h * h + h
        };
        // The encoder with its pooler, counted by the formulas of the paper.
        assert_eq!(parameters("tiny"), 4_385_920);
        assert_eq!(parameters("mini"), 11_170_560);
        assert_eq!(parameters("small"), 28_763_648);
        assert_eq!(parameters("medium"), 41_373_184);
        assert_eq!(parameters("base"), 109_482_240);
        let error = BertConfig::preset("huge", 100).unwrap_err().to_string();
        assert_eq!(error, "model size: there is no \"huge\": choose tiny, mini, small, medium or base");
    }

    #[test]
    fn validate_names_the_key_and_the_numbers() {
        let problem = |change: fn(&mut BertConfig)| {
            let mut config = BertConfig::preset("tiny", 100).unwrap();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        let heads = problem(|c| c.num_attention_heads = 3);
        assert!(heads.contains("= 128") && heads.contains("= 3"), "{heads}");
        for (message, key) in [
            (problem(|c| c.vocab_size = 0), "\"vocab_size\" = 0"),
            (problem(|c| c.vocab_size = 1 << 31), "\"vocab_size\" = 2147483648"),
            (problem(|c| c.num_attention_heads = 0), "\"num_attention_heads\" = 0"),
            (problem(|c| c.type_vocab_size = 0), "\"type_vocab_size\" = 0"),
            (problem(|c| c.num_hidden_layers = 0), "\"num_hidden_layers\" = 0"),
            (problem(|c| c.num_hidden_layers = 1 << 30), "\"num_hidden_layers\" = 1073741824"),
            (problem(|c| c.hidden_dropout_prob = 1.0), "\"hidden_dropout_prob\" = 1"),
            (problem(|c| c.hidden_dropout_prob = 1.0 - 1e-12), "\"hidden_dropout_prob\" = 0.999"),
            (problem(|c| c.attention_probs_dropout_prob = -0.1), "\"attention_probs_dropout_prob\" = -0.1"),
            (
                problem(|c| c.attention_probs_dropout_prob = f64::NAN),
                "\"attention_probs_dropout_prob\" = NaN",
            ),
            (problem(|c| c.initializer_range = 0.0), "\"initializer_range\" = 0"),
            (problem(|c| c.layer_norm_eps = -1e-12), "\"layer_norm_eps\" = -1e-12"),
            (problem(|c| c.layer_norm_eps = 1e-50), "\"layer_norm_eps\" = 1e-50"),
        ] {
            assert!(message.contains(key), "{message} should contain {key}");
        }
    }
}
