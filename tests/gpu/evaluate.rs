//! Evaluation: the reference's numbers, however the examples are dealt out to batches.

use std::ops::ControlFlow;

use wgpu_bert::checkpoint::{TensorFile, names::read_parameters};
use wgpu_bert::data::{Error, TrainingData};
use wgpu_bert::optimizer::OptimizerKind;
use wgpu_bert::train::{
    Callback, CallbackResult, Control, Evaluation, Event, Logs, Running, Snapshot, TrainError, Trained,
    evaluate, run_bert_pretrain,
};

use crate::harness::{FAMILIES, device};
use crate::recorded::Recorded;
use crate::small_run::{Setting, bits, setting};

#[test]
fn means_are_those_of_all_examples_together() {
    let recorded = Recorded("tiny");
    let config = recorded.config();
    let bytes = recorded.bytes("model.safetensors");
    let weights =
        read_parameters(&config, &TensorFile::parse(&bytes, "model").expect("model")).expect("model");
    let bytes = recorded.bytes("expected.safetensors");
    let expected = TensorFile::parse(&bytes, "expected").expect("expected");
    let number = |name: &str| f64::from(expected.f32(name).expect(name).data[0]);
    let (mlm_loss, nsp_loss) = (number("mlm_loss"), number("nsp_loss"));
    let features = recorded.features("batch.safetensors");
    let masked: f32 = features.masked_lm_weights.iter().sum();
    // The whole first row guessed right.
    let mut guessed = features.clone();
    let logits = expected.f32("mlm_logits").expect("logits").data;
    for (id, row) in guessed.masked_lm_ids.iter_mut().zip(logits.chunks(config.vocab_size)).take(10) {
        let top = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).expect("logits").0;
        *id = top as u32;
    }
    for family in FAMILIES {
        let device = device(family);
        for batch_size in [1, 2, 5, 32] {
            let case = format!("{family:?}, {batch_size} at a time");
            let mut done = Vec::new();
            let told = evaluate(&device.gpu, &config, &weights, features.clone(), batch_size, |count| {
                done.push(count);
                ControlFlow::Continue(())
            });
            let got = pollster::block_on(told).expect("evaluation");
            assert_eq!(
                (got.instances, got.predictions, done.last()),
                (5, f64::from(masked), Some(&5)),
                "{case}"
            );
            let next = (got.next_sentence_loss.expect("loss"), got.next_sentence_accuracy.expect("accuracy"));
            for (what, got, want) in [
                ("MLM loss", got.lm_example_loss, mlm_loss),
                ("MLM accuracy", got.masked_lm_accuracy, 0.0),
                ("NSP loss", next.0, nsp_loss),
                ("NSP accuracy", next.1, 0.2),
                ("perplexity over its logarithm", got.perplexity().ln(), mlm_loss),
            ] {
                assert!((got - want).abs() < 2e-5, "{case}: {what} is {got}, not {want}");
            }
            let again = evaluate(&device.gpu, &config, &weights, guessed.clone(), batch_size, |_| {
                ControlFlow::Continue(())
            });
            let got = pollster::block_on(again).expect("evaluation");
            assert!((got.masked_lm_accuracy - 10.0 / f64::from(masked)).abs() < 1e-6, "{case}: {got:?}");
        }
    }

    // Without the head, and with damaged weights.
    let device = device(FAMILIES[0]);
    let is_next = |name: &str| name.starts_with("bert.pooler") || name.starts_with("cls.seq_relationship");
    let mut masks_only = weights.clone();
    masks_only.retain(|tensor| !is_next(&tensor.name));
    let got = pollster::block_on(evaluate(&device.gpu, &config, &masks_only, features.clone(), 3, |_| {
        ControlFlow::Continue(())
    }));
    let got = got.expect("evaluation");
    assert!((got.lm_example_loss - mlm_loss).abs() < 2e-5 && got.next_sentence_loss.is_none(), "{got:?}");
    masks_only[0].data.fill(f32::NAN);
    let got = pollster::block_on(evaluate(&device.gpu, &config, &masks_only, features.clone(), 3, |_| {
        ControlFlow::Continue(())
    }));
    assert!(matches!(got, Err(TrainError::NoLoss)), "{got:?}");
}

/// Which steps had an evaluation among their measurements.
#[derive(Default)]
struct Evaluations(Vec<(u64, Option<Evaluation>)>);

impl Callback for Evaluations {
    fn on_batch_end(&mut self, step: u64, logs: &Logs) -> CallbackResult {
        self.0.push((step, logs.evaluation));
        Ok(Control::Continue)
    }
}

/// The run, evaluated on all but the examples of the first batch; the listener hears of evaluations only.
fn run_evaluated(
    setting: &Setting,
    start: Option<&Snapshot>,
    callbacks: &mut [&mut dyn Callback],
    mut on_event: impl AsyncFnMut(Event, &mut Running<'_>) -> Control,
) -> Result<Trained, TrainError> {
    let mut held_out = setting.features.clone();
    held_out.truncate(7);
    let data = TrainingData::from(setting.features.clone()).with_evaluation(held_out);
    let listen = async |event, running: &mut Running<'_>| match event {
        Event::Evaluating { .. } | Event::Evaluated(_) => on_event(event, running).await,
        _ => Control::Continue,
    };
    let run = run_bert_pretrain(Some(&setting.strategy), &setting.options, data, start, callbacks, listen);
    pollster::block_on(run)
}

