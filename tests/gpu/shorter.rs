//! Steps on short sequences: the padding is left out, and nothing else is.

use wgpu_bert::checkpoint::NamedTensor;
use wgpu_bert::data::{Batch, Features, PythonRandom};
use wgpu_bert::gpu::KernelFamily;
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::model::{BatchShape, StepKind, StepPlan, Task};
use wgpu_bert::optimizer::{LossScale, OptimizerKind, OptimizerOptions};
use wgpu_bert::train::{StepScalars, Trainer, dropout_key};

use crate::distribution::{assert_same, long, parts, run};
use crate::harness::{FAMILIES, POISON, device};
use crate::mirrored::replicas;
use crate::recorded::limits;
use crate::small_run::{Setting, setting};
use crate::training::{small, started_trainer};

const SHAPE: BatchShape = BatchShape { batch_size: 4, seq_length: 100, predictions: 13 };

fn config() -> BertConfig {
    BertConfig { max_position_embeddings: 128, initializer_range: 0.2, ..small().0 }
}

/// Examples of so many tokens each, padded to the shape's length.
fn examples(lengths: &[usize]) -> Features {
    let mut rng = PythonRandom::new(3);
    let BatchShape { seq_length, predictions, .. } = SHAPE;
    let mut features = Features { origin: "test".into(), seq_length, predictions, ..Features::default() };
    for &length in lengths {
        for position in 0..seq_length {
            let is_token = position < length;
            features.input_ids.push(if is_token { rng.below(83) as u32 } else { 0 });
            features.segment_ids.push(u32::from(is_token && position > length / 2));
            features.input_mask.push(is_token.into());
        }
        for slot in 0..predictions {
            let counts = slot < length * predictions / seq_length;
            features.masked_lm_positions.push(if counts { rng.below(length) as u32 } else { 0 });
            features.masked_lm_ids.push(rng.below(83) as u32);
            features.masked_lm_weights.push(counts.into());
        }
        features.next_sentence_labels.push(rng.below(2) as u32);
    }
    features
}

fn batch(config: &BertConfig, lengths: &[usize]) -> Batch {
    let rows: Vec<usize> = (0..lengths.len()).collect();
    Batch::new(&examples(lengths), &rows, &limits(config)).expect("batch")
}

/// The losses of a step whose buffers held NaN, and the gradients it leaves.
fn step(trainer: &mut Trainer, batches: &[Batch]) -> ([f32; 4], Vec<NamedTensor>) {
    let weights = pollster::block_on(trainer.read_arena(&trainer.step().weights)).expect("weights");
    trainer.program().fill(trainer.gpu(), POISON);
    let step = trainer.step();
    let written =
        step.weights.slabs.iter().chain(step.moments.iter().flatten().flat_map(|arena| &arena.slabs));
    for slab in written.chain(step.norm.iter().map(|norm| &norm.tensor)) {
        trainer.gpu().write(&trainer.program().range(*slab), &vec![0_u32; slab.len()]);
    }
    trainer.write_weights(&weights);
    let scalars = StepScalars { dropout_key: dropout_key(1, 0), ..Default::default() };
    pollster::block_on(trainer.submit_parts(batches, &scalars, true)).expect("step");
    let metrics = pollster::block_on(trainer.metrics()).expect("metrics")[0];
    let step = trainer.step();
    let gradients =
        step.parts.as_ref().map_or(step.gradients.as_ref().expect("gradients"), |sums| &sums.gradients);
    let gradients = pollster::block_on(trainer.read_arena(gradients)).expect("gradients");
    let told = [metrics.lm_example_loss, metrics.masked_lm_accuracy];
    ([told[0], told[1], metrics.next_sentence_loss, metrics.next_sentence_accuracy], gradients)
}

#[track_caller]
fn assert_alike(what: &str, got: &([f32; 4], Vec<NamedTensor>), want: &([f32; 4], Vec<NamedTensor>)) {
    for (got, want) in got.0.iter().zip(want.0) {
        assert!((got - want).abs() <= 2e-6 * want.abs(), "{what}: {got} instead of {want}");
    }
    for (got, want) in got.1.iter().zip(&want.1) {
        let largest = want.data.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
        for (x, y) in got.data.iter().zip(&want.data) {
            // Of the keys' biases only rounding is left.
            assert!((x - y).abs() <= 2e-6 * largest.max(0.05), "{what}: {} has {x} instead of {y}", got.name);
        }
    }
}

