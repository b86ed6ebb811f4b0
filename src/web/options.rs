//! Options as JavaScript gives them: plain objects in camel case.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;

use super::Rejection;
use crate::optimizer::{LossScale, OptimizerKind};
use crate::train::{InstanceChoices, OptimizerChoices};

/// What `runBertPretrain` can be asked. What is missing is decided by `resolve`.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RunOptions {
    /// The text of a `vocab.txt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<String>,
    #[serde(deserialize_with = "positive")]
    pub vocab_size: Option<usize>,
    pub do_lower_case: Option<bool>,
    #[serde(deserialize_with = "model")]
    pub config: Option<ModelChoice>,
    #[serde(deserialize_with = "positive")]
    pub steps: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub batch_size: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub gradient_accumulation_steps: Option<usize>,
    #[serde(deserialize_with = "not_negative")]
    pub learning_rate: Option<f64>,
    #[serde(deserialize_with = "not_negative")]
    pub end_lr: Option<f64>,
    #[serde(deserialize_with = "not_negative")]
    pub warmup_steps: Option<f64>,
    pub optimizer_type: Option<OptimizerType>,
    #[serde(deserialize_with = "not_negative")]
    pub weight_decay: Option<f64>,
    #[serde(deserialize_with = "below_one")]
    pub beta1: Option<f64>,
    #[serde(deserialize_with = "below_one")]
    pub beta2: Option<f64>,
    /// 0 for no limit.
    #[serde(deserialize_with = "not_negative")]
    pub clip_norm: Option<f64>,
    #[serde(deserialize_with = "positive")]
    pub max_seq_length: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub max_predictions_per_seq: Option<usize>,
    #[serde(deserialize_with = "probability")]
    pub masked_lm_prob: Option<f64>,
    #[serde(deserialize_with = "probability")]
    pub short_seq_prob: Option<f64>,
    #[serde(deserialize_with = "positive")]
    pub dupe_factor: Option<usize>,
    pub first_segment_tokens: Option<(usize, usize)>,
    pub do_whole_word_mask: Option<bool>,
    pub use_next_sentence_label: Option<bool>,
    pub output_bias_init: Option<BiasStart>,
    #[serde(deserialize_with = "seed")]
    pub seed: Option<u64>,
    #[serde(deserialize_with = "positive")]
    pub max_tokens_in_memory: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub steps_per_epoch: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub num_eval_per_epoch: Option<usize>,
    pub skip_bad_records: Option<bool>,
    #[serde(deserialize_with = "positive")]
    pub steps_per_loop: Option<usize>,
    pub recompute: Option<bool>,
    #[serde(deserialize_with = "dtype")]
    pub dtype: Option<Dtype>,
    pub kernels: Option<Kernels>,
}

/// A model by the name of its size, or by its sizes.
#[derive(Clone, Serialize)]
#[serde(untagged)]
pub enum ModelChoice {
    Size(String),
    Sizes(ModelSizes),
}

#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelSizes {
    #[serde(deserialize_with = "positive")]
    pub hidden_size: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub num_hidden_layers: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub num_attention_heads: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub intermediate_size: Option<usize>,
    pub hidden_act: Option<HiddenAct>,
    #[serde(deserialize_with = "below_one")]
    pub hidden_dropout_prob: Option<f64>,
    #[serde(deserialize_with = "below_one")]
    pub attention_probs_dropout_prob: Option<f64>,
    #[serde(deserialize_with = "positive")]
    pub max_position_embeddings: Option<usize>,
    #[serde(deserialize_with = "not_negative")]
    pub initializer_range: Option<f64>,
}

/// Names as in a Hugging Face `config.json`.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HiddenAct {
    Gelu,
    GeluNew,
    Relu,
    Silu,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerType {
    Adamw,
    Lamb,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BiasStart {
    Zeros,
    Unigram,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kernels {
    Register,
    Tile,
    Texture,
    Workgroup,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    Fp32,
    Fp16,
}

/// What `Model.evaluate` can be asked.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EvaluationOptions {
    #[serde(deserialize_with = "positive")]
    pub batch_size: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub max_seq_length: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub max_predictions_per_seq: Option<usize>,
    #[serde(deserialize_with = "seed")]
    pub seed: Option<u64>,
    #[serde(deserialize_with = "positive")]
    pub max_tokens_in_memory: Option<usize>,
    pub skip_bad_records: Option<bool>,
}

/// What `trainVocabulary` can be asked.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VocabularyOptions {
    #[serde(deserialize_with = "positive")]
    pub vocab_size: Option<usize>,
    pub do_lower_case: Option<bool>,
}

/// What `createPretrainingData` can be asked.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DataOptions {
    pub vocabulary: Option<String>,
    pub do_lower_case: Option<bool>,
    #[serde(deserialize_with = "positive")]
    pub max_seq_length: Option<usize>,
    #[serde(deserialize_with = "positive")]
    pub max_predictions_per_seq: Option<usize>,
    #[serde(deserialize_with = "probability")]
    pub masked_lm_prob: Option<f64>,
    #[serde(deserialize_with = "probability")]
    pub short_seq_prob: Option<f64>,
    #[serde(deserialize_with = "positive")]
    pub dupe_factor: Option<usize>,
    pub first_segment_tokens: Option<(usize, usize)>,
    pub do_whole_word_mask: Option<bool>,
    pub use_next_sentence_label: Option<bool>,
    #[serde(deserialize_with = "seed")]
    pub seed: Option<u64>,
    #[serde(deserialize_with = "positive")]
    pub max_tokens_in_memory: Option<usize>,
}

