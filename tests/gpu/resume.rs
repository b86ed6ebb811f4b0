//! A run seen from outside: it goes on from a snapshot as if never stopped, and can be asked while it trains.

use std::time::{Duration, Instant};

use wgpu_bert::data::{Batcher, Example, ExampleToken};
use wgpu_bert::optimizer::{OnNan, OptimizerKind};
use wgpu_bert::train::{
    Control, Event, Predictor, PretrainRun, Progress, Snapshot, TrainError, Trained, fill_masks,
    run_bert_pretrain,
};

use crate::harness::{FAMILIES, device};
use crate::recorded::limits;
use crate::small_run::{Setting, bits, setting};

/// A run from `start`, and a snapshot whenever it tells something.
fn run(setting: &Setting, start: Option<&Snapshot>) -> (Trained, Vec<Snapshot>) {
    run_and(setting, start, |_| {})
}

fn run_and(
    setting: &Setting,
    start: Option<&Snapshot>,
    mut see: impl FnMut(&Progress),
) -> (Trained, Vec<Snapshot>) {
    let mut snapshots = Vec::new();
    let features = setting.features.clone();
    let run = run_bert_pretrain(
        Some(&setting.strategy),
        &setting.options,
        features,
        start,
        &mut [],
        async |event, running| {
            if let Event::Progress(progress) = &event {
                see(progress);
            }
            if matches!(event, Event::Started(_) | Event::Progress(_)) {
                snapshots.push(running.snapshot().await.expect("snapshot"));
            }
            Control::Continue
        },
    );
    let trained = pollster::block_on(run).expect("run");
    (trained, snapshots)
}

#[test]
fn a_run_goes_on_from_any_snapshot_with_the_same_bits() {
    for family in FAMILIES {
        let device = device(family);
        for kind in [OptimizerKind::AdamW, OptimizerKind::Lamb] {
            let setting = setting(&device, kind);
            let (whole, snapshots) = run(&setting, None);
            assert_eq!(snapshots.iter().map(|s| s.step).collect::<Vec<_>>(), [0, 5, 8, 11, 14, 16, 17]);
            for snapshot in &snapshots {
                let (rest, _) = run(&setting, Some(snapshot));
                assert_eq!(rest.steps, 17);
                assert!(
                    bits(&rest.tensors) == bits(&whole.tensors),
                    "{family:?} {kind:?} from {}",
                    snapshot.step
                );
            }
        }
    }
}

/// One instance whose loss is not finite: its weight is the largest number there is.
#[test]
fn a_step_that_is_not_finite_ends_the_run_or_is_skipped() {
    let device = device(FAMILIES[0]);
    let mut setting = setting(&device, OptimizerKind::AdamW);
    setting.features.masked_lm_weights[0] = f32::MAX;
    let mut last = None;
    let ended = run_bert_pretrain(
        Some(&setting.strategy),
        &setting.options,
        setting.features.clone(),
        None,
        &mut [],
        async |_, running| {
            last = Some(running.snapshot().await);
            Control::Continue
        },
    );
    let error = pollster::block_on(ended).expect_err("a loss that is not finite");
    let TrainError::Diverged { step: bad, batch, pass: 1, in_a_row: 1, what, loss_scale: None } = &error
    else {
        panic!("{error}")
    };
    assert!(what == "the masked-LM loss" && batch == bad && *bad > 1, "{error}");
    // What the weights were before that step nobody takes for what they are later.
    let last = last.expect("an event").expect_err("no snapshot after that step").to_string();
    assert_eq!(last, error.to_string());

    setting.options.optimizer.on_nan = OnNan::Skip;
    let mut left_out = 0;
    let (whole, snapshots) = run_and(&setting, None, |progress| left_out += progress.left_out);
    // Once in every pass over the data.
    assert!(whole.steps == 17 && (1..4).contains(&left_out), "{left_out} steps left out");
    assert!(bits(&whole.tensors).iter().all(|word| f32::from_bits(*word).is_finite()));
    for snapshot in &snapshots {
        let (rest, _) = run(&setting, Some(snapshot));
        assert!(bits(&rest.tensors) == bits(&whole.tensors), "from {}", snapshot.step);
    }

    // Where every step is bad there is no end to skipping.
    setting.features.masked_lm_weights.iter_mut().for_each(|weight| *weight = weight.min(1.0) * f32::MAX);
    let ended = run_bert_pretrain(
        Some(&setting.strategy),
        &setting.options,
        setting.features.clone(),
        None,
        &mut [],
        async |_, _| Control::Continue,
    );
    let error = pollster::block_on(ended).expect_err("nothing but bad steps");
    assert!(matches!(error, TrainError::Diverged { step: 10, in_a_row: 10, .. }), "{error}");
}

