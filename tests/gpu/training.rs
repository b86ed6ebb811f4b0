//! Whole runs: the reference's recorded trajectory, the same bits again, nothing created in a step.

use wgpu_bert::checkpoint::{NamedTensor, TensorFile, names::read_parameters};
use wgpu_bert::data::{Batch, Features};
use wgpu_bert::gpu::{KernelFamily, Precision};
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::model::initializer::initial_values;
use wgpu_bert::model::parameters::ParameterTable;
use wgpu_bert::model::{BatchShape, StepKind, Task};
use wgpu_bert::optimizer::{LossScale, OptimizerKind, OptimizerOptions, Schedule};
use wgpu_bert::train::{StepMetrics, StepScalars, Trainer, dropout_key};

use crate::harness::{
    Device, FAMILIES, POISON, Random, assert_close, device, device_within, families, precisions,
};
use crate::recorded::{Recorded, limits};

/// The first steps of 150 of TensorFlow's own program, from its start, on its batches, each done in so many parts.
fn trajectory(run: &str, kind: OptimizerKind, parts: usize, steps: usize, precision: Precision) {
    let device = device(None);
    if !precisions(&device).contains(&precision) {
        return; // and was told so
    }
    let folder = Recorded("trajectory");
    let config = folder.config();
    let recorded: serde_json::Value =
        serde_json::from_slice(&folder.bytes("tf_trajectory.json")).expect("JSON");
    let recorded = &recorded["runs"][run];
    let number = |key: &str| recorded[key].as_f64().expect("a number");
    let schedule = Schedule {
        init_lr: number("init_lr"),
        end_lr: number("end_lr"),
        total_steps: number("total_steps") as u64,
        warmup_steps: number("warmup_steps"),
        power: 1.0,
    };
    let (bound, loss_scale) = match precision {
        Precision::F32 => (5e-4, None),
        Precision::F16 => (5e-2, Some(LossScale::Dynamic)),
    };
    let options = OptimizerOptions { loss_scale, ..OptimizerOptions::new(kind) };
    let shape = BatchShape { batch_size: 16 / parts, seq_length: 64, predictions: 10 };
    let task = match parts {
        1 => Task::Train(options),
        _ => Task::TrainInParts { optimizer: options, several: true },
    };
    let task = StepKind { task, precision, ..StepKind::gradients(true) };
    let mut trainer =
        pollster::block_on(Trainer::new(device.gpu.clone(), &config, shape, task)).expect("trainer");
    let start = folder.bytes("start.safetensors");
    let start = TensorFile::parse(&start, "start.safetensors").expect("start");
    trainer.write_weights(&read_parameters(&config, &start).expect("parameters"));

    let records = folder.features("records.safetensors");
    let mut worst = 0.0_f64;
    for (step, want) in recorded["steps"].as_array().expect("steps").iter().take(steps).enumerate() {
        let rows: Vec<usize> = (0..16).map(|j| (step * 16 + j) % records.count()).collect();
        let batch = |rows: &[usize]| Batch::new(&records, rows, &limits(&config)).expect("batch");
        let batches: Vec<_> = rows.chunks(16 / parts).map(batch).collect();
        let rates = options.step_words(&schedule, step as u64);
        let scalars = StepScalars { step: step as u64, rates, ..Default::default() };
        pollster::block_on(trainer.submit_parts(&batches, &scalars, true)).expect("step");
        let got = pollster::block_on(trainer.metrics()).expect("metrics")[0];
        for (key, got) in [
            ("lm_example_loss", got.lm_example_loss),
            ("next_sentence_loss", got.next_sentence_loss),
            ("loss", got.lm_example_loss + got.next_sentence_loss),
        ] {
            let error = (f64::from(got) - want[key].as_f64().expect("loss")).abs();
            assert!(error <= bound, "{run} step {}: {key} {got}, off by {error:.1e}", step + 1);
            worst = worst.max(error);
        }
        for (key, got) in [
            ("masked_lm_accuracy", got.masked_lm_accuracy),
            ("next_sentence_accuracy", got.next_sentence_accuracy),
        ] {
            // A close call may fall the other way: one prediction of at most 160, one label of 16.
            let error = (f64::from(got) - want[key].as_f64().expect("accuracy")).abs();
            assert!(error <= 0.07, "{run} step {}: {key} {got}, off by {error:.1e}", step + 1);
        }
    }
    println!("{run}: worst loss error {worst:.1e}");
    if steps < 150 || precision == Precision::F16 {
        return;
    }
    let end = folder.bytes(&format!("end_{run}_tf.safetensors"));
    let end = TensorFile::parse(&end, "end").expect("end");
    for tensor in pollster::block_on(trainer.read_arena(&trainer.step().weights)).expect("weights") {
        if tensor.name.ends_with("self.key.bias") {
            continue; // its gradient is rounding noise
        }
        let want = end.f32(&tensor.name).expect("end tensor");
        for (got, want) in tensor.data.iter().zip(&want.data) {
            assert!((got - want).abs() <= 1e-3, "{run}: {} ends at {got}, not {want}", tensor.name);
        }
    }
}

