//! `wgpu-bert bench`: how fast a training step is on this adapter.

use clap::Args;
use indicatif::{BinaryBytes, HumanCount};
use serde_json::{Value, json};
use wgpu_bert::train::benchmark::{BenchmarkReport, WARMUP_STEPS, Workload, benchmark};
use wgpu_bert::train::plan_run;

use super::error::CliError;
use super::pretrain::positive;
use super::step_flags::StepFlags;
use super::{known_kernels, output};

/// Measure a training step on this adapter: time, memory, and how near it comes to the best matrix product
///
/// Trains on random numbers and keeps nothing.
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct BenchFlags {
    /// Steps that are measured
    #[arg(long, value_name = "N", default_value = "10", value_parser = positive)]
    steps: usize,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    step: StepFlags,
}

pub fn run(flags: &BenchFlags) -> Result<(), CliError> {
    let strategy = flags.step.device.strategy()?;
    let options = flags.step.options()?;
    let strategy = known_kernels::measure(strategy, options.device);
    let (seq_length, predictions) = (flags.step.max_seq_length, flags.step.max_predictions_per_seq);
    // Before numbers are made for a batch of any size.
    if let Some(misfit) = plan_run(Some(&strategy), &options, seq_length, predictions)?.misfit {
        return Err(misfit.into());
    }
    let workload = Workload::random(&options, seq_length, predictions);
    let report =
        pollster::block_on(benchmark(Some(&strategy), &options, &workload, flags.steps, async || {}))?;
    output::result(if flags.json { to_json(&report, flags)?.to_string() } else { to_text(&report, flags) })
}

fn to_json(report: &BenchmarkReport, flags: &BenchFlags) -> Result<Value, CliError> {
    let mut object = json!({
        "kind": "bench",
        "model_size": flags.step.model_size,
        "vocab_size": flags.step.vocab_size,
        "train_batch_size": flags.step.train_batch_size,
        "max_seq_length": flags.step.max_seq_length,
        "max_predictions_per_seq": flags.step.max_predictions_per_seq,
        "recompute": flags.step.recompute,
        "dtype": flags.step.dtype(),
    });
    let measured = serde_json::to_value(report).expect("numbers and names only");
    if let (Value::Object(object), Value::Object(measured)) = (&mut object, measured) {
        object.extend(measured);
    }
    Ok(object)
}

fn to_text(report: &BenchmarkReport, flags: &BenchFlags) -> String {
    let best = &report.best_matmul;
    let [m, n, k] = best.size;
    let allocated = report.allocated_bytes.map_or("unknown".into(), |bytes| BinaryBytes(bytes).to_string());
    let mut text = format!(
        "{}, {} kernels ({}): {}, vocabulary {}, {} parameters\n\
         {} sequences of {} tokens with {} predictions{}; median of {} steps after {WARMUP_STEPS} to warm up\n\n\
         step        {:.1} ms (shortest {:.1} ms), {:.0} tokens/s\n\
         memory      {} planned, {allocated} allocated\n\
         dispatches  {}; in a layer {} forward and {} backward\n\
         moved       {}, {:.2} times the least possible; {:.2} GB/s\n\
         computed    {:.2} GFLOP in matrix products; {:.2} GFLOP/s\n\
         of best     {:.0} % of {:.2} GFLOP/s, the best matrix product ({} kernels, {} of {m} x {n} x {k})\n",
        report.adapter,
        report.kernels,
        report.kernels_why,
        flags.step.model_size,
        flags.step.vocab_size,
        HumanCount(report.parameters),
        flags.step.train_batch_size,
        flags.step.max_seq_length,
        flags.step.max_predictions_per_seq,
        flags.step.manner(),
        report.steps,
        report.step_ms,
        report.min_step_ms,
        report.tokens_per_second,
        BinaryBytes(report.planned_bytes),
        report.dispatches,
        report.layer_forward_dispatches,
        report.layer_backward_dispatches,
        BinaryBytes(report.moved_bytes),
        report.moved_bytes as f64 / report.least_moved_bytes as f64,
        report.gb_per_second,
        report.flops as f64 / 1e9,
        report.gflops,
        100.0 * report.share_of_best_matmul,
        best.gflops,
        best.kernels,
        best.product,
    );
    let Some(kernels) = &report.kernel_times else {
        return text + "\nThis adapter has no timestamp queries, which would tell the time of each kernel.";
    };
    let all: f64 = kernels.iter().map(|kernel| kernel.ms).sum();
    text += &format!("\n{:<36} dispatches        ms  share", "kernel");
    for kernel in kernels {
        let name = format!("{} {}", kernel.shader, kernel.entry);
        let share = 100.0 * kernel.ms / all;
        text += &format!("\n{name:<36} {:>10} {:>9.2} {share:>4.0} %", kernel.dispatches, kernel.ms);
    }
    text
}
