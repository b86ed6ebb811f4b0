//! Loss scaling: a power of two changes no bit, an overflow skips one update and halves the scale, and nothing of that
//! depends on where a run was stopped.

use std::time::Duration;

use wgpu_bert::model::{StepKind, Task};
use wgpu_bert::optimizer::{LossScale, LossScaleState, OptimizerKind, OptimizerOptions, Schedule};
use wgpu_bert::train::{
    Control, Event, Progress, Snapshot, StepMetrics, StepScalars, TrainError, Trained, Trainer, dropout_key,
    run_bert_pretrain,
};

use crate::distribution::parts;
use crate::harness::{Device, FAMILIES, Random, device};
use crate::mirrored::replicas;
use crate::small_run::{self, Setting, setting};
use crate::training::{bits, random_batch, small, started_trainer};

const KINDS: [OptimizerKind; 2] = [OptimizerKind::AdamW, OptimizerKind::Lamb];
/// The squares of gradients times this one are beyond the largest number of 32 bits; after some halvings they are not.
const TOO_LARGE: f32 = (1_u128 << 66) as f32;

fn from(scale: f32) -> LossScaleState {
    LossScaleState { scale, good_steps: 0, skipped_in_a_row: 0, skipped: 0 }
}

/// The run from the state of a loss scale, its progress, and a snapshot whenever it tells of it.
fn run(setting: &Setting, start: &Snapshot) -> Result<(Trained, Vec<Progress>, Vec<Snapshot>), TrainError> {
    let (mut told, mut snapshots) = (Vec::new(), Vec::new());
    let run = run_bert_pretrain(
        Some(&setting.strategy),
        &setting.options,
        setting.features.clone(),
        Some(start),
        &mut [],
        async |event, running| {
            if let Event::Progress(progress) = event {
                told.push(progress);
                snapshots.push(running.snapshot().await.expect("a snapshot"));
            }
            Control::Continue
        },
    );
    Ok((pollster::block_on(run)?, told, snapshots))
}

fn start(setting: &Setting, loss_scale: Option<LossScaleState>) -> Snapshot {
    Snapshot { loss_scale, ..Snapshot::start_from(&setting.options, Vec::new()) }
}

/// With the loss scaled, which starts at `loss_scale`.
fn scaled(mut setting: Setting, loss_scale: f32) -> (Setting, Snapshot) {
    setting.options.optimizer.loss_scale = Some(LossScale::Dynamic);
    let start = start(&setting, Some(from(loss_scale)));
    (setting, start)
}

#[test]
fn a_power_of_two_changes_no_bit() {
    let device = device(FAMILIES[0]);
    for kind in KINDS {
        let setting = setting(&device, kind);
        let mut in_parts = setting.clone();
        (in_parts.options.distribution, in_parts.options.recompute) = (parts(2), true);
        for setting in [replicas(&setting, 2), in_parts, setting] {
            let result = |loss_scale| {
                let mut setting = setting.clone();
                setting.options.optimizer.loss_scale = loss_scale;
                let (trained, told, _) = run(&setting, &start(&setting, None)).expect("trained");
                let last = told.last().expect("progress").loss_scale;
                let numbers = told.iter().flat_map(|p| [p.loss, p.grad_norm, p.learning_rate]);
                (small_run::bits(&trained.tensors), numbers.collect::<Vec<_>>(), last)
            };
            let (unscaled, numbers, none) = result(None);
            assert_eq!(none, None);
            for (scale, last) in [(LossScale::Dynamic, 32768.0), (LossScale::Fixed(0.125), 0.125)] {
                let (bits, its, told) = result(Some(scale));
                assert!(bits == unscaled && its == numbers, "{kind:?} {scale:?}: other numbers");
                assert_eq!(told, Some(last), "{kind:?}");
            }
        }
    }
}