#[test]
fn the_reference_trajectory_with_adamw() {
    trajectory("adamw", OptimizerKind::AdamW, 1, 150, Precision::F32);
}

#[test]
fn the_reference_trajectory_in_fp16() {
    trajectory("adamw", OptimizerKind::AdamW, 1, 150, Precision::F16);
}

#[test]
fn its_start_in_fp16_with_lamb_and_two_parts() {
    trajectory("lamb", OptimizerKind::Lamb, 2, 40, Precision::F16);
}

#[test]
fn its_start_with_batches_in_two_parts() {
    trajectory("adamw", OptimizerKind::AdamW, 2, 40, Precision::F32);
}

#[test]
fn the_reference_trajectory_with_lamb() {
    trajectory("lamb", OptimizerKind::Lamb, 1, 150, Precision::F32);
}

pub fn small() -> (BertConfig, BatchShape) {
    let config = BertConfig {
        hidden_size: 24,
        num_attention_heads: 3,
        intermediate_size: 40,
        hidden_dropout_prob: 0.1,
        attention_probs_dropout_prob: 0.2,
        max_position_embeddings: 16,
        ..BertConfig::preset("tiny", 83).expect("tiny")
    };
    (config, BatchShape { batch_size: 4, seq_length: 13, predictions: 3 })
}

pub fn random_batch(config: &BertConfig, shape: BatchShape, random: &mut Random) -> Batch {
    let BatchShape { batch_size, seq_length, predictions } = shape;
    let mut below =
        |count: usize, limit: usize| -> Vec<u32> { (0..count).map(|_| random.below(limit) as u32).collect() };
    let features = Features {
        origin: "random".into(),
        seq_length,
        predictions,
        input_ids: below(shape.tokens(), config.vocab_size),
        input_mask: vec![1; shape.tokens()],
        segment_ids: below(shape.tokens(), 2),
        masked_lm_positions: below(shape.slots(), seq_length),
        masked_lm_ids: below(shape.slots(), config.vocab_size),
        masked_lm_weights: vec![1.0; shape.slots()],
        next_sentence_labels: below(batch_size, 2),
    };
    let rows: Vec<usize> = (0..batch_size).collect();
    Batch::new(&features, &rows, &limits(config)).expect("batch")
}

fn small_trainer(device: &Device, kind: OptimizerKind, dropout: bool) -> Trainer {
    let (mut config, shape) = small();
    if !dropout {
        (config.hidden_dropout_prob, config.attention_probs_dropout_prob) = (0.0, 0.0);
    }
    let task = StepKind { task: Task::Train(OptimizerOptions::new(kind)), ..StepKind::gradients(true) };
    started_trainer(device, &config, shape, task)
}

