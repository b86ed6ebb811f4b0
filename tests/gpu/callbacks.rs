//! Callbacks are called where the reference calls them, and can end a run as there.

use wgpu_bert::optimizer::OptimizerKind;
use wgpu_bert::train::{
    Callback, CallbackFuture, CallbackPoint, CallbackResult, Control, Event, Logs, Progress, Running,
    Snapshot, Suspicion, TrainError, Trained, run_bert_pretrain,
};

use crate::harness::{FAMILIES, device};
use crate::small_run::{Setting, bits, setting};

/// Writes down what it hears: `{` and `}` for the run, `1{` and `}1` for an epoch, `0-2` for a loop.
#[derive(Default)]
struct Recorder {
    heard: String,
    /// Stop when this was written.
    stop_after: &'static str,
    logs: Vec<Progress>,
}

impl Recorder {
    fn hear(&mut self, what: String) -> CallbackResult {
        self.heard += &what;
        let stop = !self.stop_after.is_empty() && self.heard.ends_with(self.stop_after);
        Ok(if stop { Control::Stop } else { Control::Continue })
    }
}

impl Callback for Recorder {
    fn on_train_begin(&mut self) -> CallbackResult {
        self.hear("{".into())
    }

    fn on_epoch_begin(&mut self, epoch: u64) -> CallbackResult {
        self.hear(format!(" {epoch}{{"))
    }

    fn on_batch_begin(&mut self, step: u64) -> CallbackResult {
        self.hear(format!(" {step}-"))
    }

    fn on_batch_end(&mut self, step: u64, logs: &Logs) -> CallbackResult {
        assert_eq!(logs.progress.step, step + 1);
        self.logs.push(logs.progress);
        self.hear(step.to_string())
    }

    fn on_epoch_end(&mut self, epoch: u64, logs: &Logs) -> CallbackResult {
        assert_eq!(self.logs.last(), Some(&logs.progress));
        self.hear(format!(" }}{epoch}"))
    }

    fn on_train_end(&mut self) -> CallbackResult {
        self.hear(" }".into())
    }
}

fn run(
    setting: &Setting,
    start: Option<&Snapshot>,
    callbacks: &mut [&mut dyn Callback],
) -> Result<(Trained, Vec<Progress>), TrainError> {
    let mut told = Vec::new();
    let on_event = async |event, _: &mut Running<'_>| {
        if let Event::Progress(progress) = event {
            told.push(progress);
        }
        Control::Continue
    };
    let run = run_bert_pretrain(
        Some(&setting.strategy),
        &setting.options,
        setting.features.clone(),
        start,
        callbacks,
        on_event,
    );
    pollster::block_on(run).map(|trained| (trained, told))
}

/// Steps of the run, of an epoch, of a loop.
fn shaped(mut setting: Setting, [total, epoch, per_loop]: [u64; 3]) -> Setting {
    setting.options.schedule.total_steps = total;
    setting.options.steps_per_epoch = epoch;
    setting.options.steps_per_loop = per_loop as usize;
    setting
}

#[test]
fn points_come_in_the_references_order() {
    let device = device(FAMILIES[0]);
    for (index, (shape, expected)) in [
        ([12, 6, 3], "{ 1{ 0-2 3-5 }1 2{ 6-8 9-11 }2 }"),
        // An epoch, or the run, cuts a loop short.
        ([10, 5, 3], "{ 1{ 0-2 3-4 }1 2{ 5-7 8-9 }2 }"),
        ([4, 2, 9], "{ 1{ 0-1 }1 2{ 2-3 }2 }"),
        ([7, 5, 4], "{ 1{ 0-3 4-4 }1 2{ 5-6 }2 }"),
        ([3, 2, 1], "{ 1{ 0-0 1-1 }1 2{ 2-2 }2 }"),
        ([2, 9, 5], "{ 1{ 0-1 }1 }"),
    ]
    .into_iter()
    .enumerate()
    {
        let setting = shaped(setting(&device, OptimizerKind::AdamW), shape);
        let (mut one, mut other) = (Recorder::default(), Recorder::default());
        let (trained, told) = run(&setting, None, &mut [&mut one, &mut other]).expect("run");
        assert_eq!(one.heard, expected, "{shape:?}");
        assert_eq!(other.heard, expected, "{shape:?}");
        // One reading for a loop, which is what everybody is told.
        assert_eq!(one.logs, told, "{shape:?}");
        assert_eq!(told.len(), expected.matches('-').count(), "{shape:?}");
        assert!(!trained.stopped);
        if index == 0 {
            let (without, _) = run(&setting, None, &mut []).expect("run");
            assert!(bits(&trained.tensors) == bits(&without.tensors), "{shape:?}");
        }
    }
}

