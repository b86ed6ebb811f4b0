//! TensorBoard's curves of a run, read as TensorBoard reads them, against `metrics.jsonl`.

use std::collections::BTreeMap;
use std::fs;

use prost::Message;
use serde_json::Value;

use super::workplace::Workplace;
use super::{Finished, json_lines};

#[derive(Message)]
struct Event {
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Scalar>,
}

#[derive(Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

/// The step and the value of every scalar, by tag, of the event files in a folder.
fn scalars(place: &Workplace, part: &str) -> BTreeMap<String, Vec<(u64, f32)>> {
    let files = fs::read_dir(place.model_dir().join("summaries").join(part)).unwrap();
    let [file] = &files.map(|file| file.unwrap().path()).collect::<Vec<_>>()[..] else { panic!("one file") };
    let masked =
        |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let bytes = fs::read(file).unwrap();
    let (mut rest, mut scalars) = (&bytes[..], BTreeMap::<_, Vec<_>>::new());
    while !rest.is_empty() {
        let (length, after) = rest.split_at(8);
        let (length_sum, after) = after.split_at(4);
        let (event, after) = after.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
        let (event_sum, after) = after.split_at(4);
        assert!(masked(length) == length_sum && masked(event) == event_sum, "{}", file.display());
        let Event { step, summary } = Event::decode(event).unwrap();
        for Scalar { tag, simple_value } in summary.into_iter().flat_map(|summary| summary.value) {
            scalars.entry(tag).or_default().push((step as u64, simple_value.unwrap()));
        }
        rest = after;
    }
    scalars
}

/// The same of `metrics.jsonl`, whose lines have the tags as keys, but for the loss.
fn measured(place: &Workplace, kind: &str, tag: &str) -> Vec<(u64, f32)> {
    let text = fs::read_to_string(place.model_dir().join("metrics.jsonl")).unwrap();
    let key = if tag == "training_loss" { "loss" } else { tag };
    let number = |line: &Value| (line["step"].as_u64().unwrap(), line[key].as_f64().expect(tag) as f32);
    let lines = json_lines(&text);
    lines.iter().filter(|line| line["kind"] == kind).map(number).collect()
}

#[test]
fn event_files_hold_every_measurement_at_any_steps_per_loop() {
    for (steps_per_loop, points) in [("1", 6), ("4", 4)] {
        let place = Workplace::new();
        let eval = format!("--eval_files={}", place.path("text.txt"));
        let per_loop = format!("--steps_per_loop={steps_per_loop}");
        let Finished { code, stderr, .. } = place.pretrain(&[&eval, "--num_eval_per_epoch=2", &per_loop]);
        assert_eq!(code, Some(0), "{stderr}");
        let losses = ["training_loss", "lm_example_loss", "masked_lm_accuracy"];
        let sentences = ["next_sentence_loss", "next_sentence_accuracy"];
        for (part, kind, points, own) in
            [("train", "progress", points, "learning_rate"), ("eval", "evaluation", 4, "perplexity")]
        {
            let curves = scalars(&place, part);
            let mut tags = [&losses[..], &sentences, &[own]].concat();
            tags.sort_unstable();
            assert!(curves.keys().eq(&tags), "{part}: {:?}", curves.keys());
            for (tag, curve) in curves {
                assert_eq!(curve.len(), points, "{part} {tag} at {steps_per_loop}");
                assert_eq!(curve, measured(&place, kind, &tag), "{part} {tag} at {steps_per_loop}");
            }
        }
    }
}