/// With weights to start from.
pub fn started_trainer(device: &Device, config: &BertConfig, shape: BatchShape, task: StepKind) -> Trainer {
    let trainer = pollster::block_on(Trainer::new(device.gpu.clone(), config, shape, task)).expect("trainer");
    let table = ParameterTable::new(config, true, u64::MAX);
    let values = initial_values(&table, config.initializer_range, 5);
    let named = |(p, data): (wgpu_bert::model::parameters::Parameter, Vec<f32>)| NamedTensor {
        name: p.name,
        shape: p.shape,
        data,
    };
    trainer.write_weights(&table.parameters.into_iter().zip(values).map(named).collect::<Vec<_>>());
    trainer
}

fn take_steps(trainer: &mut Trainer, count: u64, seed: u64) -> Vec<StepMetrics> {
    let (config, shape) = small();
    let schedule = Schedule { init_lr: 1e-3, end_lr: 0.0, total_steps: 100, warmup_steps: 3.0, power: 1.0 };
    let mut random = Random::new(9);
    let mut all = Vec::new();
    for step in 0..count {
        let batch = random_batch(&config, shape, &mut random);
        let rates = OptimizerOptions::new(OptimizerKind::AdamW).step_words(&schedule, step);
        let scalars = StepScalars { step, ring_slot: 0, dropout_key: dropout_key(seed, step), rates };
        pollster::block_on(trainer.submit(&batch, &scalars, true)).expect("step");
        all.extend(pollster::block_on(trainer.metrics()).expect("metrics"));
    }
    all
}

pub fn bits(trainer: &Trainer) -> Vec<u32> {
    let weights = pollster::block_on(trainer.read_arena(&trainer.step().weights)).expect("weights");
    weights.iter().flat_map(|tensor| tensor.data.iter().map(|v| v.to_bits())).collect()
}

#[test]
fn the_same_seed_ends_with_the_same_bits() {
    for family in FAMILIES {
        let device = device(family);
        for kind in [OptimizerKind::AdamW, OptimizerKind::Lamb] {
            let run = |seed: u64| {
                let mut trainer = small_trainer(&device, kind, true);
                take_steps(&mut trainer, 12, seed);
                bits(&trainer)
            };
            let first = run(1);
            assert_eq!(first, run(1), "{family:?} {kind:?}");
            assert_ne!(first, run(2), "dropout does not depend on the seed");
        }
    }
}

#[test]
fn gradients_in_fp16_are_those_in_fp32() {
    let (config, shape) = small();
    let batch = random_batch(&config, shape, &mut Random::new(19));
    for family in families() {
        let device = device(family);
        for rate in [0.0, 0.2] {
            let config = BertConfig {
                hidden_dropout_prob: rate,
                attention_probs_dropout_prob: rate,
                initializer_range: 0.2,
                ..config.clone()
            };
            let gradients = |precision| {
                let task = StepKind { precision, ..StepKind::gradients(true) };
                let mut trainer = started_trainer(&device, &config, shape, task);
                let weights =
                    pollster::block_on(trainer.read_arena(&trainer.step().weights)).expect("weights");
                trainer.program().fill(&device.gpu, POISON);
                for slab in &trainer.step().weights.slabs {
                    device.gpu.write(&trainer.program().range(*slab), &vec![0_u32; slab.len()]);
                }
                trainer.write_weights(&weights);
                let scalars = StepScalars { dropout_key: dropout_key(1, 0), ..Default::default() };
                pollster::block_on(trainer.submit(&batch, &scalars, false)).expect("step");
                let arena = trainer.step().gradients.as_ref().expect("gradients");
                pollster::block_on(trainer.read_arena(arena)).expect("gradients")
            };
            let all: Vec<_> = precisions(&device).into_iter().map(gradients).collect();
            let Some(half) = all.get(1) else { continue };
            let norm = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
            let wide =
                |tensor: &NamedTensor| -> Vec<f64> { tensor.data.iter().map(|v| f64::from(*v)).collect() };
            let total = norm(&all[0].iter().map(|tensor| norm(&wide(tensor))).collect::<Vec<_>>());
            let mut worst = 0.0_f64;
            for (want, got) in all[0].iter().zip(half) {
                let (want, got) = (wide(want), (&got.name, wide(got)));
                let error = norm(&want.iter().zip(&got.1).map(|(w, g)| w - g).collect::<Vec<_>>());
                // Of the keys' biases only rounding is left.
                let bound = 5e-3 * norm(&want) + 1e-4 * total;
                assert!(
                    error <= bound,
                    "{family:?}, dropout {rate}: {} is off by {error}, not {bound}",
                    got.0
                );
                worst = worst.max(error / bound);
            }
            println!("{family:?}, dropout {rate}: {worst:.2} of what is allowed");
            assert!(worst > 0.0, "fp16 is another precision");
        }
    }
}