#[test]
fn a_callback_stops_the_run_after_the_loop_under_way() {
    let device = device(FAMILIES[0]);
    let setting = shaped(setting(&device, OptimizerKind::AdamW), [10, 5, 3]);
    for (stop_after, expected, steps) in [
        ("{", "{ }", 0),
        (" 1{", "{ 1{ 0-2 }", 3),
        (" 3-", "{ 1{ 0-2 3-4 }1 }", 5),
        ("0-2", "{ 1{ 0-2 }", 3),
        ("3-4", "{ 1{ 0-2 3-4 }1 }", 5),
        ("}1", "{ 1{ 0-2 3-4 }1 }", 5),
        (" 2{", "{ 1{ 0-2 3-4 }1 2{ 5-7 }", 8),
        ("8-9", "{ 1{ 0-2 3-4 }1 2{ 5-7 8-9 }2 }", 10),
    ] {
        let mut stopping = Recorder { stop_after, ..Recorder::default() };
        let mut other = Recorder::default();
        let (trained, _) = run(&setting, None, &mut [&mut stopping, &mut other]).expect("run");
        assert_eq!(stopping.heard, expected, "stop after {stop_after:?}");
        assert_eq!(other.heard, expected, "one that does not stop hears the same");
        assert_eq!((trained.steps, trained.stopped), (steps, steps < 10), "stop after {stop_after:?}");
    }
}

#[test]
fn a_listener_that_stops_the_run_cuts_its_loop_short() {
    let device = device(FAMILIES[0]);
    let setting = shaped(setting(&device, OptimizerKind::AdamW), [10, 5, 3]);
    let mut recorder = Recorder::default();
    let callbacks: &mut [&mut dyn Callback] = &mut [&mut recorder];
    let stopping = run_bert_pretrain(
        Some(&setting.strategy),
        &setting.options,
        setting.features,
        None,
        callbacks,
        async |event, _| if event == Event::Step(6) { Control::Stop } else { Control::Continue },
    );
    assert_eq!(pollster::block_on(stopping).expect("run").steps, 7);
    assert_eq!(recorder.heard, "{ 1{ 0-2 3-4 }1 2{ 5-6 }");
}

/// Keeps a snapshot of every point: it waits for the device, so it writes the method that may.
#[derive(Default)]
struct Snapshots(Vec<Snapshot>);

impl Callback for Snapshots {
    fn call<'a>(&'a mut self, point: CallbackPoint, running: &'a mut Running<'_>) -> CallbackFuture<'a> {
        Box::pin(async move {
            if let CallbackPoint::BatchEnd { .. } | CallbackPoint::TrainEnd = point {
                self.0.push(running.snapshot().await?);
            }
            Ok(Control::Continue)
        })
    }
}