#[test]
fn evaluation_during_training_disturbs_nothing() {
    for (family, next_sentence) in FAMILIES.into_iter().zip([true, false]) {
        let device = device(family);
        let mut setting = setting(&device, OptimizerKind::AdamW);
        setting.options.steps_per_epoch = 6;
        setting.options.num_eval_per_epoch = 2;
        setting.options.use_next_sentence_label = next_sentence;
        let plain = run_bert_pretrain(
            Some(&setting.strategy),
            &setting.options,
            setting.features.clone(),
            None,
            &mut [],
            async |_, _| Control::Continue,
        );
        let plain = pollster::block_on(plain).expect("run");
        // Without callbacks, and with.
        let mut seen = Vec::new();
        let listen = async |event, running: &mut Running<'_>| {
            if let Event::Evaluated(evaluation) = event {
                seen.push((running.step(), evaluation, running.snapshot().await.expect("snapshot").weights));
            }
            Control::Continue
        };
        let trained = run_evaluated(&setting, None, &mut [], listen).expect("run");
        assert!(bits(&trained.tensors) == bits(&plain.tensors), "{family:?}");
        let steps: Vec<_> = seen.iter().map(|(step, ..)| *step).collect();
        assert_eq!(steps, [3, 6, 9, 12, 15, 17]);
        // The same numbers as of the model by itself.
        let mut held_out = setting.features.clone();
        held_out.truncate(7);
        let mut alone = Vec::new();
        for (step, during, mut weights) in seen {
            if !next_sentence {
                weights.retain(|tensor| {
                    !tensor.name.contains("pooler") && !tensor.name.contains("seq_relationship")
                });
            }
            let by_itself =
                evaluate(&device.gpu, &setting.options.config, &weights, held_out.clone(), 4, |_| {
                    ControlFlow::Continue(())
                });
            let by_itself = pollster::block_on(by_itself).expect("evaluation");
            assert_eq!(during, by_itself, "after step {step}");
            alone.push((step, by_itself));
        }
        let mut callback = Evaluations::default();
        let trained =
            run_evaluated(&setting, None, &mut [&mut callback], async |_, _| Control::Continue).expect("run");
        assert!(bits(&trained.tensors) == bits(&plain.tensors), "{family:?}");
        let heard = callback.0.into_iter().map(|(step, evaluation)| (step + 1, evaluation.expect("one")));
        assert!(heard.eq(alone));
    }
}

#[test]
fn an_evaluation_is_broken_off_where_the_run_is_to_stop() {
    let device = device(FAMILIES[0]);
    let mut setting = setting(&device, OptimizerKind::AdamW);
    setting.options.steps_per_epoch = 5;
    let (mut told, mut stopped_at) = (Vec::new(), None);
    let mut callback = Evaluations::default();
    let trained = run_evaluated(&setting, None, &mut [&mut callback], async |event, running| {
        told.push((running.step(), event.clone()));
        let Event::Evaluating { done, instances: 7 } = event else { return Control::Continue };
        if running.step() == 10 && done == 4 {
            stopped_at = Some(running.snapshot().await.expect("snapshot"));
            return Control::Stop;
        }
        Control::Continue
    });
    let trained = trained.expect("run");
    assert!(trained.stopped && trained.steps == 10);
    let of_step = |step| told.iter().filter(move |(of, _)| *of == step).map(|(_, event)| event.clone());
    let evaluating = |done| Event::Evaluating { done, instances: 7 };
    assert!(matches!(&of_step(5).collect::<Vec<_>>()[..],
        [zero, four, Event::Evaluated(_)] if *zero == evaluating(0) && *four == evaluating(4)));
    assert!(of_step(10).eq([evaluating(0), evaluating(4)]), "{told:?}");
    assert!(callback.0.iter().map(|(step, found)| (*step, found.is_some())).eq([
        (2, false),
        (4, true),
        (7, false),
        (9, false)
    ]));

    // The run that goes on makes it before anything else, and only once.
    let evaluations = |start: Option<&Snapshot>| {
        let mut told = Vec::new();
        let listen = async |event, running: &mut Running<'_>| {
            if let Event::Evaluated(evaluation) = event {
                told.push((running.step(), evaluation, running.snapshot().await.expect("snapshot")));
            }
            Control::Continue
        };
        run_evaluated(&setting, start, &mut [], listen).expect("run");
        told
    };
    let whole = evaluations(None);
    assert_eq!(whole.iter().map(|(step, ..)| *step).collect::<Vec<_>>(), [5, 10, 15, 17]);
    let numbers = |told: &[(u64, Evaluation, Snapshot)]| -> Vec<_> {
        told.iter().map(|(step, evaluation, _)| (*step, *evaluation)).collect()
    };
    assert_eq!(numbers(&evaluations(stopped_at.as_ref())), numbers(&whole[1..]));
    assert_eq!(numbers(&evaluations(Some(&whole[1].2))), numbers(&whole[2..]));
}

#[test]
fn bad_examples_for_evaluation_are_refused_before_a_step() {
    let device = device(FAMILIES[0]);
    let setting = setting(&device, OptimizerKind::AdamW);
    let run = |spoil: &dyn Fn(&mut wgpu_bert::data::Features)| {
        let mut held_out = setting.features.clone();
        held_out.origin = "held-out".into();
        spoil(&mut held_out);
        let data = TrainingData::from(setting.features.clone()).with_evaluation(held_out);
        let run = run_bert_pretrain(
            Some(&setting.strategy),
            &setting.options,
            data,
            None,
            &mut [],
            async |_, _| panic!("nothing is to start"),
        );
        pollster::block_on(run).expect_err("refused")
    };
    let error = run(&|features| features.truncate(0));
    assert!(matches!(error, TrainError::Data(Error::TooFewInstances { .. })), "{error}");
    let error = run(&|features| features.input_ids[30] = 5000);
    assert!(matches!(error, TrainError::Data(Error::IdOutOfRange { .. })), "{error}");
    assert!(error.to_string().contains("held-out") && error.to_string().contains("5000"), "{error}");
}