/// Takes steps of which some are skipped, and others that are those which were not.
#[test]
fn an_overflow_halves_the_scale_and_skips_the_update_and_its_place_in_the_schedule() {
    let schedule = Schedule { init_lr: 1e-3, end_lr: 0.0, total_steps: 20, warmup_steps: 5.0, power: 1.0 };
    let (config, shape) = small();
    let take = |trainer: &mut Trainer, options: &OptimizerOptions, step: u64, applied: u64| -> StepMetrics {
        // The same batch for a step, whatever was before it.
        let batch = random_batch(&config, shape, &mut Random::new(step + 100));
        let (rates, dropout_key) = (options.step_words(&schedule, applied), dropout_key(1, step));
        let scalars = StepScalars { step, ring_slot: 0, dropout_key, rates };
        pollster::block_on(trainer.submit(&batch, &scalars, true)).expect("step");
        pollster::block_on(trainer.metrics()).expect("metrics")[0]
    };
    let trainer = |device: &Device, options| {
        let task = StepKind { task: Task::Train(options), ..StepKind::gradients(true) };
        started_trainer(device, &config, shape, task)
    };
    for family in FAMILIES {
        let device = device(family);
        for kind in KINDS {
            let plain = OptimizerOptions::new(kind);
            let options = OptimizerOptions { loss_scale: Some(LossScale::Dynamic), ..plain };
            let mut scaled = trainer(&device, options);
            let (mut expected, mut unscaled) = (from(32768.0), trainer(&device, plain));
            for step in 0..16 {
                let state = scaled.step().loss_scaling.expect("a loss scale").state;
                let state = scaled.program().range(state);
                if step == 3 || step == 10 {
                    expected.scale = TOO_LARGE;
                    device.gpu.write(&state, &expected.to_words());
                }
                let got = take(&mut scaled, &options, step, step);
                if got.culprit.is_some() {
                    expected = LossScaleState {
                        scale: expected.scale / 2.0,
                        good_steps: 0,
                        skipped_in_a_row: expected.skipped_in_a_row + 1,
                        skipped: expected.skipped + 1,
                    };
                } else {
                    let applied = step - u64::from(expected.skipped);
                    let want = take(&mut unscaled, &plain, step, applied);
                    let want = StepMetrics { loss_scale: got.loss_scale, ..want };
                    assert_eq!(got, want, "{family:?} {kind:?} step {step}");
                    (expected.good_steps, expected.skipped_in_a_row) = (expected.good_steps + 1, 0);
                }
                assert_eq!(got.loss_scale, Some(expected.scale), "{family:?} {kind:?} step {step}");
                let words = pollster::block_on(device.gpu.read(&state)).expect("state");
                assert_eq!(LossScaleState::from_words(words.try_into().unwrap()), expected);
            }
            assert!((2..11).contains(&expected.skipped) && expected.skipped_in_a_row == 0, "{expected:?}");
            assert!(bits(&scaled) == bits(&unscaled), "{family:?} {kind:?}: other weights");
        }
    }
}

#[test]
fn a_scale_grows_after_2000_good_steps() {
    let device = device(FAMILIES[0]);
    let (setting, _) = scaled(setting(&device, OptimizerKind::AdamW), 1.0);
    let state = LossScaleState { good_steps: 1990, ..from(16.0) };
    let (_, told, snapshots) = run(&setting, &start(&setting, Some(state))).expect("trained");
    let scales: Vec<_> = told.iter().map(|progress| (progress.step, progress.loss_scale.unwrap())).collect();
    assert_eq!(scales, [(3, 16.0), (6, 16.0), (9, 16.0), (12, 32.0), (15, 32.0), (17, 32.0)]);
    assert_eq!(snapshots.last().unwrap().loss_scale, Some(LossScaleState { good_steps: 7, ..from(32.0) }));
    // The largest of 32 bits stays what it is; nothing is to be learned with weights of 0.
    let mut idle = setting.clone();
    idle.options.use_next_sentence_label = false;
    idle.features.masked_lm_weights.fill(0.0);
    let largest = 2.0_f32.powi(127);
    let state = LossScaleState { good_steps: 1990, ..from(largest) };
    let (_, told, _) = run(&idle, &start(&idle, Some(state))).expect("trained");
    assert_eq!(told.last().unwrap().loss_scale, Some(largest));
}

