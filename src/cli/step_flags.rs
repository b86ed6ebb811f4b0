//! Flags that say what a training step works on, for commands that need no text.

use clap::Args;
use wgpu_bert::data;
use wgpu_bert::gpu::Precision;
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::optimizer::{LossScale, OptimizerKind, OptimizerOptions, Schedule};
use wgpu_bert::train::{Distribution, OutputBiasInit, PretrainOptions};

use super::device_flags::DeviceFlags;
use super::error::CliError;
use super::pretrain::{positive, precision};

/// A model, a batch and where to compute.
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct StepFlags {
    /// One of Google's sizes
    #[arg(long, value_name = "SIZE", default_value = "tiny",
        value_parser = ["tiny", "mini", "small", "medium", "base"])]
    pub model_size: String,
    /// Entries of the vocabulary
    #[arg(long, value_name = "N", default_value = "8192", value_parser = positive)]
    pub vocab_size: usize,
    /// Sequences in a step
    #[arg(long, value_name = "N", default_value = "8", value_parser = positive)]
    pub train_batch_size: usize,
    /// Tokens of a sequence
    #[arg(long, value_name = "N", default_value = "128", value_parser = positive)]
    pub max_seq_length: usize,
    /// Masked tokens of a sequence
    #[arg(long, value_name = "N", default_value = "20", value_parser = positive)]
    pub max_predictions_per_seq: usize,
    /// Compute activations again instead of keeping them
    #[arg(long)]
    pub recompute: bool,
    /// fp32, or fp16: activations in half the memory, and a dynamic loss scale [default: fp32]
    #[arg(long, alias = "dt", value_name = "TYPE", value_parser = precision)]
    pub dtype: Option<Precision>,
    #[command(flatten)]
    pub device: DeviceFlags,
}

impl StepFlags {
    /// The run whose step it is.
    pub fn options(&self) -> Result<PretrainOptions, CliError> {
        let precision = self.dtype.unwrap_or_default();
        let options = PretrainOptions {
            config: BertConfig::preset(&self.model_size, self.vocab_size)?,
            batch_size: self.train_batch_size,
            optimizer: OptimizerOptions {
                loss_scale: (precision == Precision::F16).then_some(LossScale::Dynamic),
                ..OptimizerOptions::new(OptimizerKind::AdamW)
            },
            schedule: Schedule { init_lr: 1e-4, end_lr: 1e-4, total_steps: 1, warmup_steps: 0.0, power: 1.0 },
            steps_per_epoch: 1,
            num_eval_per_epoch: 1,
            use_next_sentence_label: true,
            steps_per_loop: 1,
            seed: 12345,
            recompute: self.recompute,
            precision,
            output_bias_init: OutputBiasInit::Zeros,
            device: self.device.options(),
            // In one piece: what does not fit is to be told.
            distribution: Distribution::in_parts(1),
        };
        let (seq_length, max_position_embeddings) =
            (self.max_seq_length, options.config.max_position_embeddings);
        if seq_length > max_position_embeddings {
            let origin = "--max_seq_length".into();
            return Err(data::Error::SequenceTooLong { origin, seq_length, max_position_embeddings }.into());
        }
        Ok(options)
    }

    /// What there is to say of the step besides its sizes.
    pub fn manner(&self) -> String {
        let in_fp16 = if self.dtype() == "fp16" { ", in fp16" } else { "" };
        let again = if self.recompute { ", activations computed again" } else { "" };
        [in_fp16, again].concat()
    }

    /// The name of the precision.
    pub fn dtype(&self) -> &'static str {
        match self.dtype {
            None | Some(Precision::F32) => "fp32",
            Some(Precision::F16) => "fp16",
        }
    }
}
