//! From a command line to the options of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};
use wgpu_bert::data::InstanceOptions;
use wgpu_bert::gpu::{DeviceOptions, KernelFamily, Precision};
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::optimizer::{LossScale, OnNan, OptimizerKind, OptimizerOptions, Schedule};
use wgpu_bert::strategy::{Algorithm, AllReduce};
use wgpu_bert::train::{Distribution, OutputBiasInit, PretrainOptions, SeedCompat};

use super::super::argv;
use super::super::error::CliError;
use super::resolve::{CheckpointPlan, PretrainArgs, VocabularySource};
use super::space;
use super::stopped::quoted;
use super::{PretrainFlags, arguments};

fn parsed(line: &str, software: bool) -> Result<PretrainArgs, CliError> {
    let pretrain = PretrainFlags::augment_args(Command::new("pretrain"));
    let command = Command::new("wgpu-bert").args_override_self(true).subcommand(pretrain);
    let argv = ["wgpu-bert", "pretrain"].into_iter().chain(line.split_whitespace()).map(Into::into).collect();
    let argv = argv::normalise(argv, &command)?;
    let (_, matches) = command.try_get_matches_from(argv)?.remove_subcommand().unwrap();
    arguments(PretrainFlags::from_arg_matches(&matches)?, &matches, None, software)
}

fn on_software(line: &str) -> PretrainArgs {
    parsed(line, true).unwrap()
}

fn refusal(line: &str) -> String {
    parsed(line, true).unwrap_err().to_string()
}

/// A run like the reference's: with a text, a model and a place to save it.
fn reference(line: &str) -> PretrainArgs {
    on_software(&format!("--input_files=a.txt --model_size=base --model_dir=out {line}"))
}

#[test]
fn defaults_are_those_of_the_reference() {
    let PretrainArgs {
        input_files, vocabulary, do_lower_case, instances, options, model_dir, warnings, ..
    } = reference("");
    assert_eq!(input_files, Some(vec!["a.txt".into()]));
    assert_eq!(vocabulary, VocabularySource::Trained(8192));
    assert_eq!((do_lower_case, model_dir), (true, PathBuf::from("out")));
    assert_eq!(instances, InstanceOptions::default());
    assert_eq!(
        options,
        PretrainOptions {
            config: BertConfig::preset("base", 8192).unwrap(),
            batch_size: 32,
            optimizer: OptimizerOptions::new(OptimizerKind::AdamW),
            schedule: Schedule {
                init_lr: 5e-5,
                end_lr: 0.0,
                total_steps: 3000,
                warmup_steps: 10_000.0,
                power: 1.0
            },
            steps_per_epoch: 1000,
            num_eval_per_epoch: 1,
            use_next_sentence_label: true,
            steps_per_loop: 10,
            seed: 12345,
            recompute: false,
            precision: Precision::default(),
            output_bias_init: OutputBiasInit::Zeros,
            device: DeviceOptions::default(),
            distribution: Distribution::default(),
        }
    );
    // 3000 steps never leave a warm-up of 10000.
    assert!(
        warnings.len() == 1 && warnings[0].contains("3000") && warnings[0].contains("10000"),
        "{warnings:?}"
    );
}

