//! What a run is, for the one that goes on with it: is it still the same?

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use wgpu_bert::data::{self, TrainingData};
use wgpu_bert::gpu::{AdapterReport, Precision};
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::optimizer::{LossScale, OnNan, OptimizerKind};
use wgpu_bert::strategy::Strategy;
use wgpu_bert::train::{RunRecord, SeedCompat, TrainingCheckpoint};

use super::super::error::CliError;
use super::super::output;
use super::resolve::PretrainArgs;
use super::resume::Found;

/// Examples summed up at a time.
const PART: usize = 1024;

/// The record of a run on so many instances with this checksum. Its adapter is not known before the run starts.
pub fn record(args: &PretrainArgs, strategy: &Strategy, instances: usize, checksum: String) -> RunRecord {
    let measured = |adapter: &AdapterReport| adapter.fastest.filter(|_| args.options.device.family.is_none());
    let fastest: Vec<_> = strategy.replicas().map(measured).collect();
    RunRecord {
        total_steps: args.options.schedule.total_steps,
        options: options(args),
        steps_per_pass: (instances / args.options.batch_size) as u64,
        data: checksum,
        adapter: String::new(),
        fastest: if fastest.iter().any(Option::is_some) { fastest } else { Vec::new() },
    }
}

/// Everything that decides the numbers besides the model and the data, under the names of the flags.
fn options(args: &PretrainArgs) -> Map<String, Value> {
    let (run, instances) = (&args.options, &args.instances);
    let (schedule, optimizer) = (&run.schedule, &run.optimizer);
    let kind = match optimizer.kind {
        OptimizerKind::AdamW => "adamw",
        OptimizerKind::Lamb => "lamb",
    };
    let mut object = json!({
        "do_lower_case": args.do_lower_case,
        "strip_accents": args.strip_accents,
        "max_seq_length": instances.max_seq_length,
        "max_predictions_per_seq": instances.max_predictions_per_seq,
        "masked_lm_prob": instances.masked_lm_prob,
        "do_whole_word_mask": instances.whole_word_mask,
        "max_ngram_size": instances.max_ngram_size,
        "masking": if args.dynamic_masking { "dynamic" } else { "static" },
        "short_seq_prob": instances.short_seq_prob,
        "dupe_factor": instances.dupe_factor,
        "first_segment_tokens": instances.first_segment_tokens,
        "train_batch_size": run.batch_size,
        "num_train_steps": schedule.total_steps,
        "learning_rate": schedule.init_lr,
        "end_lr": schedule.end_lr,
        "warmup_steps": schedule.warmup_steps,
        "optimizer_type": kind,
        "weight_decay": optimizer.weight_decay,
        "beta_1": optimizer.beta_1,
        "beta_2": optimizer.beta_2,
        "clip_norm": optimizer.clip_norm.unwrap_or(0.0),
        "on_nan": match optimizer.on_nan {
            OnNan::Stop => "stop",
            OnNan::Skip => "skip",
        },
        "hidden_dropout_prob": run.config.hidden_dropout_prob,
        "attention_probs_dropout_prob": run.config.attention_probs_dropout_prob,
        "use_next_sentence_label": run.use_next_sentence_label,
        "seed": run.seed,
    });
    // Parts and kernels that were not asked for depend on the adapter, which may change.
    if let Some(parts) = run.distribution.gradient_accumulation_steps {
        object["gradient_accumulation_steps"] = parts.into();
    }
    if let Some(SeedCompat { scale_loss }) = run.distribution.compat {
        object["compat"] = "seed".into();
        object["scale_loss"] = scale_loss.into();
    }
    if let Some(family) = run.device.family {
        object["kernels"] = family.name().into();
    }
    if run.precision == Precision::F16 {
        object["dtype"] = "fp16".into();
    }
    match optimizer.loss_scale {
        None => {}
        Some(LossScale::Dynamic) => object["loss_scale"] = "dynamic".into(),
        Some(LossScale::Fixed(scale)) => object["loss_scale"] = scale.into(),
    }
    // Numbers as they are after a file, so that they can be compared with such.
    serde_json::from_str(&object.to_string()).unwrap_or_default()
}

/// Of all examples, masks included.
pub fn checksum(data: &mut TrainingData) -> Result<String, data::Error> {
    let mut hash = Sha256::new();
    for number in [data.seq_length(), data.predictions(), data.count()] {
        hash.update((number as u64).to_le_bytes());
    }
    for first in (0..data.count()).step_by(PART) {
        let part = data.in_order(first..data.count().min(first + PART))?;
        for numbers in [
            &part.input_ids,
            &part.input_mask,
            &part.segment_ids,
            &part.masked_lm_positions,
            &part.masked_lm_ids,
            &part.next_sentence_labels,
        ] {
            numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
        }
        part.masked_lm_weights.iter().for_each(|weight| hash.update(weight.to_le_bytes()));
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Refuses another model, and what has changed unless that is confirmed; tells of another adapter.
pub fn check_same(
    found: &Found,
    adapter: &str,
    now: &RunRecord,
    config: &BertConfig,
    vocabulary: &str,
    confirmed: bool,
) -> Result<(), CliError> {
    let TrainingCheckpoint { model, record: before, .. } = &found.checkpoint;
    let mut other_model = differences(&sizes(&model.config), &sizes(config));
    let (key, no) = ("use_next_sentence_label", Value::Null);
    let task = |record: &RunRecord| {
        Map::from_iter([(key.to_owned(), record.options.get(key).unwrap_or(&no).clone())])
    };
    other_model.extend(differences(&task(before), &task(now)));
    if model.vocabulary != vocabulary {
        other_model.push("the vocabulary is another one".into());
    }
    let checkpoint = found.path.clone();
    if !other_model.is_empty() {
        return Err(CliError::OtherModel { checkpoint, changes: other_model });
    }
    if before.adapter != adapter {
        output::note(format_args!(
            "The run was on {} and goes on on {adapter}, whose numbers differ in their last digits.",
            before.adapter
        ));
    }
    let mut changes = differences(&before.options, &now.options);
    if before.data != now.data {
        changes.push("the examples made of text or records are other ones".into());
    }
    if changes.is_empty() {
        return Ok(());
    }
    if !confirmed {
        return Err(CliError::ChangedRun { checkpoint, changes });
    }
    output::note(format_args!("Other than in {}:\n  {}", checkpoint.display(), changes.join("\n  ")));
    Ok(())
}

/// The sizes of a model; its dropout may change.
fn sizes(config: &BertConfig) -> Map<String, Value> {
    let config = BertConfig { hidden_dropout_prob: 0.0, attention_probs_dropout_prob: 0.0, ..config.clone() };
    serde_json::from_str(&config.to_hugging_face_json()).unwrap_or_default()
}

pub fn differences(before: &Map<String, Value>, now: &Map<String, Value>) -> Vec<String> {
    let keys = now.keys().chain(before.keys().filter(|key| !now.contains_key(*key)));
    let told = |value: Option<&Value>| value.map_or("not given".into(), Value::to_string);
    let changed =
        keys.map(|key| (key, before.get(key), now.get(key))).filter(|(_, before, now)| before != now);
    // The others are called as their flags.
    let name = |key: &str| match key {
        "num_train_steps" => "num_steps_per_epoch times num_train_epochs".to_owned(),
        key => key.to_owned(),
    };
    changed
        .map(|(key, before, now)| format!("{} was {} and is {}", name(key), told(before), told(now)))
        .collect()
}
