//! The flags of `pretrain`. Names and defaults are those of the reference where it has them.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

use wgpu_bert::gpu::Precision;
use wgpu_bert::optimizer::LossScale;
use wgpu_bert::strategy::Algorithm;

use super::super::device_flags::DeviceFlags;

/// Pre-train a BERT and save it in Hugging Face's form
///
/// Without --model_size, --bert_config_file and --vocab_file it trains a small BERT with settings that suit the adapter,
/// on the bundled corpus or the text of --input_files, in minutes; any flag overrides its value. Defaults told below are
/// those of runs with one of the three.
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct PretrainFlags {
    /// Print measurements and checkpoints as JSON on stdout, one object per line; the last has "kind": "done"
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub model: ModelFlags,
    #[command(flatten)]
    pub options: OptionFlags,
    #[command(flatten)]
    pub resume: ResumeFlags,
    #[command(flatten)]
    pub device: DeviceFlags,
}

/// What the model is.
#[derive(Args, Default)]
#[command(rename_all = "snake_case", next_help_heading = "Model")]
pub struct ModelFlags {
    /// JSON with the model's sizes (a bert_config.json or config.json); training options may stand there too, under
    /// the names of their flags. A flag given here wins
    #[arg(long, value_name = "FILE", conflicts_with = "model_size")]
    pub bert_config_file: Option<PathBuf>,
    /// One of Google's sizes [default: tiny]
    #[arg(long, value_name = "SIZE", value_parser = ["tiny", "mini", "small", "medium", "base"])]
    pub model_size: Option<String>,
    /// Weights to start from: a folder in Hugging Face's form, which says the model's sizes and vocabulary too, or its
    /// model.safetensors alone; or a TensorFlow checkpoint by its prefix, with what bert_config.json and vocab.txt beside
    /// it say. Heads that it lacks start at random [default: all random]
    #[arg(long, value_name = "DIR|FILE|PREFIX", conflicts_with_all = ["vocab_size", "output_bias_init"])]
    pub init_checkpoint: Option<PathBuf>,
    /// Entries of the vocabulary that is trained from the text when there is no --vocab_file [default: vocab_size of
    /// --bert_config_file, or 8192]
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "vocab_file")]
    pub vocab_size: Option<usize>,
    /// Dropout of the layers' outputs [default: the model's]
    #[arg(long, value_name = "P", value_parser = below_one)]
    pub hidden_dropout_prob: Option<f64>,
    /// Dropout of the attention probabilities [default: the model's]
    #[arg(long, value_name = "P", value_parser = below_one)]
    pub attention_probs_dropout_prob: Option<f64>,
}

/// Everything that may also stand in the JSON of --bert_config_file.
#[derive(Args, Default)]
#[command(rename_all = "snake_case")]
pub struct OptionFlags {
    #[command(flatten)]
    pub text: TextFlags,
    #[command(flatten)]
    pub training: TrainingFlags,
    #[command(flatten)]
    pub evaluation: EvaluationFlags,
    #[command(flatten)]
    pub checkpoints: CheckpointFlags,
}

