//! From flags, file and recipe to the options of a run.

use std::path::PathBuf;
use std::time::Duration;

use wgpu_bert::checkpoint::import::ImportSource;
use wgpu_bert::data::{self, InstanceOptions};
use wgpu_bert::gpu::{DeviceOptions, Precision};
use wgpu_bert::model::config::{BertConfig, ConfigError, ConfigProblem};
use wgpu_bert::optimizer::{LossScale, OnNan, OptimizerKind, Schedule};
use wgpu_bert::strategy::AllReduce;
use wgpu_bert::train::recipe::{self, Recipe};
use wgpu_bert::train::{
    Distribution, InstanceChoices, OptimizerChoices, OutputBiasInit, PretrainOptions, SeedCompat,
};

use super::super::bundled::MODEL_DIR;
use super::super::error::CliError;
use super::super::input_files;
use super::flags::{
    BiasStart, Compat, Masking, ModelFlags, NanAction, OptimizerType, OptionFlags, TextFlags,
};

/// A run in every detail, before its text is read.
#[derive(Debug)]
pub struct PretrainArgs {
    /// Names or patterns of text files; `None` for the bundled corpus.
    pub input_files: Option<Vec<String>>,
    /// Likewise of held-out examples; `None` for no evaluation.
    pub eval_files: Option<Vec<String>>,
    /// Whether damaged records are left out.
    pub skip_bad_records: bool,
    pub vocabulary: VocabularySource,
    pub do_lower_case: bool,
    /// `None`: as `do_lower_case`.
    pub strip_accents: Option<bool>,
    pub instances: InstanceOptions,
    /// Whether examples are masked anew whenever they are used.
    pub dynamic_masking: bool,
    /// --max_seq_length and --max_predictions_per_seq where they were given: records must have them.
    pub given_shape: (Option<usize>, Option<usize>),
    /// Flags given that only say how examples are made of text.
    pub flags_for_text: Vec<&'static str>,
    /// `config.vocab_size` is that of the vocabulary, unless `vocab_size_is_fixed`.
    pub options: PretrainOptions,
    /// The model's file says how many rows there are; the vocabulary may be smaller.
    pub vocab_size_is_fixed: bool,
    pub model_dir: PathBuf,
    pub checkpoints: CheckpointPlan,
    /// Steps between two points of the curves; none where it is negative.
    pub train_summary_interval: i64,
    /// What the user should know before the run.
    pub warnings: Vec<String>,
}

/// When checkpoints are written, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointPlan {
    pub every_steps: u64,
    pub every: Duration,
    pub keep: usize,
}

#[derive(Debug, PartialEq)]
pub enum VocabularySource {
    File(PathBuf),
    /// The text of a `vocab.txt`, and where it comes from.
    Given(String, String),
    /// Trained from the text, with at most so many entries.
    Trained(usize),
}