#[test]
fn every_flag_arrives() {
    let args = reference(
        "--input_files=a.txt,b/*.gz --vocab_file v.txt --do_lower_case=false --max_seq_length 64 \
         --max_predictions_per_seq 7 --masked_lm_prob .2 --do_whole_word_mask --max_ngram_size 3 --short_seq_prob 0.3 --dupe_factor 2 \
         --first_segment_tokens 4,9 --train_batch_size 8 --num_steps_per_epoch 50 --num_train_epochs 2 \
         --steps_per_loop 25 --learning_rate 1e-3 --end_lr 1e-4 --warmup_steps 12.5 --optimizer_type LAMB \
         --weight_decay 0.1 --beta_1 0.8 --beta_2 0.9 --clip_norm 2 --on_nan skip --nouse_next_sentence_label \
         --output_bias_init unigram --seed 7 --hidden_dropout_prob 0 --attention_probs_dropout_prob 0.2 --dtype fp16 \
         --loss_scale 1024 --fp16_implementation keras \
         --recompute --kernels register --runtime_checks --train_summary_interval -1 --save_checkpoints_steps 5 \
         --save_checkpoints_secs 60 --keep_checkpoint_max 1 --gradient_accumulation_steps 4 \
         --all_reduce_alg RING --allreduce_bytes_per_pack 4096 --explicit_allreduce --compat seed --scale_loss",
    );
    let plan = CheckpointPlan { every_steps: 5, every: Duration::from_secs(60), keep: 1 };
    assert_eq!((args.checkpoints, args.train_summary_interval), (plan, -1));
    let PretrainArgs { input_files, vocabulary, do_lower_case, instances, options, .. } = args;
    assert_eq!(input_files, Some(vec!["a.txt".into(), "b/*.gz".into()]));
    assert_eq!(vocabulary, VocabularySource::File("v.txt".into()));
    assert!(!do_lower_case);
    assert_eq!(
        instances,
        InstanceOptions {
            max_seq_length: 64,
            max_predictions_per_seq: 7,
            dupe_factor: 2,
            masked_lm_prob: 0.2,
            short_seq_prob: 0.3,
            random_seed: 7,
            whole_word_mask: true,
            max_ngram_size: 3,
            use_next_sentence_label: false,
            first_segment_tokens: Some((4, 9)),
        }
    );
    let base = BertConfig::preset("base", 8192).unwrap();
    let all_reduce = AllReduce { algorithm: Algorithm::Ring, bytes_per_pack: 4096 };
    assert_eq!(
        options,
        PretrainOptions {
            config: BertConfig { hidden_dropout_prob: 0.0, attention_probs_dropout_prob: 0.2, ..base },
            batch_size: 8,
            optimizer: OptimizerOptions {
                kind: OptimizerKind::Lamb,
                beta_1: 0.8,
                beta_2: 0.9,
                epsilon: 1e-6,
                weight_decay: 0.1,
                clip_norm: Some(2.0),
                on_nan: OnNan::Skip,
                loss_scale: Some(LossScale::Fixed(1024.0)),
            },
            schedule: Schedule {
                init_lr: 1e-3,
                end_lr: 1e-4,
                total_steps: 100,
                warmup_steps: 12.5,
                power: 1.0
            },
            steps_per_epoch: 50,
            num_eval_per_epoch: 1,
            use_next_sentence_label: false,
            steps_per_loop: 25,
            seed: 7,
            recompute: true,
            precision: Precision::F16,
            output_bias_init: OutputBiasInit::Unigram,
            device: DeviceOptions {
                family: Some(KernelFamily::Register),
                runtime_checks: true,
                ..DeviceOptions::default()
            },
            distribution: Distribution {
                all_reduce,
                explicit_allreduce: true,
                compat: Some(SeedCompat { scale_loss: true }),
                ..Distribution::in_parts(4)
            },
        }
    );
}

#[test]
fn spellings_of_the_reference_are_understood() {
    let args = reference(
        "--train-batch-size=4 --use-next-sentence-label=0 --random_seed 3 --md=elsewhere --dt=fp32",
    );
    assert_eq!((args.options.batch_size, args.options.seed), (4, 3));
    assert!(!args.options.use_next_sentence_label && !args.instances.use_next_sentence_label);
    assert_eq!(args.model_dir, Path::new("elsewhere"));
    // The last of several counts.
    assert_eq!(reference("--train_batch_size 4 --train-batch-size 5").options.batch_size, 5);
    for (flag, kept) in [("--use_next_sentence_label", true), ("--nouse-next-sentence-label", false)] {
        assert_eq!(reference(flag).options.use_next_sentence_label, kept, "{flag}");
    }
}

#[test]
fn half_precision_brings_a_loss_scale() {
    let of = |line: &str| {
        let PretrainOptions { precision, optimizer, .. } = reference(line).options;
        (precision, optimizer.loss_scale)
    };
    assert_eq!(of(""), (Precision::F32, None));
    assert_eq!(of("--dt=FP16"), (Precision::F16, Some(LossScale::Dynamic)));
    assert_eq!(of("--dtype fp16 --loss_scale=Dynamic").1, Some(LossScale::Dynamic));
    assert_eq!(of("--dtype fp16 --ls 0.5").1, Some(LossScale::Fixed(0.5)));
}

#[test]
fn gradients_are_clipped_as_in_the_reference() {
    let clip = |line: &str| reference(line).options.optimizer.clip_norm;
    assert_eq!(clip(""), Some(1.0));
    assert_eq!(clip("--optimizer_type lamb"), None);
    assert_eq!(clip("--clip_norm 0"), None);
    assert_eq!(clip("--optimizer_type lamb --clip_norm 0.5"), Some(0.5));
}