#[test]
fn a_snapshot_of_another_model_is_refused() {
    let device = device(FAMILIES[0]);
    let mut setting = setting(&device, OptimizerKind::AdamW);
    let (_, snapshots) = run(&setting, None);
    setting.options.config.intermediate_size = 16;
    let run = run_bert_pretrain(
        Some(&setting.strategy),
        &setting.options,
        setting.features,
        snapshots.last(),
        &mut [],
        async |_, _| Control::Continue,
    );
    let error = pollster::block_on(run).expect_err("another model");
    assert!(matches!(error, TrainError::OtherModel { .. }), "{error}");
    assert!(error.to_string().contains("intermediate"), "{error}");

    let (config, tokenizer) = (&setting.options.config, &setting.tokenizer);
    let weights = &snapshots.last().expect("a snapshot").weights;
    for weights in [&weights[..], &[]] {
        let asked = fill_masks(&device.gpu, config, weights, tokenizer, &["a [MASK]"], 1);
        let error = pollster::block_on(asked).expect_err("another model");
        assert!(matches!(error, TrainError::OtherModel { .. }), "{error}");
    }
}

#[test]
fn a_predictor_compiles_once_and_guesses_the_same() {
    let device = device(FAMILIES[0]);
    let setting = setting(&device, OptimizerKind::AdamW);
    let Setting { options, tokenizer, .. } = &setting;
    let weights = Snapshot::start_from(options, Vec::new()).weights;
    let mut predictor = Predictor::new(device.gpu.clone());
    let mut guess = |prompt| {
        let prompts = [prompt];
        let filled = predictor.fill_masks(&options.config, &weights, tokenizer, &prompts, 4);
        pollster::block_on(filled).expect("guesses")
    };
    let first = guess("the [MASK] sees the [MASK]");
    let made = device.gpu.created();
    guess("a [MASK]");
    assert_eq!(guess("the [MASK] sees the [MASK]"), first);
    let now = device.gpu.created();
    assert_eq!((now.pipelines, now.bind_groups), (made.pipelines, made.bind_groups));
    let prompts = ["the [MASK] sees the [MASK]"];
    let alone = fill_masks(&device.gpu, &options.config, &weights, tokenizer, &prompts, 4);
    assert_eq!(pollster::block_on(alone).expect("alone"), first);
}

#[test]
fn live_guesses_are_those_of_the_weights_so_far() {
    for family in FAMILIES {
        let device = device(family);
        let setting = setting(&device, OptimizerKind::AdamW);
        let prompts = ["the [MASK] sees", "a [MASK] sees the [MASK]", "[MASK]"];
        let mut asked = Vec::new();
        let features = setting.features.clone();
        let run = run_bert_pretrain(
            Some(&setting.strategy),
            &setting.options,
            features,
            None,
            &mut [],
            async |event, running| {
                if matches!(event, Event::Progress(_)) {
                    let weights = running.snapshot().await.expect("snapshot").weights;
                    // One at a time, so that a longer prompt must replace what was compiled for a shorter one.
                    for prompt in prompts {
                        let live = running.fill_masks(&setting.tokenizer, &[prompt], 4).await.expect("live");
                        asked.push((prompt, live, weights.clone()));
                    }
                }
                Control::Continue
            },
        );
        pollster::block_on(run).expect("run");
        assert_eq!(asked.len(), 6 * prompts.len());
        for (prompt, live, weights) in asked {
            let (config, tokenizer) = (&setting.options.config, &setting.tokenizer);
            let prompts = [prompt];
            let alone = fill_masks(&device.gpu, config, &weights, tokenizer, &prompts, 4);
            let alone = pollster::block_on(alone).expect("alone");
            for (live, alone) in live[0].masks.iter().flatten().zip(alone[0].masks.iter().flatten()) {
                assert_eq!(live.token, alone.token);
                assert!((live.probability - alone.probability).abs() < 1e-6, "{live:?} {alone:?}");
            }
        }
    }
}

