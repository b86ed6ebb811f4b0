//! `wgpu-bert inspect --plan`: what a training step takes on an adapter, before anything is allocated.

use clap::Arg;
use indicatif::{BinaryBytes, HumanCount};
use serde_json::{Value, json};
use wgpu_bert::gpu::{AdapterReport, PlannedBuffer};
use wgpu_bert::train::{MemoryUse, RunPlan, plan_run};

use super::error::CliError;
use super::output;
use super::step_flags::StepFlags;

/// Flags that mean something with --plan only, where there is no file.
const OF_A_PLAN: [&str; 10] = [
    "model_size",
    "vocab_size",
    "train_batch_size",
    "max_predictions_per_seq",
    "recompute",
    "dtype",
    "distribution_strategy",
    "adapter",
    "kernels",
    "runtime_checks",
];
/// And with a file only.
const OF_A_FILE: [&str; 7] =
    ["file", "vocab_file", "do_lower_case", "strip_accents", "json_field", "count", "skip_bad_records"];
/// Names of tensors that are shown of a buffer that many share.
const NAMES: usize = 3;

/// Lets a flag stand only where it means something.
pub fn sort_out(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        id if OF_A_PLAN.contains(&id) => arg.conflicts_with("file"),
        id if OF_A_FILE.contains(&id) => arg.conflicts_with("plan"),
        _ => arg,
    }
}

pub fn run(flags: &StepFlags, as_json: bool) -> Result<(), CliError> {
    let strategy = flags.device.strategy()?;
    let options = flags.options()?;
    let mut plan = plan_run(Some(&strategy), &options, flags.max_seq_length, flags.max_predictions_per_seq)?;
    if let Some(misfit) = plan.misfit.take() {
        return Err(misfit.into());
    }
    let adapter = &strategy.adapter;
    let kernels = options.device.kernels_on(adapter).products.name();
    output::result(match as_json {
        true => to_json(flags, adapter, kernels, &plan).to_string(),
        false => to_text(flags, adapter, (kernels, options.device.why_on(adapter)), &plan),
    })
}

fn to_json(flags: &StepFlags, adapter: &AdapterReport, kernels: &str, plan: &RunPlan) -> Value {
    let buffer = |PlannedBuffer { tensors, bytes, shared }: &PlannedBuffer| {
        let tensors: Vec<_> =
            tensors.iter().map(|tensor| json!({"name": tensor.name, "bytes": tensor.bytes})).collect();
        json!({"bytes": bytes, "shared": shared, "tensors": tensors})
    };
    let part = |part: &MemoryUse| {
        json!({
            "purpose": part.purpose,
            "bytes": part.bytes(),
            "tensor_bytes": part.tensor_bytes(),
            "buffers": part.buffers.iter().map(buffer).collect::<Vec<_>>(),
        })
    };
    json!({
        "kind": "plan",
        "model_size": flags.model_size,
        "vocab_size": flags.vocab_size,
        "train_batch_size": flags.train_batch_size,
        "max_seq_length": flags.max_seq_length,
        "max_predictions_per_seq": flags.max_predictions_per_seq,
        "recompute": flags.recompute,
        "dtype": flags.dtype(),
        "adapter": adapter.name,
        "max_buffer_size": adapter.max_buffer_size,
        "max_storage_buffer_binding_size": adapter.max_binding_size,
        "kernels": kernels,
        "parameters": plan.parameters,
        "dispatches": plan.dispatches,
        "bytes": plan.bytes,
        "memory": plan.memory.uses.iter().map(part).collect::<Vec<_>>(),
    })
}

fn to_text(
    flags: &StepFlags,
    adapter: &AdapterReport,
    (kernels, why): (&str, &str),
    plan: &RunPlan,
) -> String {
    let mut text = format!(
        "{}, vocabulary {}, {} parameters; {} sequences of {} tokens with {} predictions{}\n\
         {}, {kernels} kernels ({why}), buffers up to {}, {} of one in a kernel\n\
         {} dispatches, {}\n\n\
         {:<20} {:>7} {:>11} {:>8} {:>11}\n",
        flags.model_size,
        flags.vocab_size,
        HumanCount(plan.parameters),
        flags.train_batch_size,
        flags.max_seq_length,
        flags.max_predictions_per_seq,
        flags.manner(),
        adapter.name,
        BinaryBytes(adapter.max_buffer_size),
        BinaryBytes(adapter.max_binding_size),
        plan.dispatches,
        BinaryBytes(plan.bytes),
        "memory",
        "tensors",
        "of bytes",
        "buffers",
        "of bytes",
    );
    let size = |bytes| BinaryBytes(bytes).to_string();
    for part in &plan.memory.uses {
        let (tensors, buffers) = (part.tensors(), part.buffers.len());
        let [of_tensors, of_buffers] = [part.tensor_bytes(), part.bytes()].map(size);
        text +=
            &format!("{:<20} {tensors:>7} {of_tensors:>11} {buffers:>8} {of_buffers:>11}\n", part.purpose);
    }
    text += &format!("\n{:<20} {:>11}  tensors in turn", "buffer of", "bytes");
    for part in &plan.memory.uses {
        for buffer in &part.buffers {
            let mut names: Vec<_> =
                buffer.tensors.iter().take(NAMES).map(|tensor| tensor.name.as_str()).collect();
            let more = format!("and {} more", buffer.tensors.len() - names.len());
            if buffer.tensors.len() > names.len() {
                names.push(&more);
            }
            text += &format!("\n{:<20} {:>11}  {}", part.purpose, size(buffer.bytes), names.join(", "));
        }
    }
    text
}
