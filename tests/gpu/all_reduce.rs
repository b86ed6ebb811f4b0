//! Gradients on the host: what callbacks see and change, and when they are clipped.

use std::cell::RefCell;

use wgpu_bert::checkpoint::NamedTensor;
use wgpu_bert::data::{BatchLimits, Batcher};
use wgpu_bert::gpu::Precision;
use wgpu_bert::model::{BatchShape, StepKind};
use wgpu_bert::optimizer::{LossScale, OptimizerKind, OptimizerOptions};
use wgpu_bert::train::{
    AllReduceCallback, Control, Distribution, Event, PretrainOptions, PretrainRun, SeedCompat, Share,
    StepScalars, TrainError, Trained, Trainer, clip_by_global_norm,
};

use crate::distribution::{assert_same, long, run};
use crate::harness::{Device, device};
use crate::mirrored::replicas;
use crate::small_run::{Setting, setting};

const EXPLICIT: Distribution = Distribution { explicit_allreduce: true, ..Distribution::in_parts(1) };

/// A few steps without dropout, clipped to a small norm.
fn few(device: &Device, kind: OptimizerKind, steps: u64) -> Setting {
    let mut setting = setting(device, kind);
    setting.options.schedule.total_steps = steps;
    setting.options.schedule.warmup_steps = 0.0;
    setting.options.steps_per_epoch = steps;
    setting.options.steps_per_loop = 1;
    setting.options.optimizer.clip_norm = Some(0.1);
    setting.options.config.hidden_dropout_prob = 0.0;
    setting.options.config.attention_probs_dropout_prob = 0.0;
    setting
}

/// What a run of some steps leaves: its tensors, its first weights, and the first moments after its first step.
struct Ran {
    trained: Trained,
    start: Vec<NamedTensor>,
    first_moments: Vec<NamedTensor>,
}

fn train(
    setting: &Setting,
    distribution: Distribution,
    pre: Vec<AllReduceCallback<'_>>,
    post: Vec<AllReduceCallback<'_>>,
) -> Result<Ran, TrainError> {
    let options = PretrainOptions { distribution, ..setting.options.clone() };
    let (mut start, mut first_moments) = (Vec::new(), Vec::new());
    let trained = pollster::block_on(async {
        let features = setting.features.clone();
        let run = PretrainRun::prepare(Some(&setting.strategy), &options, features, None, |_| {}).await?;
        let run = match pre.is_empty() && post.is_empty() {
            true => run,
            false => run.with_allreduce_callbacks(pre, post)?,
        };
        run.train(&mut [], async |event, running| {
            match event {
                Event::Started(_) => start = running.snapshot().await.expect("a snapshot").weights,
                Event::Progress(progress) if progress.step == 1 => {
                    first_moments = running.snapshot().await.expect("a snapshot").first_moments;
                }
                _ => {}
            }
            Control::Continue
        })
        .await
    })?;
    Ok(Ran { trained, start, first_moments })
}

#[test]
fn callbacks_see_every_gradient_by_name_in_their_order() {
    let device = device(None);
    let setting = replicas(&few(&device, OptimizerKind::AdamW, 2), 2);
    let calls = RefCell::new(Vec::new());
    let seen = RefCell::new(Vec::new());
    let pass = |name: &'static str, keep: bool| -> AllReduceCallback<'_> {
        let (calls, seen) = (&calls, &seen);
        Box::new(move |gradients| {
            calls.borrow_mut().push(name);
            if keep {
                seen.borrow_mut().push(gradients.to_vec());
            }
            Ok(())
        })
    };
    // Packs that cut parameters in pieces change nothing of what is seen.
    let mut distribution = EXPLICIT;
    distribution.all_reduce.bytes_per_pack = 300;
    let (pre, post) = (vec![pass("a", false), pass("b", true)], vec![pass("c", true), pass("d", false)]);
    let Ran { trained, .. } = train(&setting, distribution, pre, post).expect("trained");
    let step = ["a", "b", "a", "b", "c", "d"];
    assert_eq!(*calls.borrow(), [step, step].concat());
    for step in seen.borrow().chunks(3) {
        let [one, other, sum] = step else { panic!("three lists") };
        for (((one, other), sum), weights) in one.iter().zip(other).zip(sum).zip(&trained.tensors) {
            assert_eq!((&sum.name, &sum.shape), (&weights.name, &weights.shape));
            let expected: Vec<_> = one.data.iter().zip(&other.data).map(|(a, b)| a + b).collect();
            assert_eq!(sum.data, expected, "{}", sum.name);
            let is_sum_of_something = sum.data.iter().any(|g| *g != 0.0);
            assert!(is_sum_of_something || sum.name.ends_with("key.bias"), "{} has no gradient", sum.name);
        }
    }
}

