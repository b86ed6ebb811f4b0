//! Errors as the plain objects that promises reject with; the worker turns them into `Error`s.

use serde::Serialize;
use wasm_bindgen::JsValue;

use super::text::refusal;
use crate::checkpoint::CheckpointError;
use crate::data;
use crate::model::config::{ConfigError, ConfigProblem};
use crate::strategy::StrategyError;
use crate::train::TrainError;
use crate::train::self_test::SelfTestError;

/// The fields of an `Error`, and those of a `StrategyError` or an `OptionError` where it is one.
#[derive(Serialize)]
pub struct Rejection {
    name: &'static str,
    message: String,
    #[serde(flatten)]
    strategy: Option<StrategyFields>,
    /// The option that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

#[derive(Serialize)]
struct StrategyFields {
    code: &'static str,
    reason: &'static str,
    advice: String,
}

impl Rejection {
    fn new(name: &'static str, message: impl ToString) -> Self {
        Self { name, message: in_javascript(&message.to_string()), strategy: None, field: None }
    }

    /// A file of a model, or an archive of them, that cannot be read or written.
    pub fn model_file(error: impl ToString) -> Self {
        Self::new("ModelFileError", error)
    }

    /// Sizes that no model can have.
    pub fn config(error: ConfigError) -> Self {
        match error.problem {
            ConfigProblem::OutOfRange { key, value, allowed } => {
                Self::option(format!("config.{}", camel_case(key)), format!("{value}, but must be {allowed}"))
            }
            problem => Self::option("config", problem),
        }
    }

    /// An `OptionError`: what is wrong with the option `field`.
    pub fn option(field: impl Into<String>, problem: impl ToString) -> Self {
        let field = field.into();
        let message = format!("{field}: {}", problem.to_string());
        Self { field: Some(field), ..Self::new("OptionError", message) }
    }
}

impl From<StrategyError> for Rejection {
    fn from(error: StrategyError) -> Self {
        let (code, reason, advice) = (error.code(), error.reason(), error.advice());
        let strategy = Some(StrategyFields { code, reason, advice });
        Self { strategy, ..Self::new("StrategyError", error) }
    }
}

impl From<SelfTestError> for Rejection {
    fn from(error: SelfTestError) -> Self {
        Self::new("SelfTestError", error)
    }
}

impl From<CheckpointError> for Rejection {
    fn from(error: CheckpointError) -> Self {
        Self::model_file(error)
    }
}

impl From<data::Error> for Rejection {
    fn from(error: data::Error) -> Self {
        if let Some((name, message)) = refusal(&error) {
            return Self::new(name, message);
        }
        match error {
            data::Error::BadOption { option, value, expected } => {
                Self::option(camel_case(option), format!("{value}, but must be {expected}"))
            }
            data::Error::VocabularyTooSmall { .. } => Self::option("vocabSize", error),
            data::Error::TooFewInstances { .. } => Self::option("batchSize", error),
            // Their messages start with it.
            data::Error::EmptyVocabulary { .. }
            | data::Error::BlankToken { .. }
            | data::Error::DuplicateToken { .. }
            | data::Error::MissingSpecialToken { .. }
            | data::Error::SentencePiece { .. } => {
                Self { field: Some("vocabulary".into()), ..Self::new("OptionError", error) }
            }
            _ => Self::new("TextError", error),
        }
    }
}

impl From<TrainError> for Rejection {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Strategy(error) => error.into(),
            TrainError::Data(error) => error.into(),
            TrainError::Checkpoint(error) => error.into(),
            TrainError::Config(error) => Self::config(error),
            TrainError::Optimizer(error) => Self::option(
                camel_case(error.what),
                format!("{}, but must be {}", error.value, error.allowed),
            ),
            TrainError::Option { option, value, expected } => {
                Self::option(camel_case(option), format!("{value}, but must be {expected}"))
            }
            TrainError::DoesNotFit { .. } | TrainError::Uneven { .. } => Self::option("batchSize", error),
            TrainError::Precision(_) => Self::option("dtype", error),
            TrainError::NoMask { .. } | TrainError::MasksTooFarApart { .. } => Self::option("text", error),
            TrainError::Diverged { .. } | TrainError::BadWeights { .. } => Self::new("DivergedError", error),
            TrainError::Gpu(_)
            | TrainError::WrongNumbers { .. }
            | TrainError::SelfTest(_)
            | TrainError::LostAgain { .. }
            | TrainError::NotReplaced { .. } => Self::new("DeviceError", error),
            _ => Self::new("TrainingError", error),
        }
    }
}

/// What messages name as the command line does, and its name here.
const NAMES: [(&str, &str); 8] = [
    ("use_next_sentence_label=false", "useNextSentenceLabel: false"),
    ("max_position_embeddings", "config.maxPositionEmbeddings"),
    ("max_seq_length", "maxSeqLength"),
    ("dupe_factor", "dupeFactor"),
    ("do_lower_case", "doLowerCase"),
    ("--dtype fp32", "dtype: \"fp32\""),
    ("(train-vocab)", "(trainVocabulary)"),
    // There is one adapter.
    (" or choose another adapter with --adapter", ""),
];

/// A message that names options as they are called here.
pub fn in_javascript(message: &str) -> String {
    NAMES.iter().fold(message.to_owned(), |message, (there, here)| message.replace(there, here))
}

/// An option's name here.
fn camel_case(name: &str) -> String {
    match name {
        "init_lr" => return "learningRate".into(),
        "num_train_steps" => return "steps".into(),
        "train_batch_size" => return "batchSize".into(),
        "random_seed" => return "seed".into(),
        _ => {}
    }
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, tail) = word.split_at(1.min(word.len()));
        name + &head.to_ascii_uppercase() + tail
    })
}

/// A value that does not have the shape asked for.
impl From<serde_wasm_bindgen::Error> for Rejection {
    fn from(error: serde_wasm_bindgen::Error) -> Self {
        Self::new("TypeError", error)
    }
}

impl From<Rejection> for JsValue {
    fn from(rejection: Rejection) -> Self {
        let serializer = serde_wasm_bindgen::Serializer::json_compatible();
        rejection.serialize(&serializer).unwrap_or_else(|_| rejection.message.into())
    }
}
