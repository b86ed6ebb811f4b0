//! From options and recipe to a run in every detail.

use super::Rejection;
use super::options::{BiasStart, Dtype, HiddenAct, Kernels, ModelChoice, ModelSizes, RunOptions};
use super::text::Reading;
use crate::checkpoint::{ModelFolder, NamedTensor};
use crate::data::{InstanceOptions, Tokenizer, Vocabulary};
use crate::gpu::{DeviceOptions, KernelFamily, Precision};
use crate::model::config::{Activation, BertConfig};
use crate::optimizer::Schedule;
use crate::train::recipe::{self, Recipe, Warmup};
use crate::train::{Distribution, OutputBiasInit, PretrainOptions};

/// How long the learning rate grows where nothing is said: the reference's steps are more than most runs here have.
const WARMUP: Warmup = Warmup::Share(0.1);

/// A run before its text is read.
pub struct Resolved {
    /// The vocabulary will decide `config.vocab_size`.
    pub options: PretrainOptions,
    pub instances: InstanceOptions,
    pub vocabulary: VocabularySource,
    pub do_lower_case: bool,
    /// Examples with more tokens do not stay in memory.
    pub max_tokens_in_memory: Option<usize>,
    pub skip_bad_records: bool,
    /// S and M, where they are given.
    pub given_shape: (Option<usize>, Option<usize>),
    /// An option given that has nothing to act on where examples are made already.
    pub for_text: Option<&'static str>,
}

pub enum VocabularySource {
    /// The content of a `vocab.txt`.
    Given(String),
    /// Trained from the text, with at most so many entries.
    Trained(usize),
}

impl VocabularySource {
    pub async fn vocabulary(&self, text: &Reading, do_lower_case: bool) -> Result<Vocabulary, Rejection> {
        match self {
            Self::Given(text) => Ok(Vocabulary::parse(text, "vocabulary")?),
            Self::Trained(size) => text.train_vocabulary(*size, do_lower_case).await,
        }
    }
}

impl Resolved {
    /// Has the model room for the examples made of a text?
    pub fn check_positions(&self) -> Result<(), Rejection> {
        let (length, positions) =
            (self.instances.max_seq_length, self.options.config.max_position_embeddings);
        if length <= positions {
            return Ok(());
        }
        let message = format!("{length} is more than the model's maxPositionEmbeddings, {positions}");
        Err(Rejection::option("maxSeqLength", message))
    }

    /// The run's model, with weights.
    pub fn into_folder(self, tensors: Vec<NamedTensor>, tokenizer: &Tokenizer) -> ModelFolder {
        ModelFolder {
            config: self.options.config,
            tensors,
            vocabulary: tokenizer.vocabulary().to_text(),
            do_lower_case: self.do_lower_case,
            strip_accents: tokenizer.strip_accents(),
            tokenizer_json: Some(tokenizer.to_tokenizer_json()),
        }
    }
}

/// Without a model and a vocabulary, the small recipe fills in what is missing; else the reference's defaults do.
///
/// # Errors
/// An `OptionError` for options that contradict each other.
pub fn resolve(options: RunOptions) -> Result<Resolved, Rejection> {
    let for_text = options.for_text();
    let given_shape = (options.max_seq_length, options.max_predictions_per_seq);
    let leaves_model_open = options.config.is_none() && options.vocabulary.is_none();
    let recipe = if leaves_model_open { recipe::SOFTWARE } else { recipe::REFERENCE };
    let instances = recipe.instances(options.instances());
    let config = bert_config(&options, &recipe, instances.max_seq_length)?;
    let total_steps = options.steps.unwrap_or(recipe.num_steps_per_epoch * recipe.num_train_epochs) as u64;
    let schedule = Schedule {
        init_lr: options.learning_rate.unwrap_or(recipe.learning_rate),
        end_lr: options.end_lr.unwrap_or(0.0),
        total_steps,
        warmup_steps: options.warmup_steps.unwrap_or(WARMUP.steps(total_steps)),
        power: 1.0,
    };
    let run = PretrainOptions {
        config,
        batch_size: options.batch_size.unwrap_or(recipe.train_batch_size),
        optimizer: recipe.optimizer(options.optimizer()),
        schedule,
        steps_per_epoch: options.steps_per_epoch.map_or(total_steps, |steps| steps as u64),
        num_eval_per_epoch: options.num_eval_per_epoch.map_or(1, |count| count as u64),
        use_next_sentence_label: instances.use_next_sentence_label,
        steps_per_loop: options.steps_per_loop.unwrap_or(recipe.steps_per_loop).min(total_steps as usize),
        seed: instances.random_seed,
        recompute: options.recompute.unwrap_or(false),
        precision: match options.dtype {
            None | Some(Dtype::Fp32) => Precision::F32,
            Some(Dtype::Fp16) => Precision::F16,
        },
        output_bias_init: match options.output_bias_init {
            None => recipe.output_bias_init,
            Some(BiasStart::Zeros) => OutputBiasInit::Zeros,
            Some(BiasStart::Unigram) => OutputBiasInit::Unigram,
        },
        device: DeviceOptions { family: options.kernels.map(Into::into), ..Default::default() },
        distribution: Distribution {
            gradient_accumulation_steps: options.gradient_accumulation_steps,
            ..Distribution::default()
        },
    };
    run.check()?;
    let vocabulary = match (options.vocabulary, options.vocab_size) {
        (Some(_), Some(_)) => {
            return Err(Rejection::option("vocabSize", "a vocabulary that is given has its own size"));
        }
        (Some(text), None) => VocabularySource::Given(text),
        (None, size) => VocabularySource::Trained(size.unwrap_or(recipe.vocab_size)),
    };
    Ok(Resolved {
        options: run,
        instances,
        vocabulary,
        do_lower_case: options.do_lower_case.unwrap_or(true),
        max_tokens_in_memory: options.max_tokens_in_memory,
        skip_bad_records: options.skip_bad_records.unwrap_or(false),
        given_shape,
        for_text,
    })
}