/// `config` is the model of --bert_config_file, `init` what --init_checkpoint names; `software` tells that the adapter computes on the processor.
pub fn resolve(
    model: &ModelFlags,
    options: &OptionFlags,
    config: Option<BertConfig>,
    init: Option<&ImportSource>,
    software: bool,
    device: DeviceOptions,
) -> Result<PretrainArgs, CliError> {
    let OptionFlags { text, training, evaluation, checkpoints } = options;
    let config = config.or_else(|| init.filter(|_| model.model_size.is_none())?.config.clone());
    if let Some(init) = init.filter(|_| config.is_none() && model.model_size.is_none()) {
        return Err(CliError::WeightsNeedConfig { origin: init.name.clone() });
    }
    // A text alone says nothing of sizes; a vocabulary does, and comes with every file of records.
    let leaves_model_open =
        config.is_none() && model.model_size.is_none() && text.vocab_file.is_none() && init.is_none();
    let recipe = match leaves_model_open {
        true if software => recipe::SOFTWARE,
        true => recipe::GPU,
        false => recipe::REFERENCE,
    };
    let instances = recipe.instances(instances(options));
    let vocab_size =
        model.vocab_size.or(config.as_ref().map(|config| config.vocab_size)).unwrap_or(recipe.vocab_size);
    let vocab_size_is_fixed = config.is_some();
    let config = bert_config(model, config, &recipe, vocab_size, instances.max_seq_length)?;
    if let Some(seq_length) = text.max_seq_length.filter(|given| *given > config.max_position_embeddings) {
        let max_position_embeddings = config.max_position_embeddings;
        let origin = "--max_seq_length".into();
        return Err(data::Error::SequenceTooLong { origin, seq_length, max_position_embeddings }.into());
    }
    let (schedule, steps_per_epoch) = schedule(options, &recipe)?;
    let mut warnings = Vec::new();
    if schedule.never_leaves_warmup() {
        warnings.push(format!(
            "All {} steps lie within the warm-up of {}, so the learning rate never reaches {}: give more steps, or \
             fewer --warmup_steps.",
            schedule.total_steps, schedule.warmup_steps, schedule.init_lr
        ));
    }
    if evaluation.num_eval_per_epoch.is_some() && evaluation.eval_files.is_none() {
        return Err(CliError::NothingToEvaluate);
    }
    let num_eval_per_epoch = evaluation.num_eval_per_epoch.unwrap_or(1);
    let (longest, between) = match num_eval_per_epoch {
        1 => (steps_per_epoch, "of an epoch"),
        count => (steps_per_epoch.div_ceil(count), "between two evaluations"),
    };
    let steps_per_loop = training.steps_per_loop.unwrap_or(recipe.steps_per_loop);
    if let Some(given) = training.steps_per_loop.filter(|given| *given > longest) {
        warnings.push(format!(
            "--steps_per_loop {given} is more than the {longest} steps {between}; measuring every {longest}."
        ));
    }
    let model_dir = training.model_dir.clone().or_else(|| leaves_model_open.then(|| MODEL_DIR.into()));
    Ok(PretrainArgs {
        input_files: text
            .input_files
            .as_deref()
            .map(|list| input_files::names("input_files", list))
            .transpose()?,
        eval_files: evaluation
            .eval_files
            .as_deref()
            .map(|list| input_files::names("eval_files", list))
            .transpose()?,
        vocabulary: match (&text.vocab_file, init) {
            // A size given on the command line is one of a vocabulary to train, whatever stands in the file.
            (Some(path), _) if model.vocab_size.is_none() => VocabularySource::File(path.clone()),
            (_, None) => VocabularySource::Trained(vocab_size),
            (_, Some(ImportSource { vocabulary: Some(text), name, .. })) => {
                VocabularySource::Given(text.clone(), format!("the vocab.txt beside {name}"))
            }
            (_, Some(ImportSource { name, .. })) => {
                return Err(CliError::WeightsNeedVocabulary { origin: name.clone() });
            }
        },
        skip_bad_records: text.skip_bad_records.unwrap_or(false),
        do_lower_case: text.do_lower_case.or(init.and_then(|init| init.do_lower_case)).unwrap_or(true),
        strip_accents: text.strip_accents.or(init.and_then(|init| init.strip_accents)),
        options: PretrainOptions {
            config,
            batch_size: training.train_batch_size.unwrap_or(recipe.train_batch_size),
            optimizer: recipe.optimizer(optimizer(options)?),
            schedule,
            steps_per_epoch: steps_per_epoch as u64,
            num_eval_per_epoch: num_eval_per_epoch as u64,
            use_next_sentence_label: instances.use_next_sentence_label,
            steps_per_loop: steps_per_loop.min(longest),
            seed: instances.random_seed,
            recompute: training.recompute.unwrap_or(false),
            precision: training.dtype.unwrap_or_default(),
            output_bias_init: match training.output_bias_init {
                None => recipe.output_bias_init,
                Some(BiasStart::Zeros) => OutputBiasInit::Zeros,
                Some(BiasStart::Unigram) => OutputBiasInit::Unigram,
            },
            device,
            distribution: distribution(options)?,
        },
        instances,
        given_shape: (text.max_seq_length, text.max_predictions_per_seq),
        dynamic_masking: text.masking == Some(Masking::Dynamic),
        flags_for_text: flags_for_text(text),
        vocab_size_is_fixed,
        model_dir: model_dir.ok_or(CliError::NoModelDir)?,
        train_summary_interval: training.train_summary_interval.unwrap_or(0),
        checkpoints: CheckpointPlan {
            every_steps: checkpoints.save_checkpoints_steps.unwrap_or(1000) as u64,
            every: Duration::from_secs(checkpoints.save_checkpoints_secs.unwrap_or(600) as u64),
            keep: checkpoints.keep_checkpoint_max.unwrap_or(3),
        },
        warnings,
    })
}

fn flags_for_text(text: &TextFlags) -> Vec<&'static str> {
    // Those of masking act on finished examples too if these are masked anew.
    let is_static = text.masking != Some(Masking::Dynamic);
    let given = [
        ("masked_lm_prob", is_static && text.masked_lm_prob.is_some()),
        ("do_whole_word_mask", is_static && text.do_whole_word_mask.is_some()),
        ("max_ngram_size", is_static && text.max_ngram_size.is_some()),
        ("short_seq_prob", text.short_seq_prob.is_some()),
        ("dupe_factor", text.dupe_factor.is_some()),
        ("first_segment_tokens", text.first_segment_tokens.is_some()),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
}

