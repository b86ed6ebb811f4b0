//! A batch in parts: the same losses and weights as in one piece.

use wgpu_bert::optimizer::OptimizerKind;
use wgpu_bert::train::{Control, Distribution, Event, PretrainOptions, Trained, run_bert_pretrain};

use crate::harness::device;
use crate::small_run::{Setting, bits, setting};

/// 50 steps, each measured.
pub fn long(mut setting: Setting) -> Setting {
    setting.options.schedule.total_steps = 50;
    setting.options.steps_per_epoch = 50;
    setting.options.steps_per_loop = 1;
    setting
}

/// The loss of every step, and what is trained.
pub fn run(setting: &Setting, distribution: Distribution) -> (Vec<f32>, Trained) {
    let options = PretrainOptions { distribution, ..setting.options.clone() };
    let mut losses = Vec::new();
    let run = run_bert_pretrain(
        Some(&setting.strategy),
        &options,
        setting.features.clone(),
        None,
        &mut [],
        async |event, _| {
            if let Event::Progress(progress) = event {
                losses.push(progress.loss);
            }
            Control::Continue
        },
    );
    let trained = pollster::block_on(run).expect("trained");
    (losses, trained)
}

#[track_caller]
pub fn assert_same(what: &str, (losses, trained): &(Vec<f32>, Trained), whole: &(Vec<f32>, Trained)) {
    assert_eq!(losses.len(), 50);
    for (step, (loss, expected)) in losses.iter().zip(&whole.0).enumerate() {
        assert!((loss - expected).abs() <= 5e-5, "{what}, step {step}: {loss} instead of {expected}");
    }
    for (tensor, expected) in trained.tensors.iter().zip(&whole.1.tensors) {
        if tensor.name.ends_with("self.key.bias") {
            continue; // its gradient is rounding noise
        }
        for (weight, expected) in tensor.data.iter().zip(&expected.data) {
            assert!((weight - expected).abs() <= 1e-4, "{what}: {} ends at {weight}", tensor.name);
        }
    }
}

pub fn parts(count: usize) -> Distribution {
    Distribution::in_parts(count)
}

#[test]
fn a_batch_in_parts_is_the_batch() {
    let device = device(None);
    for kind in [OptimizerKind::AdamW, OptimizerKind::Lamb] {
        // Examples have between one and three masked words, and there is dropout.
        let setting = long(setting(&device, kind));
        assert!(setting.options.config.hidden_dropout_prob > 0.0);
        let whole = run(&setting, Distribution::default());
        for count in [2, 4] {
            let in_parts = run(&setting, parts(count));
            assert_same(&format!("{kind:?} in {count} parts"), &in_parts, &whole);
        }
    }
}

#[test]
fn parts_give_the_same_bits_again() {
    let device = device(None);
    let setting = setting(&device, OptimizerKind::AdamW);
    let trained = || bits(&run(&setting, parts(2)).1.tensors);
    assert_eq!(trained(), trained());
}

#[test]
fn what_does_not_fit_is_done_in_parts_and_told() {
    let device = device(None);
    let mut setting = long(setting(&device, OptimizerKind::AdamW));
    setting.options.config.intermediate_size = 256;
    let whole = run(&setting, Distribution::default());
    // As much as the widest tensor of two sequences takes.
    setting.strategy.adapter.max_binding_size = 4 * 2 * 14 * 256;
    let options = &setting.options;
    let plan = wgpu_bert::train::plan_run(Some(&setting.strategy), options, 14, 3).expect("plan");
    assert_eq!((plan.gradient_accumulation_steps, plan.misfit.is_none()), (2, true));
    let mut notice = None;
    let run = run_bert_pretrain(
        Some(&setting.strategy),
        options,
        setting.features.clone(),
        None,
        &mut [],
        async |event, _| {
            if let Event::Started(started) = event {
                notice = started.notice;
                assert_eq!(started.gradient_accumulation_steps, 2);
            }
            Control::Continue
        },
    );
    let trained = pollster::block_on(run).expect("trained");
    assert_same("chosen", &(whole.0.clone(), trained), &whole);
    let notice = notice.expect("a notice");
    assert!(notice.contains("A batch of 4 does not fit") && notice.contains("2 parts of 2"), "{notice}");
}

#[test]
fn a_batch_that_cannot_be_cut_is_refused_with_the_nearest() {
    let device = device(None);
    let setting = setting(&device, OptimizerKind::AdamW);
    let options = PretrainOptions { distribution: parts(3), ..setting.options.clone() };
    let run = run_bert_pretrain(
        Some(&setting.strategy),
        &options,
        setting.features.clone(),
        None,
        &mut [],
        async |_, _| Control::Continue,
    );
    let error = pollster::block_on(run).unwrap_err().to_string();
    assert!(error.contains("3 equal parts") && error.contains("3 and 6"), "{error}");
}