/// The model; its `vocab_size` counts for nothing until the vocabulary is there.
fn bert_config(
    options: &RunOptions,
    recipe: &Recipe,
    max_seq_length: usize,
) -> Result<BertConfig, Rejection> {
    const ANY: usize = 1;
    let preset = |name: &str| {
        BertConfig::preset(name, ANY).map_err(|error| Rejection::option("config", error.problem))
    };
    let of = |recipe: &Recipe| {
        recipe.config(ANY, max_seq_length).map_err(|error| Rejection::option("config", error.problem))
    };
    let config = match &options.config {
        None => of(recipe)?,
        Some(ModelChoice::Size(name)) if name == "nano" => of(&recipe::SOFTWARE)?,
        Some(ModelChoice::Size(name)) => preset(name)?,
        Some(ModelChoice::Sizes(sizes)) => sized(sizes, preset("base")?),
    };
    if config.hidden_size % config.num_attention_heads != 0 {
        let (width, heads) = (config.hidden_size, config.num_attention_heads);
        let message = format!("hiddenSize {width} cannot be divided into {heads} heads of one width");
        return Err(Rejection::option("config.numAttentionHeads", message));
    }
    config.validate().map_err(Rejection::config)?;
    Ok(config)
}

/// What is not said is as in the reference's base model.
fn sized(sizes: &ModelSizes, base: BertConfig) -> BertConfig {
    BertConfig {
        hidden_size: sizes.hidden_size.unwrap_or(base.hidden_size),
        num_hidden_layers: sizes.num_hidden_layers.unwrap_or(base.num_hidden_layers),
        num_attention_heads: sizes.num_attention_heads.unwrap_or(base.num_attention_heads),
        intermediate_size: sizes.intermediate_size.unwrap_or(base.intermediate_size),
        hidden_act: match sizes.hidden_act {
            None | Some(HiddenAct::GeluNew) => Activation::GeluTanh,
            Some(HiddenAct::Gelu) => Activation::GeluErf,
            Some(HiddenAct::Relu) => Activation::Relu,
            Some(HiddenAct::Silu) => Activation::Silu,
        },
        hidden_dropout_prob: sizes.hidden_dropout_prob.unwrap_or(base.hidden_dropout_prob),
        attention_probs_dropout_prob: sizes
            .attention_probs_dropout_prob
            .unwrap_or(base.attention_probs_dropout_prob),
        max_position_embeddings: sizes.max_position_embeddings.unwrap_or(base.max_position_embeddings),
        initializer_range: sizes.initializer_range.unwrap_or(base.initializer_range),
        ..base
    }
}

impl From<Kernels> for KernelFamily {
    fn from(kernels: Kernels) -> Self {
        match kernels {
            Kernels::Register => Self::Register,
            Kernels::Tile => Self::Tile,
            Kernels::Texture => Self::Texture,
            Kernels::Workgroup => Self::Workgroup,
        }
    }
}