fn instances(OptionFlags { text, training, .. }: &OptionFlags) -> InstanceChoices {
    InstanceChoices {
        max_seq_length: text.max_seq_length,
        max_predictions_per_seq: text.max_predictions_per_seq,
        masked_lm_prob: text.masked_lm_prob,
        short_seq_prob: text.short_seq_prob,
        dupe_factor: text.dupe_factor,
        first_segment_tokens: text.first_segment_tokens,
        whole_word_mask: text.do_whole_word_mask,
        max_ngram_size: text.max_ngram_size,
        use_next_sentence_label: training.use_next_sentence_label,
        seed: training.seed,
    }
}

fn bert_config(
    flags: &ModelFlags,
    file: Option<BertConfig>,
    recipe: &Recipe,
    vocab_size: usize,
    max_seq_length: usize,
) -> Result<BertConfig, CliError> {
    let mut config = match (file, &flags.model_size) {
        (Some(config), _) => config,
        (None, Some(size)) => BertConfig::preset(size, vocab_size)?,
        (None, None) => recipe.config(vocab_size, max_seq_length)?,
    };
    config.hidden_dropout_prob = flags.hidden_dropout_prob.unwrap_or(config.hidden_dropout_prob);
    config.attention_probs_dropout_prob =
        flags.attention_probs_dropout_prob.unwrap_or(config.attention_probs_dropout_prob);
    // Known before the text is read, so told before.
    if config.type_vocab_size < 2 {
        let origin = flags.bert_config_file.as_ref().or(flags.init_checkpoint.as_ref());
        let source_name = origin.map_or_else(String::new, |origin| origin.display().to_string());
        let problem = ConfigProblem::OutOfRange {
            key: "type_vocab_size",
            value: config.type_vocab_size.to_string(),
            allowed: "at least 2, as examples made of text have two segments",
        };
        return Err(ConfigError { source_name, problem }.into());
    }
    Ok(config)
}

/// The schedule, and the steps of an epoch.
fn schedule(
    OptionFlags { training, .. }: &OptionFlags,
    recipe: &Recipe,
) -> Result<(Schedule, usize), CliError> {
    let steps_per_epoch = training.num_steps_per_epoch.unwrap_or(recipe.num_steps_per_epoch);
    let epochs = training.num_train_epochs.unwrap_or(recipe.num_train_epochs);
    // Both are below 2^31, and the device counts steps in 32 bits.
    let total_steps = steps_per_epoch as u64 * epochs as u64;
    if total_steps > u64::from(u32::MAX) {
        return Err(CliError::TooManySteps { total_steps });
    }
    let warmup_steps = training.warmup_steps.unwrap_or(recipe.warmup.steps(total_steps));
    let schedule = Schedule {
        init_lr: training.learning_rate.unwrap_or(recipe.learning_rate),
        end_lr: training.end_lr.unwrap_or(0.0),
        total_steps,
        warmup_steps,
        power: 1.0,
    };
    Ok((schedule, steps_per_epoch))
}

fn distribution(OptionFlags { training, .. }: &OptionFlags) -> Result<Distribution, CliError> {
    if training.scale_loss.is_some() && training.compat.is_none() {
        return Err(CliError::ScaleLossAlone);
    }
    Ok(Distribution {
        gradient_accumulation_steps: training.gradient_accumulation_steps,
        all_reduce: AllReduce {
            algorithm: training.all_reduce_alg.unwrap_or_default(),
            bytes_per_pack: training.allreduce_bytes_per_pack.unwrap_or(0),
        },
        explicit_allreduce: training.explicit_allreduce.unwrap_or(false),
        compat: training
            .compat
            .map(|Compat::Seed| SeedCompat { scale_loss: training.scale_loss.unwrap_or(false) }),
    })
}

fn optimizer(OptionFlags { training, .. }: &OptionFlags) -> Result<OptimizerChoices, CliError> {
    // The reference's explicit all-reduce clips whatever the optimizer.
    let always_clips = training.compat.is_some() && training.explicit_allreduce == Some(true);
    let half_precision = training.dtype == Some(Precision::F16);
    for (flag, given) in [
        ("loss_scale", training.loss_scale.is_some()),
        ("fp16_implementation", training.fp16_implementation.is_some()),
    ] {
        if given && !half_precision {
            return Err(CliError::NotInFp16 { flag });
        }
    }
    Ok(OptimizerChoices {
        loss_scale: half_precision.then_some(training.loss_scale.unwrap_or(LossScale::Dynamic)),
        kind: training.optimizer_type.map(|name| match name {
            OptimizerType::Adamw => OptimizerKind::AdamW,
            OptimizerType::Lamb => OptimizerKind::Lamb,
        }),
        beta_1: training.beta_1,
        beta_2: training.beta_2,
        weight_decay: training.weight_decay,
        clip_norm: training.clip_norm.or(always_clips.then_some(1.0)),
        on_nan: training.on_nan.map(|action| match action {
            NanAction::Stop => OnNan::Stop,
            NanAction::Skip => OnNan::Skip,
        }),
    })
}
