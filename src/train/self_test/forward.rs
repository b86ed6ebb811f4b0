//! Losses, logits, outputs and every gradient of one batch.

use std::sync::Arc;

use super::{
    GoldenFiles, Quantity, SelfTestError, SelfTestReport, batch, config, expected, file, trainer, weights,
};
use crate::checkpoint::TensorFile;
use crate::gpu::Gpu;
use crate::model::{StepKind, Task};
use crate::train::{StepScalars, Trainer};

pub(super) async fn run(
    gpu: &Arc<Gpu>,
    files: &GoldenFiles,
    report: &mut SelfTestReport,
) -> Result<(), SelfTestError> {
    for form in ["", "_gelu_new"] {
        for weights in ["", "_zero_weights"] {
            let expected = format!("expected{weights}{form}.safetensors");
            if files.contains_key(&expected) {
                let (config, batch) = (format!("config{form}.json"), format!("batch{weights}.safetensors"));
                case(gpu, files, [&expected, &config, &batch], report).await?;
            }
        }
    }
    Ok(())
}

async fn case(
    gpu: &Arc<Gpu>,
    files: &GoldenFiles,
    [expected_name, config_name, batch_name]: [&str; 3],
    report: &mut SelfTestReport,
) -> Result<(), SelfTestError> {
    let config = config(files, config_name)?;
    let weights = weights(files, "model.safetensors", &config)?;
    let batch = batch(&TensorFile::parse(file(files, batch_name)?, batch_name)?, "", &config)?;
    let golden = TensorFile::parse(file(files, expected_name)?, expected_name)?;

    let kind = StepKind { task: Task::Evaluate, ..StepKind::predict(true) };
    let mut evaluation = trainer(gpu, &config, &batch, kind).await?;
    evaluation.write_weights(&weights);
    evaluation.submit(&batch, &StepScalars::default(), true).await?;
    let metrics = evaluation.metrics().await?;
    let metrics = &metrics[0];
    let (mlm, nsp) = (metrics.lm_example_loss, metrics.next_sentence_loss);
    let step = evaluation.step();
    let mlm_logits = step.without_padding(&evaluation.read(step.mlm_logits).await?);
    let mut got = vec![
        (Quantity::Loss, "mlm_loss", vec![mlm]),
        (Quantity::Loss, "nsp_loss", vec![nsp]),
        (Quantity::Loss, "total_loss", vec![mlm + nsp]),
        (Quantity::Logits, "mlm_logits", mlm_logits),
        (Quantity::Output, "sequence_output", evaluation.read(step.sequence_output).await?),
    ];
    if let (Some(logits), Some(pooled)) = (step.nsp_logits, step.pooled_output) {
        got.push((Quantity::Logits, "nsp_logits", evaluation.read(logits).await?));
        got.push((Quantity::Output, "pooled_output", evaluation.read(pooled).await?));
    }
    for (kind, name, got) in got {
        if let Some(want) = expected(&golden, name)? {
            report.compare(expected_name, kind, name, &got, &want);
        }
    }

    let mut backward = trainer(gpu, &config, &batch, StepKind::gradients(true)).await?;
    backward.write_weights(&weights);
    backward.submit(&batch, &StepScalars::default(), false).await?;
    compare_gradients(&backward, &golden, expected_name, report).await
}

async fn compare_gradients(
    trainer: &Trainer,
    golden: &TensorFile<'_>,
    case: &str,
    report: &mut SelfTestReport,
) -> Result<(), SelfTestError> {
    let Some(arena) = &trainer.step().gradients else { return Ok(()) };
    for gradient in trainer.read_arena(arena).await? {
        let name = format!("grad.{}", gradient.name);
        if let Some(want) = expected(golden, &name)? {
            report.compare(case, Quantity::Gradient, &name, &gradient.data, &want);
        }
    }
    Ok(())
}
