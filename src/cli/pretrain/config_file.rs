//! `--bert_config_file`: the model's sizes, and training options beside them.
//!
//! Options go through the same parser as flags, so that both take the same values and complain in the same words.

use std::path::Path;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::{Map, Value};
use wgpu_bert::model::config::BertConfig;

use super::super::error::CliError;
use super::super::{argv, refused};
use super::flags::OptionFlags;

/// Flags that must be known before the file is opened, that it makes pointless, or that are about one call.
const COMMAND_LINE_ONLY: [&str; 11] = [
    "adapter",
    "bert_config_file",
    "confirm_changes",
    "distribution_strategy",
    "ds",
    "init_checkpoint",
    "json",
    "kernels",
    "model_size",
    "resume",
    "runtime_checks",
];

/// The model and the options of a file.
pub fn read(path: &Path) -> Result<(BertConfig, OptionFlags), CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| CliError::Read { path: path.into(), error })?;
    parse(&text, &path.display().to_string())
}

fn parse(text: &str, origin: &str) -> Result<(BertConfig, OptionFlags), CliError> {
    let command = OptionFlags::augment_args(Command::new("options").no_binary_name(true));
    let is_option = |key: &str| command.get_arguments().any(|arg| argv::has_name(arg, key));
    let mut model = Map::new();
    let mut flags = Vec::new();
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => {
            for (key, value) in object {
                let bad =
                    |problem: &str| CliError::ConfigFile { origin: origin.into(), problem: problem.into() };
                if is_option(&key) {
                    match flag_value(&value) {
                        Some(Some(value)) => flags.push(format!("--{key}={value}")),
                        Some(None) => {}
                        None => {
                            return Err(bad(&format!("\"{key}\" must be a number, a text, true or false")));
                        }
                    }
                } else if COMMAND_LINE_ONLY.contains(&key.as_str()) {
                    return Err(bad(&format!(
                        "\"{key}\" cannot stand in the file; give --{key} on the command line"
                    )));
                } else if let Some(reason) = refused::reason(&key) {
                    return Err(bad(&format!("\"{key}\" is not taken here: {reason}")));
                } else {
                    model.insert(key, value);
                }
            }
            let config = BertConfig::from_json(&Value::Object(model).to_string(), origin)?;
            let matches = command.try_get_matches_from(flags);
            let options = matches.and_then(|matches: ArgMatches| OptionFlags::from_arg_matches(&matches));
            // The first line has the name and the value; the rest is about command lines.
            let options = options.map_err(|error| CliError::ConfigFile {
                origin: origin.into(),
                problem: error.to_string().lines().next().unwrap_or_default().replace("error: ", ""),
            })?;
            Ok((config, options))
        }
        // Not an object: whoever reads models says so best.
        _ => Ok((BertConfig::from_json(text, origin)?, OptionFlags::default())),
    }
}

/// A JSON value as it would stand behind a flag: a list with commas between. `Some(None)` for null, which is how other
/// programs write "not set"; `None` for what no flag takes.
fn flag_value(value: &Value) -> Option<Option<String>> {
    match value {
        Value::Null => Some(None),
        Value::Bool(_) | Value::Number(_) => Some(Some(value.to_string())),
        Value::String(text) => Some(Some(text.clone())),
        Value::Array(values) => {
            let values: Option<Vec<_>> = values.iter().map(|value| flag_value(value)?).collect();
            values.map(|values| Some(values.join(",")))
        }
        Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        match parse(text, "c.json") {
            Ok(_) => panic!("{text} should be refused"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn options_stand_beside_the_model() {
        let text = r#"{"vocab_size": 99, "hidden_size": 24, "num_attention_heads": 2, "hidden_dropout_prob": 0.2,
            "input_files": ["a.txt", "b*.txt"], "do_lower_case": false, "learning_rate": 1e-3, "warmup_steps": 1e2,
            "train_batch_size": 8, "first_segment_tokens": [3, 12], "optimizer_type": "lamb", "random_seed": 7,
            "model_dir": "out", "end_lr": null}"#;
        let (config, options) = parse(text, "c.json").unwrap();
        assert_eq!((config.vocab_size, config.hidden_size, config.hidden_dropout_prob), (99, 24, 0.2));
        let OptionFlags { text, training, .. } = options;
        assert_eq!(text.input_files.as_deref(), Some("a.txt,b*.txt"));
        assert_eq!((text.do_lower_case, text.first_segment_tokens), (Some(false), Some((3, 12))));
        assert_eq!((training.learning_rate, training.warmup_steps), (Some(1e-3), Some(100.0)));
        assert_eq!((training.train_batch_size, training.seed, training.end_lr), (Some(8), Some(7), None));
        assert_eq!(training.model_dir.as_deref(), Some(Path::new("out")));
    }

    #[test]
    fn bad_values_are_told_by_file_name_and_value() {
        for (text, parts) in [
            (r#"{"vocab_size": 9, "learning_rate": "fast"}"#, &["c.json", "learning_rate", "fast"][..]),
            (r#"{"vocab_size": 9, "train_batch_size": 0}"#, &["c.json", "train_batch_size", "0", "from 1"]),
            (r#"{"vocab_size": 9, "train_batch_size": {"n": 1}}"#, &["c.json", "train_batch_size", "number"]),
            (r#"{"vocab_size": 9, "adapter": "0"}"#, &["c.json", "adapter", "command line"]),
            (r#"{"vocab_size": 9, "num_gpus": 2}"#, &["c.json", "num_gpus", "adapters"]),
            (r#"{"vocab_size": 9, "hidden_sise": 2}"#, &["c.json", "hidden_sise", "hidden_size"]),
            (r#"{"learning_rate": 1}"#, &["c.json", "vocab_size"]),
            ("[1]", &["c.json", "JSON object"]),
            ("{", &["c.json", "not valid JSON"]),
        ] {
            let message = message(text);
            assert!(parts.iter().all(|part| message.contains(part)), "{message} should contain {parts:?}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