#[test]
fn activations_that_are_computed_again_change_no_bit() {
    for family in families() {
        let device = device(family);
        precisions(&device).into_iter().for_each(|precision| computed_again(&device, family, precision));
    }
}

fn computed_again(device: &Device, family: KernelFamily, precision: Precision) {
    let (config, shape) = small();
    let config = BertConfig { num_hidden_layers: 3, ..config };
    let run = |recompute| {
        let task = Task::Train(OptimizerOptions::new(OptimizerKind::AdamW));
        let task = StepKind { task, recompute, precision, ..StepKind::gradients(true) };
        let mut trainer = started_trainer(device, &config, shape, task);
        // Nothing is read that was not written in the same step.
        let weights = pollster::block_on(trainer.read_arena(&trainer.step().weights)).expect("weights");
        trainer.program().fill(&device.gpu, POISON);
        let step = trainer.step();
        let moments = step.moments.iter().flatten().flat_map(|arena| &arena.slabs);
        let lasting =
            moments.chain(&step.weights.slabs).copied().chain(step.norm.iter().map(|norm| norm.tensor));
        for tensor in lasting {
            device.gpu.write(&trainer.program().range(tensor), &vec![0_u32; tensor.len()]);
        }
        trainer.write_weights(&weights);
        let metrics = take_steps(&mut trainer, 3, 1);
        (metrics, bits(&trainer), trainer.memory().bytes(), trainer.step().plan.dispatches())
    };
    let [(kept, kept_bits, kept_bytes, kept_dispatches), (again, again_bits, again_bytes, more)] =
        [false, true].map(run);
    assert_eq!(kept, again, "{family:?}");
    assert!(kept_bits == again_bits, "{family:?}: other weights");
    assert!(again_bytes < kept_bytes, "{again_bytes} of {kept_bytes} bytes");
    assert!(more > kept_dispatches, "two of three layers run again");
}

#[test]
fn small_limits_cut_arenas_into_slabs_and_change_nothing_else() {
    // The largest tensor besides the arenas takes 23,552 bytes: partial sums of LAMB.
    let (max_buffer_size, max_binding_size) = (64 << 10, 23 << 10);
    for kind in [OptimizerKind::AdamW, OptimizerKind::Lamb] {
        let train = |device: Device| {
            let mut trainer = small_trainer(&device, kind, true);
            let metrics = take_steps(&mut trainer, 3, 1);
            let weights = pollster::block_on(trainer.read_arena(&trainer.step().weights)).expect("weights");
            (metrics, weights, trainer.step().weights.slabs.len())
        };
        let (metrics, weights, slabs) = train(device(None));
        let (cut_metrics, cut_weights, cut_slabs) = train(device_within(max_buffer_size, max_binding_size));
        assert!(slabs == 1 && cut_slabs > 1, "{cut_slabs} slabs");
        for (whole, cut) in metrics.iter().zip(&cut_metrics) {
            assert_eq!(whole.lm_example_loss, cut.lm_example_loss, "{kind:?}");
            // The sum of squares has another order.
            assert!((whole.grad_norm / cut.grad_norm - 1.0).abs() < 1e-6, "{kind:?}: {whole:?}, {cut:?}");
        }
        for (whole, cut) in weights.iter().zip(&cut_weights) {
            let whole_data: Vec<_> = whole.data.iter().map(|value| f64::from(*value)).collect();
            assert_close(&whole.name, &cut.data, &whole_data, 1e-6);
        }
    }
}