/// The text, and how training examples are made of it.
#[derive(Args, Default)]
#[command(rename_all = "snake_case", next_help_heading = "Text and examples")]
pub struct TextFlags {
    /// Text files or TFRecord files, plain or gzip: names, folders or patterns (* ? [a-z]) with commas between. Text
    /// has one sentence a line and a blank line between documents [default: the bundled corpus]
    #[arg(long, value_name = "FILES")]
    pub input_files: Option<String>,
    /// Leave out and count TFRecord records that are damaged, instead of ending at the first [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub skip_bad_records: Option<bool>,
    /// WordPiece vocabulary, a token a line [default: trained from the text]
    #[arg(long, value_name = "FILE")]
    pub vocab_file: Option<PathBuf>,
    /// Lower-case the text [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub do_lower_case: Option<bool>,
    /// Strip accents [default: as do_lower_case]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub strip_accents: Option<bool>,
    /// Tokens of an example [default: 128]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_seq_length: Option<usize>,
    /// The most tokens masked in an example [default: 20]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_predictions_per_seq: Option<usize>,
    /// Share of the tokens that are masked [default: 0.15]
    #[arg(long, value_name = "P", value_parser = probability)]
    pub masked_lm_prob: Option<f64>,
    /// Mask whole words [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub do_whole_word_mask: Option<bool>,
    /// The most words masked together, where whole words are masked [default: 1]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_ngram_size: Option<usize>,
    /// static: masks are those of the examples, which dupe_factor repeats; dynamic: new ones whenever an example is used
    /// [default: static]
    #[arg(long, value_name = "HOW", ignore_case = true, hide_possible_values = true)]
    pub masking: Option<Masking>,
    /// Share of the examples made shorter than they could be [default: 0.1]
    #[arg(long, value_name = "P", value_parser = probability)]
    pub short_seq_prob: Option<f64>,
    /// How often the text is gone through, each time with other masks [default: 10]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub dupe_factor: Option<usize>,
    /// Start an example with every sentence and fill it up, its first segment having this many tokens [default: whole
    /// sentences]
    #[arg(long, value_name = "MIN,MAX", value_parser = range)]
    pub first_segment_tokens: Option<(usize, usize)>,
}