impl DataOptions {
    pub fn instances(&self) -> InstanceChoices {
        InstanceChoices {
            max_seq_length: self.max_seq_length,
            max_predictions_per_seq: self.max_predictions_per_seq,
            masked_lm_prob: self.masked_lm_prob,
            short_seq_prob: self.short_seq_prob,
            dupe_factor: self.dupe_factor,
            first_segment_tokens: self.first_segment_tokens,
            whole_word_mask: self.do_whole_word_mask,
            use_next_sentence_label: self.use_next_sentence_label,
            seed: self.seed,
            ..InstanceChoices::default()
        }
    }
}

impl RunOptions {
    pub fn instances(&self) -> InstanceChoices {
        InstanceChoices {
            max_seq_length: self.max_seq_length,
            max_predictions_per_seq: self.max_predictions_per_seq,
            masked_lm_prob: self.masked_lm_prob,
            short_seq_prob: self.short_seq_prob,
            dupe_factor: self.dupe_factor,
            first_segment_tokens: self.first_segment_tokens,
            whole_word_mask: self.do_whole_word_mask,
            use_next_sentence_label: self.use_next_sentence_label,
            seed: self.seed,
            ..InstanceChoices::default()
        }
    }

    /// Options given that have nothing to act on where examples are made already.
    pub fn for_text(&self) -> Option<&'static str> {
        let given = [
            ("vocabSize", self.vocab_size.is_some()),
            ("maskedLmProb", self.masked_lm_prob.is_some()),
            ("shortSeqProb", self.short_seq_prob.is_some()),
            ("dupeFactor", self.dupe_factor.is_some()),
            ("firstSegmentTokens", self.first_segment_tokens.is_some()),
            ("doWholeWordMask", self.do_whole_word_mask.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    pub fn optimizer(&self) -> OptimizerChoices {
        OptimizerChoices {
            kind: self.optimizer_type.map(|name| match name {
                OptimizerType::Adamw => OptimizerKind::AdamW,
                OptimizerType::Lamb => OptimizerKind::Lamb,
            }),
            beta_1: self.beta1,
            beta_2: self.beta2,
            weight_decay: self.weight_decay,
            clip_norm: self.clip_norm,
            loss_scale: (self.dtype == Some(Dtype::Fp16)).then_some(LossScale::Dynamic),
            ..OptimizerChoices::default()
        }
    }
}

/// Reads options.
///
/// # Errors
/// An `OptionError` with the field that is unknown, of another type or out of its range.
pub fn from_js<T: DeserializeOwned>(value: JsValue) -> Result<T, Rejection> {
    let deserializer = serde_wasm_bindgen::Deserializer::from(value);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(deserializer, &mut track);
    tracked.deserialize_map(Fields(PhantomData)).map_err(|error| {
        let (path, told) = (track.path().to_string(), error.to_string());
        // Errors that were made in JavaScript say that they are.
        let message = told.strip_prefix("Error: ").unwrap_or(&told);
        // An unknown field has no path yet; its name comes first in the message.
        let field = match message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`')) {
            Some((name, _)) if path == "." => name.to_owned(),
            Some((name, _)) if !path.ends_with(name) => format!("{path}.{name}"),
            _ => path,
        };
        Rejection::option(field, message)
    })
}

/// Objects come as maps: read as structs, `serde_wasm_bindgen` would pass over fields it does not know.
struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with options")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

fn model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ModelChoice>, D::Error> {
    struct Choice;

    impl<'de> Visitor<'de> for Choice {
        type Value = Option<ModelChoice>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("the name of a size, or an object with sizes")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
            Ok(Some(ModelChoice::Size(name.into())))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            ModelSizes::deserialize(MapAccessDeserializer::new(map)).map(ModelChoice::Sizes).map(Some)
        }
    }
    deserializer.deserialize_any(Choice)
}

fn dtype<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Dtype>, D::Error> {
    match Option::<String>::deserialize(deserializer)?.as_deref() {
        None => Ok(None),
        Some("fp32") => Ok(Some(Dtype::Fp32)),
        Some("fp16") => Ok(Some(Dtype::Fp16)),
        Some("bf16") => Err(de::Error::custom("WebGPU has no bf16; take fp16 or fp32")),
        Some(other) => Err(de::Error::unknown_variant(other, &["fp32", "fp16"])),
    }
}

/// A number in a range, or none.
struct Number {
    holds: fn(f64) -> bool,
    expected: &'static str,
}

impl<'de> Visitor<'de> for Number {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_f64(self)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        if (self.holds)(value) {
            return Ok(Some(value));
        }
        Err(E::invalid_value(Unexpected::Other(&value.to_string()), &self))
    }
}

fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let holds = |x: f64| x.fract() == 0.0 && (1.0..=f64::from(i32::MAX)).contains(&x);
    let number = Number { holds, expected: "a whole number from 1 to 2147483647" };
    Ok(deserializer.deserialize_option(number)?.map(|x| x as usize))
}

fn seed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    // Larger ones JavaScript does not tell apart.
    let holds = |x: f64| x.fract() == 0.0 && (0.0..=9_007_199_254_740_991.0).contains(&x);
    let number = Number { holds, expected: "a whole number from 0 to 9007199254740991" };
    Ok(deserializer.deserialize_option(number)?.map(|x| x as u64))
}

fn not_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let holds = |x: f64| x.is_finite() && x >= 0.0;
    deserializer.deserialize_option(Number { holds, expected: "a number of at least 0" })
}

fn probability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let holds = |x: f64| (0.0..=1.0).contains(&x);
    deserializer.deserialize_option(Number { holds, expected: "a number from 0 to 1" })
}

fn below_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let holds = |x: f64| (0.0..1.0).contains(&x);
    deserializer.deserialize_option(Number { holds, expected: "a number from 0 up to, but not including, 1" })
}