#[test]
fn a_step_leaves_out_what_no_sequence_has() {
    let config = config();
    for family in FAMILIES {
        let device = device(family);
        let optimizer = OptimizerOptions { clip_norm: None, ..OptimizerOptions::new(OptimizerKind::AdamW) };
        let whole = StepKind::gradients(true);
        let mut untrimmed = started_trainer(&device, &config, SHAPE, whole);
        let train = |task, recompute| {
            let kind = StepKind { task, recompute, ..whole };
            started_trainer(&device, &config, SHAPE, kind)
        };
        let mut trainers = [train(Task::Train(optimizer), false), train(Task::Train(optimizer), true)];
        for (lengths, computed) in
            [([20, 32, 7, 9], 32_usize), ([33, 3, 64, 9], 64), ([70, 3, 3, 9], 96), ([9, 98, 9, 9], 100)]
        {
            let batch = batch(&config, &lengths);
            let want = step(&mut untrimmed, std::slice::from_ref(&batch));
            for trainer in &mut trainers {
                let shape = trainer.shape_of(&batch);
                let predictions = (computed * 13).div_ceil(100);
                assert_eq!(shape, BatchShape { seq_length: computed, predictions, ..SHAPE });
                let got = step(trainer, std::slice::from_ref(&batch));
                assert_alike(&format!("{family:?}, {computed} tokens"), &got, &want);
            }
        }
    }
}

#[test]
fn parts_of_other_lengths_make_the_batch() {
    let config = config();
    let device = device(None);
    let optimizer = OptimizerOptions { clip_norm: None, ..OptimizerOptions::new(OptimizerKind::AdamW) };
    let lengths = [20, 32, 7, 9, 90, 8, 100, 12];
    let whole = BatchShape { batch_size: 8, ..SHAPE };
    let mut untrimmed = started_trainer(&device, &config, whole, StepKind::gradients(true));
    let want = step(&mut untrimmed, &[batch(&config, &lengths)]);
    let kind =
        StepKind { task: Task::TrainInParts { optimizer, several: true }, ..StepKind::gradients(true) };
    let mut trainer = started_trainer(&device, &config, SHAPE, kind);
    let all = examples(&lengths);
    let part = |rows: [usize; 4]| Batch::new(&all, &rows, &limits(&config)).expect("batch");
    let batches = [part([0, 1, 2, 3]), part([4, 5, 6, 7])];
    assert_eq!([0, 1].map(|part: usize| trainer.shape_of(&batches[part]).seq_length), [32, 100]);
    assert_alike("in parts", &step(&mut trainer, &batches), &want);
}

/// The same examples with padding up to 64 tokens.
fn padded(setting: &Setting, dropout: f64) -> Setting {
    let Features { seq_length, predictions, .. } = setting.features;
    let mut setting = setting.clone();
    let config = &mut setting.options.config;
    config.max_position_embeddings = 64;
    (config.hidden_dropout_prob, config.attention_probs_dropout_prob) = (dropout, dropout);
    let features = &mut setting.features;
    (features.seq_length, features.predictions) = (64, 12);
    fn pad<T: Copy + Default>(x: &mut Vec<T>, from: usize, to: usize) {
        *x = x
            .chunks(from)
            .flat_map(|row| row.iter().copied().chain((from..to).map(|_| T::default())))
            .collect();
    }
    for x in [&mut features.input_ids, &mut features.input_mask, &mut features.segment_ids] {
        pad(x, seq_length, 64);
    }
    for x in [&mut features.masked_lm_positions, &mut features.masked_lm_ids] {
        pad(x, predictions, 12);
    }
    pad(&mut features.masked_lm_weights, predictions, 12);
    setting
}

#[test]
fn a_run_on_padded_examples_is_the_same_however_it_is_laid_out() {
    let device = device(None);
    let setting = padded(&long(setting(&device, OptimizerKind::AdamW)), 0.1);
    let whole = run(&setting, Default::default());
    for (what, got) in [
        ("2 parts", run(&setting, parts(2))),
        ("2 replicas", run(&replicas(&setting, 2), Default::default())),
        ("2 replicas of 2 parts", run(&replicas(&setting, 2), parts(2))),
    ] {
        assert_same(what, &got, &whole);
    }
}

#[test]
fn shorter_steps_share_the_buffers_of_the_whole() {
    let config = BertConfig::preset("mini", 8192).expect("mini");
    let shape = BatchShape { batch_size: 8, seq_length: 128, predictions: 20 };
    let optimizer = OptimizerOptions {
        loss_scale: Some(LossScale::Dynamic),
        ..OptimizerOptions::new(OptimizerKind::Lamb)
    };
    for family in
        [KernelFamily::Register, KernelFamily::Subgroup, KernelFamily::Tile, KernelFamily::Workgroup]
    {
        for task in [Task::Train(optimizer), Task::TrainInParts { optimizer, several: true }] {
            let kind = StepKind { task, ..StepKind::gradients(true) };
            let step = StepPlan::new(&config, shape, kind, family, 128 << 20);
            let lengths: Vec<_> = step.shorter.iter().map(|shorter| shorter.shape.seq_length).collect();
            assert_eq!(lengths, [32, 64, 96], "{family:?}");
        }
    }
}