#[test]
fn a_run_that_goes_on_begins_no_epoch_again() {
    let device = device(FAMILIES[0]);
    let mut setting = shaped(setting(&device, OptimizerKind::AdamW), [10, 5, 2]);
    let mut snapshots = Snapshots::default();
    let (whole, _) = run(&setting, None, &mut [&mut snapshots]).expect("run");
    let steps: Vec<_> = snapshots.0.iter().map(|snapshot| snapshot.step).collect();
    assert_eq!(steps, [2, 4, 5, 7, 9, 10, 10]);
    setting.options.steps_per_loop = 3;
    for (start, expected) in snapshots.0.iter().zip([
        // The epoch cuts the first loop short, so that the next ones are as ever.
        "{ 2-4 }1 2{ 5-7 8-9 }2 }",
        "{ 4-4 }1 2{ 5-7 8-9 }2 }",
        "{ 2{ 5-7 8-9 }2 }",
        "{ 7-9 }2 }",
        "{ 9-9 }2 }",
        // Nothing is left to do, so nothing ends a second time.
        "{ }",
    ]) {
        let mut recorder = Recorder::default();
        let (trained, _) = run(&setting, Some(start), &mut [&mut recorder]).expect("run");
        assert_eq!(recorder.heard, expected, "from {}", start.step);
        assert!(bits(&trained.tensors) == bits(&whole.tensors), "from {}", start.step);
    }
}

/// Fails where it is told to.
struct Failing(&'static str);

impl Callback for Failing {
    fn call<'a>(&'a mut self, point: CallbackPoint, _: &'a mut Running<'_>) -> CallbackFuture<'a> {
        let fails = point.name() == self.0;
        Box::pin(async move { if fails { Err("disk full".into()) } else { Ok(Control::Continue) } })
    }
}

#[test]
fn an_error_of_a_callback_ends_the_run() {
    let device = device(FAMILIES[0]);
    let setting = shaped(setting(&device, OptimizerKind::AdamW), [4, 2, 2]);
    for (method, heard) in [
        ("on_train_begin", ""),
        ("on_epoch_begin", "{"),
        ("on_batch_begin", "{ 1{"),
        ("on_batch_end", "{ 1{ 0-"),
        ("on_epoch_end", "{ 1{ 0-1"),
        ("on_train_end", "{ 1{ 0-1 }1 2{ 2-3 }2"),
    ] {
        let mut recorder = Recorder::default();
        let error = run(&setting, None, &mut [&mut Failing(method), &mut recorder]).expect_err(method);
        assert_eq!(error.to_string(), format!("a callback failed in {method}: disk full"));
        assert!(matches!(error, TrainError::Callback { .. }));
        assert_eq!(recorder.heard, heard, "{method}");
    }
}

/// What a run without callbacks is suspected of, by the step done when it was told.
fn suspected(setting: &Setting) -> Vec<(u64, Suspicion)> {
    let (mut found, mut told) = (Vec::new(), 0);
    let listen = async |event, _: &mut Running<'_>| {
        match event {
            Event::Progress(progress) => told = progress.step,
            Event::Suspicious(suspicion) => found.push((told, suspicion)),
            _ => {}
        }
        Control::Continue
    };
    let features = setting.features.clone();
    let run = run_bert_pretrain(Some(&setting.strategy), &setting.options, features, None, &mut [], listen);
    pollster::block_on(run).expect("run");
    found
}

#[test]
fn a_loss_that_is_zero_or_stands_still_is_told_once() {
    let device = device(FAMILIES[0]);
    let setting = || shaped(setting(&device, OptimizerKind::AdamW), [60, 60, 7]);
    // Most of it a warm-up, whose first rate is 0.
    let mut usual = setting();
    usual.options.schedule.warmup_steps = 50.0;
    assert_eq!(suspected(&usual), []);

    let mut unmasked = setting();
    unmasked.features.masked_lm_weights.fill(0.0);
    assert_eq!(suspected(&unmasked), [(21, Suspicion::ZeroLoss)]);

    let mut no_rate = setting();
    no_rate.options.schedule.init_lr = 0.0;
    assert_eq!(suspected(&no_rate), [(21, Suspicion::ZeroRate)]);

    // One batch, the same every time, and updates too small for 32 bits.
    let mut still = setting();
    still.features.truncate(1);
    still.options.batch_size = 1;
    still.options.schedule.init_lr = 1e-30;
    (still.options.config.hidden_dropout_prob, still.options.config.attention_probs_dropout_prob) =
        (0.0, 0.0);
    let found = suspected(&still);
    assert!(matches!(found[..], [(21, Suspicion::SameLoss { loss })] if loss > 1.0), "{found:?}");
}
