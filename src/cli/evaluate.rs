//! `wgpu-bert evaluate`: losses and accuracies of a saved model.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use indicatif::{FormattedDuration, ProgressBar};
use wgpu_bert::checkpoint::ModelFolder;
use wgpu_bert::data::{self, Disk, InstanceOptions, Tokenizer, TrainingData, Vocabulary};
use wgpu_bert::train::{TrainError, evaluate};

use super::device_flags::DeviceFlags;
use super::error::CliError;
use super::evaluation;
use super::input::{self, Input};
use super::input_files;
use super::interrupt;
use super::output;
use super::pretrain::{positive, probability, range};

/// Print a model's losses and accuracies over examples, as one JSON object
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct EvaluateFlags {
    /// Folder of a model in Hugging Face's form, as `wgpu-bert pretrain` saves it; a checkpoint is one, too
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Text files or TFRecord files, plain or gzip: names, folders or patterns (* ? [a-z]) with commas between
    #[arg(long, value_name = "FILES")]
    input_files: String,
    /// Examples computed at once
    #[arg(long, value_name = "N", default_value = "32", value_parser = positive)]
    eval_batch_size: usize,
    /// Tokens of an example made of text [default: 128, or what the model has positions for]
    #[arg(long, value_name = "N", value_parser = positive)]
    max_seq_length: Option<usize>,
    /// The most tokens masked in an example made of text [default: 20]
    #[arg(long, value_name = "N", value_parser = positive)]
    max_predictions_per_seq: Option<usize>,
    /// Share of the tokens of an example made of text that are masked [default: 0.15]
    #[arg(long, value_name = "P", value_parser = probability)]
    masked_lm_prob: Option<f64>,
    /// Start an example made of text with every sentence and fill it up, its first segment having this many tokens, as
    /// `pretrain` of the bundled corpus does [default: whole sentences]
    #[arg(long, value_name = "MIN,MAX", value_parser = range)]
    first_segment_tokens: Option<(usize, usize)>,
    /// Decides how examples are made of text
    #[arg(long, alias = "random_seed", value_name = "N", default_value_t = 12345)]
    seed: u64,
    /// Print errors as JSON, too
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    device: DeviceFlags,
}

pub fn run(flags: &EvaluateFlags) -> Result<(), CliError> {
    let strategy = flags.device.strategy()?;
    let model = ModelFolder::load(&flags.model)?;
    let origin = flags.model.join("vocab.txt").display().to_string();
    let tokenizer = Tokenizer::new(Vocabulary::parse(&model.vocabulary, &origin)?, model.do_lower_case)
        .with_strip_accents(model.strip_accents);
    let next_sentence = model.tensors.iter().any(|tensor| tensor.name.starts_with("cls.seq_relationship."));
    let input = input::find(&input_files::names("input_files", &flags.input_files)?)?;
    let disk = Disk::at(&std::env::temp_dir());
    let data: TrainingData = match input {
        Input::Records(paths) => {
            let shape = (flags.max_seq_length, flags.max_predictions_per_seq);
            input::of_records(&paths, next_sentence, shape, tokenizer.vocabulary().size(), false, &disk)?
                .into()
        }
        Input::Text(sources) => {
            let reference = InstanceOptions::default();
            let most = model.config.max_position_embeddings;
            let options = InstanceOptions {
                max_seq_length: flags.max_seq_length.unwrap_or(reference.max_seq_length.min(most)),
                max_predictions_per_seq: flags
                    .max_predictions_per_seq
                    .unwrap_or(reference.max_predictions_per_seq),
                masked_lm_prob: flags.masked_lm_prob.unwrap_or(reference.masked_lm_prob),
                first_segment_tokens: flags.first_segment_tokens,
                dupe_factor: 1,
                random_seed: flags.seed,
                use_next_sentence_label: next_sentence,
                ..reference
            };
            input::of_text(sources, &tokenizer, &options, &disk)?.instances.into()
        }
    };
    let gpu = Arc::new(pollster::block_on(strategy.open(flags.device.options()))?);
    // Where stderr is no terminal, the bar is not seen.
    output::note(format_args!(
        "Evaluating {} on {} examples, on {}",
        flags.model.display(),
        data.count(),
        gpu.adapter.name
    ));
    let start = Instant::now();
    let bar = ProgressBar::new(data.count() as u64);
    let interrupt = interrupt::listen()?;
    let done = |instances| {
        bar.set_position(instances as u64);
        if interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let evaluating = evaluate(&gpu, &model.config, &model.tensors, data, flags.eval_batch_size, done);
    let result = pollster::block_on(evaluating);
    bar.finish_and_clear();
    let result = result.map_err(|error| match error {
        TrainError::Data(data::Error::Interrupted) => CliError::Interrupted { told: "Interrupted.".into() },
        error => error.into(),
    })?;
    let took = FormattedDuration(start.elapsed());
    output::note(format_args!("{} ({took})", evaluation::to_text(&result)));
    output::result(evaluation::to_json(&result))
}