/// The run.
#[derive(Args, Default)]
#[command(rename_all = "snake_case", next_help_heading = "Training")]
pub struct TrainingFlags {
    /// Folder of the run, empty or not there yet: its checkpoints, and at the end the model [default: wgpu-bert-model
    /// without --model_size, --bert_config_file and --vocab_file; otherwise it must be given]
    #[arg(long, alias = "md", value_name = "DIR")]
    pub model_dir: Option<PathBuf>,
    /// Examples in a step [default: 32]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub train_batch_size: Option<usize>,
    /// Equal parts that a batch is done in, one after another. The update is that of the whole batch, in less memory
    /// [default: as few as fit the device]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub gradient_accumulation_steps: Option<usize>,
    /// Order in which the gradients of several replicas are summed: hierarchical_copy, two by two, or ring, one after
    /// another [default: hierarchical_copy]
    #[arg(long, alias = "ara", value_name = "NAME")]
    pub all_reduce_alg: Option<Algorithm>,
    /// The most bytes of gradients that leave a replica together, while its backward goes on; 0 for all at its end
    /// [default: 0]
    #[arg(long, value_name = "BYTES")]
    pub allreduce_bytes_per_pack: Option<usize>,
    /// Pass gradients through the host with a single replica, too; with several they always do. Programs in Rust can change
    /// them there [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub explicit_allreduce: Option<bool>,
    /// seed: TensorFlow's arithmetic of several replicas. Each normalises the loss by its own part of the batch and clips
    /// its gradients, whose sum is as many times as large [default: that of the whole batch, clipped once]
    #[arg(long, value_name = "MODE", ignore_case = true, hide_possible_values = true)]
    pub compat: Option<Compat>,
    /// With --compat=seed: divide each replica's loss by the number of replicas [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub scale_loss: Option<bool>,
    /// Steps of an epoch [default: 1000]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub num_steps_per_epoch: Option<usize>,
    /// Epochs; steps per epoch times epochs is the length of the run [default: 3]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub num_train_epochs: Option<usize>,
    /// Steps between two measurements [default: 10]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub steps_per_loop: Option<usize>,
    /// Steps at least between two points of TensorBoard's curves of training in the folder summaries; none where it is
    /// negative [default: 0]
    #[arg(long, value_name = "N", value_parser = interval, allow_negative_numbers = true)]
    pub train_summary_interval: Option<i64>,
    /// Learning rate at the end of the warm-up [default: 5e-5]
    #[arg(long, value_name = "RATE", value_parser = not_negative)]
    pub learning_rate: Option<f64>,
    /// Learning rate at the end of the run [default: 0]
    #[arg(long, value_name = "RATE", value_parser = not_negative)]
    pub end_lr: Option<f64>,
    /// Steps in which the learning rate grows from 0 [default: 10000]
    #[arg(long, value_name = "N", value_parser = not_negative)]
    pub warmup_steps: Option<f64>,
    /// adamw or lamb [default: adamw]
    #[arg(long, value_name = "NAME", ignore_case = true, hide_possible_values = true)]
    pub optimizer_type: Option<OptimizerType>,
    /// Weight decay, of all but biases and layer normalisations [default: 0.01]
    #[arg(long, value_name = "X", value_parser = not_negative)]
    pub weight_decay: Option<f64>,
    /// How much of the first moments a step keeps [default: 0.9]
    #[arg(long, value_name = "X", value_parser = below_one)]
    pub beta_1: Option<f64>,
    /// How much of the second moments a step keeps [default: 0.999]
    #[arg(long, value_name = "X", value_parser = below_one)]
    pub beta_2: Option<f64>,
    /// What follows a loss or a gradient that is not finite, whose update is left out: stop, or skip and go on, but for
    /// 10 in a row [default: stop]
    #[arg(long, value_name = "ACTION", ignore_case = true, hide_possible_values = true)]
    pub on_nan: Option<NanAction>,
    /// Largest global norm of the gradients, 0 for no limit [default: 1 with adamw, 0 with lamb]
    #[arg(long, value_name = "NORM", value_parser = not_negative)]
    pub clip_norm: Option<f64>,
    /// Train the next-sentence task too [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub use_next_sentence_label: Option<bool>,
    /// Where the output bias starts: zeros, or unigram, the log frequency of each token [default: zeros]
    #[arg(long, value_name = "START", ignore_case = true, hide_possible_values = true)]
    pub output_bias_init: Option<BiasStart>,
    /// Decides examples, their order, initial weights and dropout [default: 12345]
    #[arg(long, alias = "random_seed", value_name = "N")]
    pub seed: Option<u64>,
    /// Compute the layers' activations again for the backward pass instead of keeping them: less memory, up to a third
    /// more to compute, the same numbers [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub recompute: Option<bool>,
    /// fp32, or fp16 on adapters with the feature shader-f16: activations take half the memory, weights stay in fp32
    /// [default: fp32]
    #[arg(long, alias = "dt", value_name = "TYPE", value_parser = precision)]
    pub dtype: Option<Precision>,
    /// What the loss is multiplied with in fp16, so that small gradients are not lost: dynamic, which skips a step and
    /// halves where a gradient is not finite, whatever --on_nan says, but for 10 in a row; or a number [default: dynamic]
    #[arg(long, alias = "ls", value_name = "dynamic|SCALE", value_parser = loss_scale)]
    pub loss_scale: Option<LossScale>,
    /// keras, the only way fp16 is computed here
    #[arg(long, value_name = "NAME", value_parser = fp16_implementation)]
    pub fp16_implementation: Option<()>,
}

/// How well the model guesses on examples that it does not learn from.
#[derive(Args, Default)]
#[command(rename_all = "snake_case", next_help_heading = "Evaluation")]
pub struct EvaluationFlags {
    /// Text or TFRecord files, as for --input_files, on which the model is evaluated during training. The checkpoint
    /// with the lowest loss there is kept, too [default: no evaluation]
    #[arg(long, value_name = "FILES")]
    pub eval_files: Option<String>,
    /// Evaluations in an epoch, the last at its end [default: 1]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub num_eval_per_epoch: Option<usize>,
}

/// What a run leaves behind to go on from.
#[derive(Args, Default)]
#[command(rename_all = "snake_case", next_help_heading = "Checkpoints")]
pub struct CheckpointFlags {
    /// Steps between two checkpoints [default: 1000]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub save_checkpoints_steps: Option<usize>,
    /// Seconds between two checkpoints, where that comes first [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub save_checkpoints_secs: Option<usize>,
    /// Checkpoints to keep: the newest so many, besides the one with the best evaluation [default: 3]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub keep_checkpoint_max: Option<usize>,
}

