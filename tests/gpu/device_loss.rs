//! A device that is lost changes nothing in the end, and is told.

use std::time::Duration;

use wgpu_bert::data::TrainingData;
use wgpu_bert::gpu::GpuError;
use wgpu_bert::optimizer::OptimizerKind;
use wgpu_bert::train::{
    Callback, CallbackFuture, CallbackPoint, Control, Event, Running, TrainError, Trained, run_bert_pretrain,
};

use crate::harness::{Device, FAMILIES, device};
use crate::small_run::{Setting, bits, setting};

/// 17 steps in loops of 3, in epochs of 8, each with two evaluations.
fn evaluated(device: &Device) -> Setting {
    let mut setting = setting(device, OptimizerKind::AdamW);
    (setting.options.steps_per_epoch, setting.options.num_eval_per_epoch) = (8, 2);
    setting
}

/// Takes a snapshot at every point, and writes down where it was called.
#[derive(Default)]
struct Saving(Vec<String>);

impl Callback for Saving {
    fn call<'a>(&'a mut self, point: CallbackPoint, running: &'a mut Running<'_>) -> CallbackFuture<'a> {
        Box::pin(async move {
            let step = running.snapshot().await?.step;
            let evaluation = match point {
                CallbackPoint::BatchEnd { logs, .. } => logs.evaluation,
                _ => None,
            };
            self.0.push(format!("{} {step} {evaluation:?}", point.name()));
            Ok(Control::Continue)
        })
    }
}

/// What a run came to, and what was told of it but for the time that it took.
struct Run {
    ended: Result<Trained, TrainError>,
    told: Vec<String>,
    called: Vec<String>,
    /// Where it went on after a loss.
    losses: Vec<u64>,
    /// How long it waited for another device.
    waits: Vec<Duration>,
}

/// A run whose device is destroyed at the events for which `dooms` holds.
fn run(setting: &Setting, callbacks: bool, mut dooms: impl FnMut(&Event, u64) -> bool) -> Run {
    let mut held_out = setting.features.clone();
    held_out.truncate(7);
    let data = TrainingData::from(setting.features.clone()).with_evaluation(held_out);
    let (mut told, mut losses, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    let mut saving = Saving::default();
    let on_event = async |event: Event, running: &mut Running<'_>| {
        match &event {
            Event::Progress(p) => told.push(format!(
                "{} {} {:?} {} {:?} {}",
                p.step,
                p.lm_example_loss,
                p.next_sentence_loss,
                p.masked_lm_accuracy,
                p.next_sentence_accuracy,
                p.grad_norm
            )),
            Event::Evaluated(evaluation) => told.push(format!("{evaluation:?}")),
            Event::DeviceLost { step, message } => {
                assert!(message.starts_with("the device was lost: "), "{message}");
                losses.push(*step);
            }
            Event::DeviceAwaited { after, .. } => waits.push(*after),
            _ => {}
        }
        if dooms(&event, running.step()) {
            running.gpu().device.destroy();
        }
        Control::Continue
    };
    let callbacks: &mut [&mut dyn Callback] = if callbacks { &mut [&mut saving] } else { &mut [] };
    let run = run_bert_pretrain(Some(&setting.strategy), &setting.options, data, None, callbacks, on_event);
    let ended = pollster::block_on(run);
    Run { ended, told, called: saving.0, losses, waits }
}

impl Run {
    fn trained(&self) -> &Trained {
        self.ended.as_ref().unwrap_or_else(|error| panic!("{error}"))
    }

    fn error(&self) -> &TrainError {
        self.ended.as_ref().expect_err("there is no device to go on with")
    }
}