#[test]
fn callbacks_see_gradients_without_the_loss_scale() {
    let device = device(None);
    let setting = replicas(&few(&device, OptimizerKind::AdamW, 1), 2);
    let seen = |precision, loss_scale| {
        let mut setting = setting.clone();
        setting.options.precision = precision;
        setting.options.optimizer =
            OptimizerOptions { loss_scale, clip_norm: None, ..setting.options.optimizer };
        let seen = RefCell::new(Vec::new());
        let look = |gradients: &mut [NamedTensor]| {
            let values = gradients.iter().flat_map(|gradient| gradient.data.iter().map(|g| f64::from(*g)));
            seen.borrow_mut().push(values.collect());
            Ok(())
        };
        let clip = |gradients: &mut [NamedTensor]| {
            clip_by_global_norm(gradients, 0.1);
            Ok(())
        };
        let ran = train(&setting, EXPLICIT, vec![Box::new(look)], vec![Box::new(look), Box::new(clip)]);
        let norm = f64::from(ran.expect("trained").trained.last.expect("progress").grad_norm);
        assert!((norm - 0.1).abs() < 1e-5, "{loss_scale:?}: clipped to {norm}");
        seen.into_inner()
    };
    let want: Vec<Vec<f64>> = seen(Precision::F32, None);
    assert_eq!(want.len(), 3);
    // Not every adapter has fp16.
    for precision in device.gpu.adapter.precisions() {
        let bound = if precision == Precision::F16 { 1e-2 } else { 1e-6 };
        for loss_scale in [LossScale::Dynamic, LossScale::Fixed(3000.0)] {
            for (got, want) in seen(precision, Some(loss_scale)).iter().zip(&want) {
                let difference: Vec<_> = got.iter().zip(want).map(|(got, want)| got - want).collect();
                let (error, norm) = (norm(&[difference]), norm(std::slice::from_ref(want)));
                assert!(error < bound * norm, "{precision:?}, {loss_scale:?}: off by {error} of {norm}");
            }
        }
    }

    // What is not finite stays so, and its step is left out.
    let mut setting = setting;
    setting.options.optimizer.loss_scale = Some(LossScale::Dynamic);
    let overflow: AllReduceCallback<'_> = Box::new(|gradients| {
        gradients[0].data[0] = f32::INFINITY;
        Ok(())
    });
    let told = train(&setting, EXPLICIT, vec![overflow], vec![]).expect("trained").trained.last;
    let told = told.expect("progress");
    assert_eq!((told.left_out, told.loss_scale), (1, Some(16384.0)));
}