/// Going on with a run.
#[derive(Args)]
#[command(rename_all = "snake_case", next_help_heading = "Checkpoints")]
pub struct ResumeFlags {
    /// auto: go on from the newest checkpoint of --model_dir, or start where there is none; never: start, in an empty
    /// folder; or the step of a checkpoint there, or a checkpoint's folder [default: never]
    #[arg(long, value_name = "auto|never|STEP|DIR")]
    pub resume: Option<Resume>,
    /// Go on although options or data differ from the run's so far
    #[arg(long)]
    pub confirm_changes: bool,
}

/// Where a run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    Auto,
    Never,
    Step(u64),
    Checkpoint(PathBuf),
}

impl FromStr for Resume {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match (text.to_lowercase().as_str(), text.parse()) {
            ("auto", _) => Self::Auto,
            ("never", _) => Self::Never,
            (_, Ok(step)) => Self::Step(step),
            _ => Self::Checkpoint(text.into()),
        })
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OptimizerType {
    Adamw,
    Lamb,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum NanAction {
    Stop,
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Masking {
    Static,
    Dynamic,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Compat {
    Seed,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum BiasStart {
    Zeros,
    Unigram,
}

pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=i32::MAX as usize).contains(&number) => Ok(number),
        _ => Err("must be a whole number from 1 to 2147483647".into()),
    }
}

/// The reference declares it a boolean by mistake.
fn interval(text: &str) -> Result<i64, String> {
    match text.to_lowercase().as_str() {
        "true" => Ok(1),
        "false" => Ok(0),
        text => text.parse().map_err(|_| "must be a whole number".into()),
    }
}

fn number(text: &str, allowed: impl Fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number| allowed(*number)).ok_or_else(|| format!("must be {expected}"))
}

fn not_negative(text: &str) -> Result<f64, String> {
    number(text, |x| x.is_finite() && x >= 0.0, "a number of at least 0")
}

pub fn probability(text: &str) -> Result<f64, String> {
    number(text, |x| (0.0..=1.0).contains(&x), "a number from 0 to 1")
}

fn below_one(text: &str) -> Result<f64, String> {
    number(text, |x| (0.0..1.0).contains(&x), "a number from 0 up to, but not including, 1")
}

pub fn range(text: &str) -> Result<(usize, usize), String> {
    let ends = text
        .split_once(',')
        .and_then(|(low, high)| Some((positive(low.trim()).ok()?, positive(high.trim()).ok()?)));
    ends.filter(|(low, high)| low <= high)
        .ok_or_else(|| "must be two whole numbers MIN,MAX with 1 <= MIN <= MAX".into())
}

pub fn precision(text: &str) -> Result<Precision, String> {
    match text.to_lowercase().as_str() {
        "fp32" => Ok(Precision::F32),
        "fp16" => Ok(Precision::F16),
        "bf16" => Err("WebGPU has no bf16; take fp16 or fp32".into()),
        _ => Err("must be fp32 or fp16".into()),
    }
}

fn loss_scale(text: &str) -> Result<LossScale, String> {
    if text.eq_ignore_ascii_case("dynamic") {
        return Ok(LossScale::Dynamic);
    }
    let scale = text.parse().ok().filter(|scale: &f32| scale.is_normal() && *scale > 0.0);
    scale.map(LossScale::Fixed).ok_or_else(|| "must be dynamic or a number above 0".into())
}

fn fp16_implementation(text: &str) -> Result<(), String> {
    match text.to_lowercase().as_str() {
        "keras" => Ok(()),
        "graph_rewrite" => {
            Err("it rewrites graphs of TensorFlow, of which there are none here; leave it out".into())
        }
        _ => Err("must be keras".into()),
    }
}