#[test]
fn without_model_and_vocabulary_the_recipe_of_the_adapter_applies() {
    let args = on_software("");
    assert_eq!((args.input_files, args.vocabulary), (None, VocabularySource::Trained(1024)));
    let PretrainOptions { config, batch_size, schedule, output_bias_init, .. } = args.options;
    assert_eq!((config.hidden_size, config.num_hidden_layers, config.vocab_size), (32, 1, 1024));
    assert_eq!((batch_size, output_bias_init), (64, OutputBiasInit::Unigram));
    assert_eq!(schedule.warmup_steps, (schedule.total_steps as f64 * 0.1).floor());
    assert_eq!((args.instances.max_seq_length, args.instances.max_predictions_per_seq), (16, 5));
    assert!(args.warnings.is_empty(), "{:?}", args.warnings);

    // Whatever the text.
    let other_text = on_software("--input_files=a.txt");
    assert_eq!(other_text.options.schedule.init_lr, schedule.init_lr);
    assert_eq!((other_text.options.config, other_text.options.batch_size), (config, batch_size));
    assert_eq!((other_text.instances, other_text.model_dir), (args.instances, args.model_dir));

    // A vocabulary asks for a model of its kind.
    let own_vocabulary = on_software("--input_files=a.txt --vocab_file=v.txt --model_dir=out");
    assert_eq!(own_vocabulary.options.config, BertConfig::preset("tiny", 8192).unwrap());

    let gpu = parsed("", false).unwrap();
    assert!(gpu.options.config.hidden_size > 32 && gpu.instances.max_seq_length > 16);
    assert!(gpu.warnings.is_empty(), "{:?}", gpu.warnings);
}

#[test]
fn a_flag_overrides_its_value_of_the_recipe_and_what_follows_from_it() {
    let args =
        on_software("--num_steps_per_epoch 50 --masked_lm_prob 0.15 --max_seq_length 100 --vocab_size 2048");
    assert_eq!((args.options.schedule.total_steps, args.options.schedule.warmup_steps), (50, 5.0));
    assert_eq!(
        (args.instances.max_predictions_per_seq, args.instances.first_segment_tokens),
        (15, Some((3, 12)))
    );
    assert_eq!(args.options.config.max_position_embeddings, 100);
    assert_eq!(args.vocabulary, VocabularySource::Trained(2048));
    assert_eq!(args.options.batch_size, 64);
    // The first segment leaves a token for the second.
    assert_eq!(on_software("--max_seq_length 8").instances.first_segment_tokens, Some((3, 4)));
    assert_eq!(on_software("--num_steps_per_epoch 5").options.steps_per_loop, 5);
}

#[test]
fn the_config_file_carries_options_and_flags_win() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("bert_config.json");
    let json = r#"{"vocab_size": 99, "hidden_size": 24, "num_attention_heads": 2, "max_position_embeddings": 32,
        "hidden_dropout_prob": 0.3, "max_seq_length": 32, "train_batch_size": 8, "learning_rate": 1e-3,
        "warmup_steps": 0, "model_dir": "from-file", "use_next_sentence_label": false}"#;
    std::fs::write(&path, json).unwrap();
    let path = path.display();
    let args =
        on_software(&format!("--bert_config_file {path} --learning_rate=2e-3 --hidden_dropout_prob 0.4"));
    assert_eq!((args.options.batch_size, args.options.schedule.init_lr), (8, 2e-3));
    let config = args.options.config;
    assert_eq!((config.vocab_size, config.hidden_size, config.hidden_dropout_prob), (99, 24, 0.4));
    assert_eq!((args.vocabulary, args.vocab_size_is_fixed), (VocabularySource::Trained(99), true));
    assert!(!args.options.use_next_sentence_label);
    assert_eq!(args.model_dir, Path::new("from-file"));
    assert!(args.warnings.is_empty(), "{:?}", args.warnings);

    let longer = refusal(&format!("--bert_config_file {path} --max_seq_length 33"));
    assert!(longer.contains("33 tokens") && longer.contains("32 positions"), "{longer}");
    let both = refusal(&format!("--bert_config_file {path} --model_size tiny"));
    assert!(both.contains("cannot be used with"), "{both}");
    let missing = refusal("--bert_config_file /nonexistent/c.json --model_dir out");
    assert!(missing.contains("/nonexistent/c.json"), "{missing}");
}

