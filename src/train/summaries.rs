//! What a run measured in the forms of the reference: TensorBoard's event files and `training_summary.txt`.
//!
//! An event file is a sequence of records in TFRecord's frames, each a protocol buffer. TensorBoard reads a file that is
//! still being written, or ends inside a record.

use prost::Message;
use serde_json::{Serializer, Value, json, ser::PrettyFormatter};

use super::{Evaluation, Progress};
use crate::data::append_record;

/// What an event file starts with: its version, and where a run goes on the steps before it, so that TensorBoard drops
/// what an earlier file tells of later ones. `wall_time` is in seconds since 1970.
pub fn first_events(wall_time: f64, steps_before: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let version = What::FileVersion("brain.Event:2".into());
    append(&mut bytes, wall_time, 0, version);
    if steps_before > 0 {
        let log = What::SessionLog(SessionLog { status: SessionLog::START });
        append(&mut bytes, wall_time, steps_before + 1, log);
    }
    bytes
}

/// The event of some steps: their means as scalars, under the reference's tags, and the `loss_scale` where there is one.
pub fn scalars(wall_time: f64, progress: &Progress) -> Vec<u8> {
    let mut values = vec![("learning_rate", progress.learning_rate), ("training_loss", progress.loss)];
    values.extend(metrics(progress));
    values.extend(progress.loss_scale.map(|scale| ("loss_scale", scale)));
    event(wall_time, progress.step, values)
}

/// The event of an evaluation after `step` steps, for a file of its own: the tags are the reference's, so the loss is
/// `training_loss` here too; it has no `perplexity`.
pub fn evaluation_scalars(wall_time: f64, step: u64, evaluation: &Evaluation) -> Vec<u8> {
    let values = evaluation_metrics(evaluation).into_iter().map(|(tag, value)| (tag, value as f32));
    event(wall_time, step, values.collect())
}

fn event(wall_time: f64, step: u64, values: Vec<(&str, f32)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let value =
        |(tag, simple_value): (&str, f32)| ScalarValue { tag: tag.into(), simple_value: Some(simple_value) };
    // Of steps that were left out there is nothing to draw.
    let value = values.into_iter().filter(|(_, value)| value.is_finite()).map(value).collect();
    append(&mut bytes, wall_time, step, What::Summary(Summary { value }));
    bytes
}

/// The text of `training_summary.txt`, from the last measurement: the reference's keys, and null for what is not a number.
/// The run's last evaluation stands in `eval_metrics`, and the folder of the best model in `best_checkpoint`.
pub fn training_summary(
    progress: &Progress,
    evaluation: Option<&Evaluation>,
    best_checkpoint: Option<&str>,
) -> String {
    let mut summary =
        json!({"total_training_steps": progress.total_steps, "train_loss": f64::from(progress.loss)});
    for (key, value) in metrics(progress) {
        summary[key] = f64::from(value).into();
    }
    if let Some(evaluation) = evaluation {
        for (key, value) in evaluation_metrics(evaluation) {
            summary["eval_metrics"][key] = value.into();
        }
    }
    if let Some(folder) = best_checkpoint {
        summary["best_checkpoint"] = folder.into();
    }
    indented(&summary)
}

/// The model's metrics in the reference's order; those of the next-sentence task only with it.
fn metrics(progress: &Progress) -> Vec<(&'static str, f32)> {
    let next_sentence = [
        ("next_sentence_accuracy", progress.next_sentence_accuracy),
        ("next_sentence_loss", progress.next_sentence_loss),
    ];
    let mut metrics = vec![
        ("masked_lm_accuracy", progress.masked_lm_accuracy),
        ("lm_example_loss", progress.lm_example_loss),
    ];
    metrics.extend(next_sentence.into_iter().filter_map(|(name, value)| Some((name, value?))));
    metrics
}

fn evaluation_metrics(evaluation: &Evaluation) -> Vec<(&'static str, f64)> {
    let next_sentence = [
        ("next_sentence_accuracy", evaluation.next_sentence_accuracy),
        ("next_sentence_loss", evaluation.next_sentence_loss),
    ];
    let mut metrics = vec![
        ("training_loss", evaluation.loss()),
        ("masked_lm_accuracy", evaluation.masked_lm_accuracy),
        ("lm_example_loss", evaluation.lm_example_loss),
        ("perplexity", evaluation.perplexity()),
    ];
    metrics.extend(next_sentence.into_iter().filter_map(|(name, value)| Some((name, value?))));
    metrics
}

