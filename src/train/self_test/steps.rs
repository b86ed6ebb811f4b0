//! Several updates by an optimizer: losses, norms, weights and moments.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::{
    GoldenFiles, Quantity, SelfTestError, SelfTestReport, batch, config, expected, file, is_key_bias,
    trainer, weights,
};
use crate::checkpoint::{NamedTensor, TensorFile};
use crate::gpu::Gpu;
use crate::model::{StepKind, Task};
use crate::optimizer::{OptimizerKind, OptimizerOptions, Schedule};
use crate::train::{StepScalars, Trainer};

const RUNS: &str = "steps_f64.json";
const BATCHES: &str = "batches.safetensors";

/// A run of `steps_f64.json`.
#[derive(Deserialize)]
struct Run {
    optimizer: String,
    clip_norm: Option<f64>,
    init_lr: f64,
    warmup_steps: f64,
    end_lr: f64,
    total_steps: u64,
    start: String,
    beta_1: f64,
    beta_2: f64,
    epsilon: f64,
    weight_decay: f64,
    poly_power: f64,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    step: u64,
    mlm_loss: f64,
    nsp_loss: f64,
    grad_norm: f64,
}

impl Run {
    fn optimizer(&self) -> Result<OptimizerOptions, SelfTestError> {
        let kind = match self.optimizer.as_str() {
            "adamw" => OptimizerKind::AdamW,
            "lamb" => OptimizerKind::Lamb,
            other => return Err(bad(format!("unknown optimizer {other}"))),
        };
        let Self { beta_1, beta_2, epsilon, weight_decay, clip_norm, .. } = *self;
        let reference = OptimizerOptions::new(kind);
        let options = OptimizerOptions { beta_1, beta_2, epsilon, weight_decay, clip_norm, ..reference };
        options.check().map_err(|error| bad(error.to_string()))?;
        Ok(options)
    }

    fn schedule(&self) -> Schedule {
        Schedule {
            init_lr: self.init_lr,
            end_lr: self.end_lr,
            total_steps: self.total_steps,
            warmup_steps: self.warmup_steps,
            power: self.poly_power,
        }
    }
}

fn bad(problem: String) -> SelfTestError {
    SelfTestError::BadFile { file: RUNS.into(), problem }
}

pub(super) async fn run(
    gpu: &Arc<Gpu>,
    files: &GoldenFiles,
    report: &mut SelfTestReport,
) -> Result<(), SelfTestError> {
    let Some(runs) = files.get(RUNS) else { return Ok(()) };
    let runs: BTreeMap<String, Run> = serde_json::from_slice(runs).map_err(|error| bad(error.to_string()))?;
    for (name, run) in &runs {
        if files.contains_key(&run.start) {
            one_run(gpu, files, name, run, report).await?;
        } else {
            report.left_out.push(format!("{name}: {} is missing", run.start));
        }
    }
    Ok(())
}

async fn one_run(
    gpu: &Arc<Gpu>,
    files: &GoldenFiles,
    name: &str,
    run: &Run,
    report: &mut SelfTestReport,
) -> Result<(), SelfTestError> {
    let (options, schedule) = (run.optimizer()?, run.schedule());
    let config = config(files, "config.json")?;
    let batches = TensorFile::parse(file(files, BATCHES)?, BATCHES)?;
    let mut made: Option<Trainer> = None;
    for step in &run.steps {
        let batch = batch(&batches, &format!("step{:02}.", step.step), &config)?;
        let trainer = match &mut made {
            Some(trainer) => trainer,
            None => {
                let kind = StepKind { task: Task::Train(options), ..StepKind::gradients(true) };
                let first = trainer(gpu, &config, &batch, kind).await?;
                first.write_weights(&weights(files, &run.start, &config)?);
                made.insert(first)
            }
        };
        let index = step.step - 1;
        let rates = options.step_words(&schedule, index);
        trainer.submit(&batch, &StepScalars { step: index, rates, ..Default::default() }, true).await?;
        let metrics = trainer.metrics().await?;
        let case = format!("{name} step {}", step.step);
        for (kind, name, got, want) in [
            (Quantity::Loss, "mlm_loss", metrics[0].lm_example_loss, step.mlm_loss),
            (Quantity::Loss, "nsp_loss", metrics[0].next_sentence_loss, step.nsp_loss),
            (Quantity::GradientNorm, "grad_norm", metrics[0].grad_norm, step.grad_norm),
        ] {
            report.compare(&case, kind, name, &[got], &[want as f32]);
        }
        compare_state(trainer, files, (name, step.step), &case, report).await?;
    }
    Ok(())
}

/// Weights and moments after a step, as far as there are files of them.
async fn compare_state(
    trainer: &Trainer,
    files: &GoldenFiles,
    (run, step): (&str, u64),
    case: &str,
    report: &mut SelfTestReport,
) -> Result<(), SelfTestError> {
    let name = format!("{run}.params_step{step:02}.safetensors");
    if let Some(bytes) = files.get(&name) {
        let weights = trainer.read_arena(&trainer.step().weights).await?;
        compare(Quantity::Parameter, "", &weights, &TensorFile::parse(bytes, &name)?, case, report)?;
    }
    let name = format!("{run}.moments_step{step:02}.safetensors");
    if let (Some(bytes), Some(moments)) = (files.get(&name), &trainer.step().moments) {
        for (prefix, arena) in ["m.", "v."].into_iter().zip(moments) {
            let moments = trainer.read_arena(arena).await?;
            compare(Quantity::Moment, prefix, &moments, &TensorFile::parse(bytes, &name)?, case, report)?;
        }
    }
    Ok(())
}

fn compare(
    kind: Quantity,
    prefix: &str,
    tensors: &[NamedTensor],
    golden: &TensorFile,
    case: &str,
    report: &mut SelfTestReport,
) -> Result<(), SelfTestError> {
    for tensor in tensors.iter().filter(|t| !is_key_bias(&t.name)) {
        let name = format!("{prefix}{}", tensor.name);
        if let Some(want) = expected(golden, &name)? {
            report.compare(case, kind, &name, &tensor.data, &want);
        }
    }
    Ok(())
}