#[test]
fn bad_values_are_refused_by_flag() {
    for (line, parts) in [
        ("--train_batch_size 0", &["train_batch_size", "from 1"][..]),
        ("--train_batch_size 1.5", &["train_batch_size", "whole number"]),
        ("--learning_rate nan", &["learning_rate", "at least 0"]),
        ("--learning_rate=-1", &["learning_rate", "at least 0"]),
        ("--masked_lm_prob 1.1", &["masked_lm_prob", "0 to 1"]),
        ("--beta_2 1", &["beta_2", "not including, 1"]),
        ("--hidden_dropout_prob 1", &["hidden_dropout_prob", "not including, 1"]),
        ("--first_segment_tokens 5,3", &["first_segment_tokens", "MIN <= MAX"]),
        ("--use_next_sentence_label=perhaps", &["use_next_sentence_label", "perhaps"]),
        ("--optimizer_type sgd", &["optimizer_type", "sgd"]),
        ("--model_size huge", &["model_size", "huge", "medium"]),
        ("--dtype bf16", &["dtype", "no bf16"]),
        ("--dtype=half", &["dtype", "fp32 or fp16"]),
        ("--dtype=fp16 --loss_scale 0", &["loss_scale", "dynamic or a number above 0"]),
        ("--dtype=fp16 --ls=1e39", &["loss_scale", "dynamic or a number above 0"]),
        ("--loss_scale dynamic --model_dir out", &["--loss_scale", "--dtype fp16"]),
        (
            "--dtype=fp32 --fp16_implementation=keras --model_dir out",
            &["--fp16_implementation", "--dtype fp16"],
        ),
        ("--dtype=fp16 --fp16_implementation=graph_rewrite", &["fp16_implementation", "TensorFlow"]),
        ("--vocab_size 9 --vocab_file v", &["vocab_size", "cannot be used with"]),
        ("--input_files a,,b", &["input_files", "empty name"]),
        ("--num_steps_per_epoch 2147483647 --num_train_epochs 3", &["num_train_epochs", "6442450941"]),
        ("--model_size tiny", &["--model_dir"]),
        ("--vocab_file v.txt", &["--model_dir"]),
        ("--model_size tiny --max_seq_length 513 --model_dir out", &["513", "512"]),
        ("--train_batch_sise 3", &["train_batch_sise", "train_batch_size"]),
    ] {
        let message = refusal(line);
        assert!(
            parts.iter().all(|part| message.contains(part)),
            "{line}: {message} should contain {parts:?}"
        );
    }
}

/// BERT-base: a checkpoint of 1.1 GB, a model of 0.4 GB.
#[test]
fn too_little_disk_is_told_before_a_run() {
    let notes = |gigabytes: u64, there| space::notes(&reference(""), gigabytes * 1_000_000_000, there);
    assert_eq!(notes(6, 0).unwrap().len(), 1);
    let told = notes(4, 0).unwrap().join("\n");
    assert!(told.contains("make room, or keep fewer with --keep_checkpoint_max"), "{told}");
    assert_eq!(notes(4, 3).unwrap().len(), 1, "those that are there take no more room");
    let refused = notes(1, 0).unwrap_err().to_string();
    assert!(
        refused.contains("The disk of out has 953.67 MiB free, but a checkpoint and the model take"),
        "{refused}"
    );
}

#[test]
fn paths_can_be_pasted() {
    for (path, text) in
        [("wgpu-bert-model", "wgpu-bert-model"), ("a/b_c.d", "a/b_c.d"), ("my model", "\"my model\"")]
    {
        assert_eq!(quoted(path), text);
    }
}

#[test]
fn the_reference_clips_every_explicit_all_reduce() {
    let clips = |line: &str| reference(line).options.optimizer.clip_norm;
    assert_eq!(clips("--optimizer_type lamb --compat seed"), None);
    assert_eq!(clips("--optimizer_type lamb --compat seed --explicit_allreduce"), Some(1.0));
    assert_eq!(clips("--optimizer_type lamb --compat seed --explicit_allreduce --clip_norm 0"), None);
    assert_eq!(clips("--optimizer_type lamb --explicit_allreduce"), None);
    let told = refusal("--input_files=a.txt --model_size=base --model_dir=out --scale_loss");
    assert!(told.contains("--compat=seed"), "{told}");
}