fn indented(value: &Value) -> String {
    use serde::Serialize;
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    "));
    value.serialize(&mut serializer).expect("a value goes into memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

fn append(bytes: &mut Vec<u8>, wall_time: f64, step: u64, what: What) {
    let event = Event { wall_time, step: step as i64, what: Some(what) };
    append_record(bytes, &event.encode_to_vec());
}

/// `tensorflow.Event` and what we use of it, with its field numbers.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<ScalarValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScalarValue {
    #[prost(string, tag = "1")]
    tag: String,
    /// A field of a oneof, so written even when it is 0.
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

impl SessionLog {
    const START: i32 = 1;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn progress() -> Progress {
        Progress {
            step: 20,
            total_steps: 60,
            loss: 7.125,
            lm_example_loss: 6.5,
            masked_lm_accuracy: 0.1,
            next_sentence_loss: Some(0.625),
            next_sentence_accuracy: Some(0.0),
            grad_norm: 2.0,
            left_out: 0,
            loss_scale: None,
            learning_rate: 1e-3,
            tokens_per_second: 1.0,
            elapsed: Duration::ZERO,
        }
    }

    /// The events in their frames, whose checksums the reader of TFRecord files knows.
    fn events(bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            let mut framed = Vec::new();
            append_record(&mut framed, &rest[12..12 + length]);
            assert_eq!(framed, rest[..length + 16]);
            events.push(Event::decode(&rest[12..12 + length]).unwrap());
            rest = &rest[length + 16..];
        }
        events
    }

    #[test]
    fn scalars_bear_the_tags_of_the_reference() {
        let told = events(&scalars(12.5, &progress()));
        assert_eq!((told.len(), told[0].wall_time, told[0].step), (1, 12.5, 20));
        let Some(What::Summary(summary)) = &told[0].what else { panic!("{told:?}") };
        let values: Vec<_> =
            summary.value.iter().map(|v| (v.tag.as_str(), v.simple_value.unwrap())).collect();
        let expected = [
            ("learning_rate", 1e-3),
            ("training_loss", 7.125),
            ("masked_lm_accuracy", 0.1),
            ("lm_example_loss", 6.5),
            ("next_sentence_accuracy", 0.0),
            ("next_sentence_loss", 0.625),
        ];
        assert_eq!(values, expected);
        let scaled = Progress { loss_scale: Some(512.0), ..progress() };
        let told = events(&scalars(12.5, &scaled));
        let Some(What::Summary(summary)) = &told[0].what else { panic!("{told:?}") };
        let last = summary.value.last().unwrap();
        assert_eq!((summary.value.len(), &*last.tag, last.simple_value), (7, "loss_scale", Some(512.0)));
        assert_eq!(training_summary(&scaled, None, None), training_summary(&progress(), None, None));
    }

    #[test]
    fn a_run_that_goes_on_says_where() {
        assert_eq!(events(&first_events(1.0, 0)).len(), 1);
        let told = events(&first_events(1.0, 40));
        assert_eq!(told[0].what, Some(What::FileVersion("brain.Event:2".into())));
        assert_eq!((told[1].step, &told[1].what), (41, &Some(What::SessionLog(SessionLog { status: 1 }))));
    }

    #[test]
    fn the_summary_is_the_references_and_always_json() {
        let text = training_summary(&progress(), None, None);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "    \"total_training_steps\": 60,");
        assert_eq!(lines[2], "    \"train_loss\": 7.125,");
        // As the reference, which widens 32 bits to 64.
        assert_eq!(lines[3], "    \"masked_lm_accuracy\": 0.10000000149011612,");
        let keys: Vec<String> =
            serde_json::from_str::<Value>(&text).unwrap().as_object().unwrap().keys().cloned().collect();
        let expected = [
            "total_training_steps",
            "train_loss",
            "masked_lm_accuracy",
            "lm_example_loss",
            "next_sentence_accuracy",
            "next_sentence_loss",
        ];
        assert_eq!(keys, expected);

        let nothing = Progress {
            loss: f32::NAN,
            lm_example_loss: f32::INFINITY,
            next_sentence_loss: None,
            next_sentence_accuracy: None,
            ..progress()
        };
        let value: Value = serde_json::from_str(&training_summary(&nothing, None, None)).unwrap();
        assert!(value["train_loss"].is_null() && value["lm_example_loss"].is_null());
        assert!(value.get("next_sentence_loss").is_none());
        let told = events(&scalars(1.0, &nothing));
        assert!(matches!(&told[0].what, Some(What::Summary(summary)) if summary.value.len() == 2));
    }

    #[test]
    fn an_evaluation_has_the_same_tags_and_a_place_in_the_summary() {
        let evaluation = Evaluation {
            instances: 9,
            predictions: 18.0,
            lm_example_loss: 2.0,
            masked_lm_accuracy: 0.25,
            next_sentence_loss: Some(0.5),
            next_sentence_accuracy: Some(0.75),
        };
        let told = events(&evaluation_scalars(2.5, 40, &evaluation));
        let Some(What::Summary(summary)) = &told[0].what else { panic!("{told:?}") };
        assert_eq!((told.len(), told[0].wall_time, told[0].step), (1, 2.5, 40));
        let values: Vec<_> =
            summary.value.iter().map(|v| (v.tag.as_str(), v.simple_value.unwrap())).collect();
        let expected = [
            ("training_loss", 2.5),
            ("masked_lm_accuracy", 0.25),
            ("lm_example_loss", 2.0),
            ("perplexity", 7.389056),
            ("next_sentence_accuracy", 0.75),
            ("next_sentence_loss", 0.5),
        ];
        assert_eq!(values, expected);

        let summary = training_summary(&progress(), Some(&evaluation), Some("model/checkpoint-40"));
        let summary: Value = serde_json::from_str(&summary).unwrap();
        assert_eq!(summary["train_loss"], 7.125);
        assert_eq!(
            (&summary["eval_metrics"]["training_loss"], &summary["best_checkpoint"]),
            (&2.5.into(), &"model/checkpoint-40".into())
        );
        let without = Evaluation { next_sentence_loss: None, next_sentence_accuracy: None, ..evaluation };
        assert!(!training_summary(&progress(), Some(&without), None).contains("\"next_sentence_loss\": 0.5"));
    }
}