#[test]
fn live_examples_are_those_of_the_step() {
    for family in FAMILIES {
        let device = device(family);
        let setting = setting(&device, OptimizerKind::AdamW);
        let vocabulary = setting.tokenizer.vocabulary();
        let limits = limits(&setting.options.config);
        let batch_size = setting.options.batch_size;
        let features = setting.features.clone();
        let mut batcher =
            Batcher::new(features.clone(), batch_size, setting.options.seed, limits).expect("batcher");
        let mut seen = 0;
        let run = run_bert_pretrain(
            Some(&setting.strategy),
            &setting.options,
            features,
            None,
            &mut [],
            async |event, running| {
                let step = match event {
                    Event::Started(_) => 0,
                    Event::Step(step) => step,
                    _ => return Control::Continue,
                };
                let expected = batcher.batch(step).expect("batch").examples(vocabulary, None);
                for count in [0, 2, batch_size, batch_size + 1] {
                    let live = running.examples(vocabulary, count).await.expect("examples");
                    assert_eq!(live.len(), count.min(batch_size));
                    for (live, expected) in live.iter().zip(&expected) {
                        let guesses = live.tokens.iter().map(|token| token.guess.is_some());
                        assert!(guesses.eq(expected.tokens.iter().map(|token| token.hidden)));
                        let tokens = live.tokens.iter().cloned();
                        let without = tokens.map(|token| ExampleToken { guess: None, ..token }).collect();
                        assert_eq!(Example { tokens: without }, *expected);
                    }
                }
                seen += 1;
                Control::Continue
            },
        );
        pollster::block_on(run).expect("run");
        assert_eq!(seen, 1 + setting.options.schedule.total_steps);
    }
}

#[test]
fn a_pause_is_no_time_of_the_run_and_an_interruption_does_not_set_it_back() {
    let device = device(FAMILIES[0]);
    let setting = setting(&device, OptimizerKind::AdamW);
    let batch_tokens = (setting.options.batch_size * setting.features.seq_length) as f64;
    let rest = Duration::from_millis(300);
    let before = Duration::from_secs(1000);
    let mut start = None;
    for (elapsed_before, steps_before) in [(Duration::ZERO, 0), (before, 8)] {
        let features = setting.features.clone();
        let run =
            PretrainRun::prepare(Some(&setting.strategy), &setting.options, features, start.as_ref(), |_| {});
        let run = pollster::block_on(run).expect("prepared");
        let (mut paused, mut counted, mut seen, mut told) = (Duration::ZERO, 0.0, None, steps_before);
        let begin = Instant::now();
        let trained = run.train(&mut [], async |event, running| {
            let rested = running.pause(async {
                let begin = Instant::now();
                std::thread::sleep(rest);
                begin.elapsed()
            });
            paused += rested.await.expect("rested");
            if let Event::Progress(progress) = event {
                counted += (progress.step - told) as f64 * batch_tokens / progress.tokens_per_second;
                told = progress.step;
            }
            let snapshot = running.snapshot().await.expect("snapshot");
            assert!(snapshot.elapsed >= elapsed_before);
            if snapshot.step == 8 {
                seen = Some(snapshot);
            }
            Control::Continue
        });
        let trained = pollster::block_on(trained).expect("trained");
        let trained_for = begin.elapsed() - paused;
        let elapsed = trained.last.expect("progress").elapsed;
        assert!(elapsed >= elapsed_before && elapsed - elapsed_before <= trained_for, "{elapsed:?}");
        // The pace told of all loops together makes no more time than there was.
        assert!(counted > 0.0 && counted <= trained_for.as_secs_f64(), "{counted} {trained_for:?}");
        start = seen.map(|snapshot| Snapshot { elapsed: before, ..snapshot });
    }
}