/// The gradients with dropout are those of the loss with the same masks: moving along them lowers that loss by what
/// they say, for the masks of one key.
#[test]
fn dropout_gradients_belong_to_the_same_masks() {
    for family in FAMILIES {
        for next_sentence in [true, false] {
            slope_is_what_gradients_say(&device(family), next_sentence);
        }
    }
}

fn slope_is_what_gradients_say(device: &Device, next_sentence: bool) {
    let (config, shape) = small();
    let kind = StepKind::gradients(next_sentence);
    let mut trainer =
        pollster::block_on(Trainer::new(device.gpu.clone(), &config, shape, kind)).expect("trainer");
    let table = ParameterTable::new(&config, next_sentence, u64::MAX);
    // Large weights, so that a step changes the loss by much more than rounding does.
    let values = initial_values(&table, 0.3, 5);
    let named = |(p, data): (wgpu_bert::model::parameters::Parameter, Vec<f32>)| NamedTensor {
        name: p.name,
        shape: p.shape,
        data,
    };
    let weights: Vec<_> = table.parameters.into_iter().zip(values).map(named).collect();
    let batch = random_batch(&config, shape, &mut Random::new(4));
    let mut loss = |weights: &[NamedTensor], key: u64| {
        trainer.write_weights(weights);
        let scalars = StepScalars { dropout_key: key, ..Default::default() };
        pollster::block_on(trainer.submit(&batch, &scalars, true)).expect("step");
        let metrics = pollster::block_on(trainer.metrics()).expect("metrics")[0];
        let arena = trainer.step().gradients.as_ref().expect("gradients");
        let gradients = pollster::block_on(trainer.read_arena(arena)).expect("gradients");
        assert_eq!(metrics.next_sentence_loss > 0.0, next_sentence);
        assert_eq!(gradients.iter().any(|g| g.name.contains("pooler")), next_sentence, "no head is built");
        (f64::from(metrics.lm_example_loss + metrics.next_sentence_loss), gradients)
    };
    let (at_start, gradients) = loss(&weights, 77);
    let (other_masks, _) = loss(&weights, 78);
    assert!((at_start - other_masks).abs() > 1e-3, "another key must drop other elements");
    let squares = |g: &NamedTensor| g.data.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
    let squared_norm: f64 = gradients.iter().map(squares).sum();
    // Central difference along the gradient: (L(w + hg) - L(w - hg)) / 2h = |g|².
    let h = 2e-3 / squared_norm.sqrt();
    let moved = |sign: f64| -> Vec<NamedTensor> {
        let mut moved = weights.clone();
        for (tensor, gradient) in moved.iter_mut().zip(&gradients) {
            for (w, g) in tensor.data.iter_mut().zip(&gradient.data) {
                *w += (sign * h * f64::from(*g)) as f32;
            }
        }
        moved
    };
    let difference = (loss(&moved(1.0), 77).0 - loss(&moved(-1.0), 77).0) / (2.0 * h);
    let error = (difference / squared_norm - 1.0).abs();
    assert!(
        error < 0.01,
        "{:?}: slope {difference}, gradients say {squared_norm}",
        device.gpu.kernels.products
    );
}

#[test]
fn a_step_creates_nothing() {
    let device = device(KernelFamily::Register);
    for kind in [OptimizerKind::AdamW, OptimizerKind::Lamb] {
        let mut trainer = small_trainer(&device, kind, true);
        take_steps(&mut trainer, 3, 1);
        let (ours, theirs) = (device.gpu.created(), live_objects(&device));
        take_steps(&mut trainer, 5, 1);
        assert_eq!(device.gpu.created(), ours, "{kind:?}: objects asked for");
        assert_eq!(live_objects(&device), theirs, "{kind:?}: objects alive in the driver");
    }
}

/// Buffers, bind groups, pipelines and allocations as the graphics layer itself counts them.
fn live_objects(device: &Device) -> [isize; 5] {
    let counters = device.gpu.device.get_internal_counters().hal;
    let count = [
        counters.buffers.read(),
        counters.bind_groups.read(),
        counters.compute_pipelines.read(),
        counters.shader_modules.read(),
        counters.buffer_memory.read(),
    ];
    assert!(count[0] > 0, "the counters are not counting");
    count
}