#[test]
fn callbacks_change_what_is_learned() {
    let device = device(None);
    let setting = few(&device, OptimizerKind::AdamW, 3);
    for count in [1, 2] {
        let freeze = |gradients: &mut [NamedTensor]| {
            let frozen = gradients.iter_mut().filter(|g| g.name.starts_with("bert.embeddings."));
            frozen.for_each(|gradient| gradient.data.fill(0.0));
            Ok(())
        };
        // On each replica or on the sum is the same here.
        for before in [true, false] {
            let lists = match before {
                true => (vec![Box::new(freeze) as AllReduceCallback<'_>], vec![]),
                false => (vec![], vec![Box::new(freeze) as AllReduceCallback<'_>]),
            };
            let ran = train(&replicas(&setting, count), EXPLICIT, lists.0, lists.1).expect("trained");
            // Without a gradient AdamW has no step to make, and weights only decay.
            let PretrainOptions { schedule, optimizer, .. } = &setting.options;
            let rates: f64 =
                (0..3).map(|step| 1.0 - schedule.learning_rate(step) * optimizer.weight_decay).product();
            for (weights, start) in ran.trained.tensors.iter().zip(&ran.start) {
                let decays = !weights.name.contains("LayerNorm");
                let left = if decays { rates } else { 1.0 };
                let is_as_frozen = weights.data.iter().zip(&start.data).all(|(w, start)| {
                    (f64::from(*w) - f64::from(*start) * left).abs() <= 1e-6 * f64::from(start.abs())
                });
                let frozen = weights.name.starts_with("bert.embeddings.");
                assert_eq!(is_as_frozen, frozen, "{} of {count} replicas, {before}", weights.name);
            }
        }
    }
}

#[test]
fn one_replica_learns_the_same_by_way_of_the_host() {
    let device = device(None);
    let setting = long(setting(&device, OptimizerKind::AdamW));
    let whole = run(&setting, Distribution::default());
    assert_same("by the host", &run(&setting, EXPLICIT), &whole);
    let compat = Some(SeedCompat { scale_loss: false });
    assert_same("as the reference", &run(&setting, Distribution { compat, ..EXPLICIT }), &whole);
}

#[test]
fn callbacks_that_fail_or_have_no_place_are_told() {
    let device = device(None);
    let setting = few(&device, OptimizerKind::AdamW, 2);
    let fails = || -> AllReduceCallback<'static> { Box::new(|_| Err("no more of this".into())) };
    for (pre, post, point) in [
        (vec![fails()], vec![], "pre_allreduce_callbacks: no more of this"),
        (vec![], vec![fails()], "post_allreduce_callbacks: no more of this"),
    ] {
        let error = train(&replicas(&setting, 2), EXPLICIT, pre, post).err().expect("an error").to_string();
        assert!(error.contains(point), "{error}");
    }
    let error = train(&setting, Distribution::default(), vec![fails()], vec![]).err().expect("an error");
    assert!(matches!(error, TrainError::ImplicitAllReduce), "{error}");
    assert!(error.to_string().contains("explicit_allreduce"), "{error}");
}

/// The gradients of the first batch, cut into so many parts each normalised by its own counts, and the mean of their losses.
fn own_gradients(
    device: &Device,
    setting: &Setting,
    start: &[NamedTensor],
    parts: usize,
) -> (Vec<Vec<NamedTensor>>, f32) {
    let PretrainOptions { config, batch_size, seed, .. } = &setting.options;
    let limits = BatchLimits {
        vocab_size: config.vocab_size,
        type_vocab_size: config.type_vocab_size,
        max_position_embeddings: config.max_position_embeddings,
    };
    let batcher = Batcher::in_parts(setting.features.clone(), *batch_size, parts, *seed, limits);
    let batches = batcher.expect("batches").parts(0).expect("a batch");
    let shape = BatchShape { batch_size: batch_size / parts, seq_length: 14, predictions: 3 };
    let kind = StepKind::gradients(true);
    let trainer = Trainer::new(device.gpu.clone(), config, shape, kind);
    let mut trainer = pollster::block_on(trainer).expect("a trainer");
    trainer.write_weights(start);
    let (mut weights, mut loss) = (Vec::new(), 0.0);
    let gradients = batches.iter().map(|batch| {
        weights.push(Share::first_of(std::slice::from_ref(batch)).weight);
        pollster::block_on(trainer.submit(batch, &StepScalars::default(), true)).expect("submitted");
        let metrics = pollster::block_on(trainer.metrics()).expect("metrics")[0];
        loss += (metrics.lm_example_loss + metrics.next_sentence_loss) / parts as f32;
        let arena = trainer.step().gradients.clone().expect("gradients");
        pollster::block_on(trainer.read_arena(&arena)).expect("gradients")
    });
    let gradients = gradients.collect();
    assert!(parts == 1 || weights[0] != weights[1], "parts that count alike show nothing");
    (gradients, loss)
}

fn norm(gradients: &[Vec<f64>]) -> f64 {
    gradients.iter().flatten().map(|g| g * g).sum::<f64>().sqrt()
}

/// `Σ clip(g)`, in f64.
fn sum_of_clipped(parts: &[Vec<NamedTensor>], clip: f64, scale: f64) -> Vec<Vec<f64>> {
    let in_f64 = |part: &Vec<NamedTensor>| -> Vec<Vec<f64>> {
        part.iter().map(|tensor| tensor.data.iter().map(|g| f64::from(*g) * scale).collect()).collect()
    };
    let mut sum: Vec<Vec<f64>> = Vec::new();
    for part in parts.iter().map(in_f64) {
        let factor = clip / norm(&part).max(clip);
        let clipped = part.into_iter().map(|g| g.into_iter().map(|g| g * factor).collect::<Vec<_>>());
        match sum.is_empty() {
            true => sum = clipped.collect(),
            false => sum.iter_mut().zip(clipped).for_each(|(sum, g)| {
                sum.iter_mut().zip(g).for_each(|(sum, g)| *sum += g);
            }),
        }
    }
    sum
}

/// The first moments of AdamW and LAMB after one step are `1 - beta_1` of the gradients that the update takes.
#[test]
fn gradients_are_clipped_after_the_sum_or_before_it_as_the_reference_does() {
    let device = device(None);
    for (kind, clip_norm) in [(OptimizerKind::AdamW, Some(0.1)), (OptimizerKind::Lamb, None)] {
        let mut one = few(&device, kind, 1);
        one.options.optimizer.clip_norm = clip_norm;
        let setting = replicas(&one, 2);
        let (clip, kept) = (clip_norm.unwrap_or(f64::MAX), 1.0 - one.options.optimizer.beta_1);
        let check = |what: &str, distribution: Distribution, parts: usize, scale: f64| {
            let ran = train(&setting, distribution, vec![], vec![]).expect("trained");
            let (parts, loss) = own_gradients(&device, &one, &ran.start, parts);
            let want = sum_of_clipped(&parts, clip, scale);
            let most = want.iter().flatten().fold(0.0_f64, |most, g| most.max(g.abs()));
            for (moments, want) in ran.first_moments.iter().zip(&want) {
                for (m, g) in moments.data.iter().zip(want) {
                    let error = (f64::from(*m) - kept * g).abs() / (kept * most);
                    assert!(error < 1e-5, "{what}, {kind:?}, {}: {m}, not {}", moments.name, kept * g);
                }
            }
            let told = ran.trained.last.expect("progress");
            assert!((told.loss - loss).abs() < 1e-5, "{what}, {kind:?}: {told:?}, not {loss}");
            (norm(&want), told)
        };
        for explicit in [false, true] {
            let by = Distribution { explicit_allreduce: explicit, ..Distribution::in_parts(1) };
            let (length, whole) = check("the batch", by, 1, 1.0);
            let compat = |scale_loss| Distribution { compat: Some(SeedCompat { scale_loss }), ..by };
            let (summed, seed) = check("as the reference", compat(false), 2, 1.0);
            let (scaled, _) = check("with its scale_loss", compat(true), 2, 0.5);
            if clip_norm.is_some() {
                assert!((length - clip).abs() < 1e-6 && summed > 1.1 * clip, "{length}, {summed}");
            } else {
                assert!((summed / scaled - 2.0).abs() < 1e-3, "{summed}, {scaled}");
            }
            assert!((f64::from(seed.grad_norm) - summed).abs() < 1e-4 * summed, "{seed:?}, not {summed}");
            assert!(whole.loss != seed.loss, "parts that count alike show nothing");
        }
    }
}