#[test]
fn ten_in_a_row_end_the_run_and_the_scale_is_never_below_one() {
    let device = device(FAMILIES[0]);
    let mut setting = setting(&device, OptimizerKind::AdamW);
    setting.features.masked_lm_weights.iter_mut().for_each(|weight| *weight *= f32::MAX);
    let mut told = Vec::new();
    let (setting, start) = scaled(setting, 4.0);
    let ended = run_bert_pretrain(
        Some(&setting.strategy),
        &setting.options,
        setting.features.clone(),
        Some(&start),
        &mut [],
        async |event, _| {
            if let Event::Progress(Progress { loss_scale, left_out, .. }) = event {
                told.push((left_out, loss_scale));
            }
            Control::Continue
        },
    );
    let error = pollster::block_on(ended).expect_err("nothing but bad steps");
    assert!(matches!(error, TrainError::Diverged { step: 10, in_a_row: 10, .. }), "{error}");
    assert!(error.to_string().contains("the masked-LM loss is not finite"), "{error}");
    assert_eq!(told, [(3, Some(1.0)); 3]);

    // A run that goes on in between has as many left.
    let state = LossScaleState { skipped_in_a_row: 8, skipped: 8, ..from(4.0) };
    let mut other = setting.clone();
    other.options.optimizer.loss_scale = Some(LossScale::Dynamic);
    let late = Snapshot { step: 8, loss_scale: Some(state), ..start.clone() };
    let error = run(&other, &late).map(drop).expect_err("nothing but bad steps");
    assert!(matches!(error, TrainError::Diverged { step: 10, in_a_row: 10, .. }), "{error}");

    // A fixed scale cannot give way, so the first one ends the run unless it is told to skip them.
    let mut fixed = setting;
    fixed.options.optimizer.loss_scale = Some(LossScale::Fixed(4.0));
    let error = run(&fixed, &start).map(drop).expect_err("nothing but bad steps");
    assert!(matches!(error, TrainError::Diverged { step: 1, in_a_row: 1, .. }), "{error}");
    assert!(error.to_string().ends_with(", or a smaller --loss_scale, or --dtype fp32"), "{error}");
}

#[test]
fn a_run_goes_on_after_an_overflow_with_the_same_bits() {
    let device = device(FAMILIES[0]);
    for kind in KINDS {
        let (setting, start) = scaled(setting(&device, kind), TOO_LARGE);
        let schedule = setting.options.schedule;
        for setting in [setting.clone(), replicas(&setting, 2)] {
            let (whole, told, snapshots) = run(&setting, &start).expect("trained");
            let mut skipped = 0;
            for progress in &told {
                skipped += progress.left_out;
                let rate = schedule.learning_rate(progress.step - skipped) as f32;
                assert_eq!(progress.learning_rate, rate, "{progress:?}");
                assert_eq!(progress.loss_scale, Some(TOO_LARGE / 2.0_f32.powi(skipped as i32)));
            }
            assert!(skipped > 0 && told[0].left_out > 0, "{told:?}");
            // From everywhere on one device, and on two from where they have it behind them.
            let least = if setting.strategy.others.is_empty() { 0 } else { snapshots.len() - 2 };
            for snapshot in &snapshots[least..] {
                let bytes = snapshot.clone().into_safetensors().expect("a file");
                let read = Snapshot::from_safetensors(snapshot.step, Duration::ZERO, &bytes, "a file");
                let (rest, ..) = run(&setting, &read.expect("a snapshot")).expect("trained");
                let same = small_run::bits(&rest.tensors) == small_run::bits(&whole.tensors);
                assert!(same, "{kind:?} from {}", snapshot.step);
            }
        }
        // The same where the device is lost on the way.
        let mut losses = 0;
        let run_again = run_bert_pretrain(
            Some(&setting.strategy),
            &setting.options,
            setting.features.clone(),
            Some(&start),
            &mut [],
            async |event, running| {
                match event {
                    Event::Step(7) if losses == 0 => running.gpu().device.destroy(),
                    Event::DeviceLost { .. } => losses += 1,
                    _ => {}
                }
                Control::Continue
            },
        );
        let again = pollster::block_on(run_again).expect("trained");
        let (whole, ..) = run(&setting, &start).expect("trained");
        let same = small_run::bits(&again.tensors) == small_run::bits(&whole.tensors);
        assert_eq!((losses, same), (1, true), "{kind:?}");
    }
}