#[test]
fn a_run_that_loses_its_device_ends_with_the_same_bits() {
    let device = device(FAMILIES[0]);
    let setting = evaluated(&device);
    let whole = [false, true].map(|callbacks| run(&setting, callbacks, |_, _| false));
    assert!(whole.iter().all(|whole| whole.losses.is_empty()));
    // At the start, within a loop, between two, in an evaluation, at the end; each with a callback or without.
    type Dooms = fn(&Event, u64) -> bool;
    let moments: [(&str, bool, Dooms); 9] = [
        ("the start", true, |event, _| matches!(event, Event::Started(_))),
        ("step 1", false, |event, _| *event == Event::Step(1)),
        ("step 3", true, |event, _| *event == Event::Step(3)),
        ("step 7", true, |event, _| *event == Event::Step(7)),
        ("a measurement", false, |event, step| matches!(event, Event::Progress(_)) && step > 8),
        ("an evaluation", false, |event, step| {
            matches!(event, Event::Evaluating { done: 4, .. }) && step == 12
        }),
        ("its end", true, |event, step| matches!(event, Event::Evaluated(_)) && step == 8),
        ("the end", false, |event, _| *event == Event::Ended),
        ("the end", true, |event, _| *event == Event::Ended),
    ];
    for (moment, callbacks, dooms) in moments {
        let mut lives = true;
        let lost = run(&setting, callbacks, |event, step| {
            let dies = lives && dooms(event, step);
            lives &= !dies;
            dies
        });
        let whole = &whole[usize::from(callbacks)];
        assert!(bits(&lost.trained().tensors) == bits(&whole.trained().tensors), "{moment}");
        assert_eq!(
            (lost.trained().steps, &lost.told, &lost.called),
            (17, &whole.told, &whole.called),
            "{moment}"
        );
        // After the first loop there is a state to go on from.
        let begins_anew = matches!(moment, "the start" | "step 1");
        assert!(
            lost.losses.len() == 1 && (lost.losses[0] == 0) == begins_anew,
            "{moment}: {:?}",
            lost.losses
        );
    }
}

#[test]
fn three_losses_in_a_row_end_the_run() {
    let device = device(FAMILIES[0]);
    let setting = evaluated(&device);
    let lost = run(&setting, false, |event, _| *event == Event::Step(10));
    assert!(matches!(lost.error(), TrainError::LostAgain { losses: 3, step: 6..10, .. }), "{}", lost.error());
    assert_eq!(lost.losses.len(), 2);
    // At different steps they are not in a row.
    let mut next = 0;
    let often = run(&setting, false, |event, _| match event {
        Event::Step(step) if *step == next => {
            next += 4;
            true
        }
        _ => false,
    });
    assert_eq!((often.trained().steps, often.losses.len()), (17, 5));
}

#[test]
fn an_adapter_that_is_gone_is_waited_for_and_told() {
    let device = device(FAMILIES[0]);
    let mut setting = evaluated(&device);
    setting.strategy.adapter.name = "one that was pulled out".into();
    let lost = run(&setting, false, |event, _| *event == Event::Step(10));
    assert_eq!(
        lost.error().to_string(),
        "the device was lost, and no other could be opened: the adapter one that was pulled out is not there"
    );
    assert_eq!(
        (lost.losses.len(), lost.waits),
        (1, [500, 1000, 2000, 4000].map(Duration::from_millis).into())
    );
}

/// A checkpoint that is newer than the model at the end would be no part of that run.
#[test]
fn a_stop_while_steps_are_done_again_comes_after_them() {
    let device = device(FAMILIES[0]);
    let setting = evaluated(&device);
    let (mut saved, mut again) = (0, None);
    let on_event = async |event: Event, running: &mut Running<'_>| {
        match event {
            Event::Step(10) if again.is_none() => {
                saved = running.snapshot().await.expect("a snapshot").step;
                running.gpu().device.destroy();
            }
            Event::DeviceReplaced(_) => again = Some(running.step()),
            _ => {}
        }
        if again.is_some() { Control::Stop } else { Control::Continue }
    };
    let (strategy, features) = (Some(&setting.strategy), setting.features.clone());
    let run = run_bert_pretrain(strategy, &setting.options, features, None, &mut [], on_event);
    let stopped = pollster::block_on(run).expect("a run");
    assert!(saved == 10 && again < Some(saved), "{again:?}");
    assert!(stopped.stopped && (saved..=12).contains(&stopped.steps), "{}", stopped.steps);
}

/// Nobody asked for it, nobody waits for it: a run that went on after one would train on wrong numbers.
#[test]
fn an_error_of_the_device_ends_the_step_with_its_text() {
    let device = device(FAMILIES[0]);
    let setting = evaluated(&device);
    let mut steps = 0;
    let on_event = async |event: Event, running: &mut Running<'_>| {
        if let Event::Step(step) = event {
            steps = step + 1;
            if step == 4 {
                let _ = running.gpu().device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("a buffer for nothing"),
                    size: 4,
                    usage: wgpu::BufferUsages::empty(),
                    mapped_at_creation: false,
                });
            }
        }
        Control::Continue
    };
    let (strategy, features) = (Some(&setting.strategy), setting.features.clone());
    let run = run_bert_pretrain(strategy, &setting.options, features, None, &mut [], on_event);
    let error = pollster::block_on(run).expect_err("an error of the device");
    assert!(matches!(error, TrainError::Gpu(GpuError::Rejected { .. })), "{error}");
    assert!(error.to_string().contains("a buffer for nothing"), "{error}");
    assert_eq!(steps, 5);
}
