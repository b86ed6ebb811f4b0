//! A model small enough to print: weights by formula, and numbers computed in f64 by an independent program.

use wgpu_bert::checkpoint::NamedTensor;
use wgpu_bert::data::{Batch, BatchLimits, Features};
use wgpu_bert::model::config::{Activation, BertConfig};
use wgpu_bert::model::parameters::parameter_shapes;
use wgpu_bert::model::{BatchShape, StepKind, Task};
use wgpu_bert::optimizer::{OptimizerKind, OptimizerOptions, Schedule};
use wgpu_bert::train::{StepMetrics, StepScalars, Trainer};

use crate::harness::{Device, FAMILIES, device};

fn config() -> BertConfig {
    BertConfig {
        vocab_size: 20,
        hidden_size: 8,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        intermediate_size: 16,
        hidden_act: Activation::GeluTanh,
        hidden_dropout_prob: 0.0,
        attention_probs_dropout_prob: 0.0,
        max_position_embeddings: 16,
        type_vocab_size: 2,
        initializer_range: 0.02,
        layer_norm_eps: 1e-12,
    }
}

/// Parameter k has the values of a sine, flat in the layout `[in, out]`; ours is `[out, in]`.
fn weights() -> Vec<NamedTensor> {
    let value = |k: usize, i: usize, name: &str| {
        let angle = 1.3 * (k + 1) as f64 + 2.1 * i as f64;
        match name {
            name if name.ends_with("bias") => 0.1 * angle.cos(),
            name if name.ends_with("LayerNorm.weight") => 1.0 + 0.1 * angle.sin(),
            _ => 0.4 * angle.sin(),
        }
    };
    let tensor = |(k, (name, shape)): (usize, (String, Vec<usize>))| {
        let transposed = shape.len() == 2 && !name.contains("embeddings");
        let (outputs, inputs) = (shape[0], shape.get(1).copied().unwrap_or(1));
        let index = |at: usize| if transposed { at % inputs * outputs + at / inputs } else { at };
        let data = (0..outputs * inputs).map(|at| value(k, index(at), &name) as f32).collect();
        NamedTensor { name, shape, data }
    };
    parameter_shapes(&config(), true).into_iter().enumerate().map(tensor).collect()
}

fn batch() -> Batch {
    let features = Features {
        origin: "oracle".into(),
        seq_length: 6,
        predictions: 3,
        input_ids: vec![2, 5, 7, 3, 9, 3, 2, 11, 4, 3, 0, 0],
        input_mask: vec![1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0],
        segment_ids: vec![0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0],
        masked_lm_positions: vec![1, 4, 0, 2, 0, 0],
        masked_lm_ids: vec![6, 9, 0, 13, 0, 0],
        masked_lm_weights: vec![1.0, 1.0, 0.0, 1.0, 0.0, 0.0],
        next_sentence_labels: vec![0, 1],
    };
    let limits = BatchLimits { vocab_size: 20, type_vocab_size: 2, max_position_embeddings: 16 };
    Batch::new(&features, &[0, 1], &limits).expect("batch")
}

fn trainer(device: &Device, task: Task) -> Trainer {
    let shape = BatchShape { batch_size: 2, seq_length: 6, predictions: 3 };
    let kind = StepKind { task, ..StepKind::predict(true) };
    let trainer =
        pollster::block_on(Trainer::new(device.gpu.clone(), &config(), shape, kind)).expect("trainer");
    trainer.write_weights(&weights());
    trainer
}

fn step(trainer: &mut Trainer, scalars: &StepScalars) -> StepMetrics {
    pollster::block_on(trainer.submit(&batch(), scalars, true)).expect("step");
    pollster::block_on(trainer.metrics()).expect("metrics")[0]
}

#[track_caller]
fn close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    for (g, w) in got.iter().zip(want) {
        assert!(
            (f64::from(*g) - w).abs() <= tolerance * w.abs().max(1.0),
            "{what}: got {got:?}, want {want:?}"
        );
    }
}

#[test]
fn forward() {
    for family in FAMILIES {
        let device = device(family);
        let mut model = trainer(&device, Task::Evaluate);
        let metrics = step(&mut model, &StepScalars::default());
        let read = |tensor| pollster::block_on(model.read(tensor)).expect("read");
        let output = read(model.step().sequence_output);
        close("sequence output", &output[..4], &[-1.3043132, 1.08213182, 0.12586594, -1.29108689], 2e-6);
        let pooled = read(model.step().pooled_output.expect("pooled"));
        close("pooled", &pooled[..4], &[0.63340334, -0.98491923, 0.9374433, 0.60866245], 2e-6);
        let nsp = read(model.step().nsp_logits.expect("logits"));
        close("nsp logits", &nsp, &[0.48299553, -1.83004464, 0.41101294, -1.78437721], 2e-6);
        let mlm = read(model.step().mlm_logits);
        close(
            "mlm logits",
            &mlm[..5],
            &[-1.67662927, -0.3458769, 1.98657289, -1.47890816, -0.62084969],
            2e-6,
        );
        close("mlm loss", &[metrics.lm_example_loss], &[4.379877073], 2e-6);
        close("nsp loss", &[metrics.next_sentence_loss], &[1.197649241], 2e-6);
        assert_eq!((metrics.masked_lm_accuracy, metrics.next_sentence_accuracy), (0.0, 0.5));
    }
}

#[test]
fn gradients() {
    // L2 norms by parameter; of the key biases (8 and 24) only rounding is left.
    let norms = [
        10.4117782,
        11.2836655,
        12.5829428,
        5.54662098,
        8.02097274,
        1.12041041,
        0.229872006,
        1.39427785,
        0.0,
        9.0973803,
        3.55308077,
        9.63971159,
        2.36267855,
        1.94010061,
        2.97766337,
        4.06327293,
        1.29768618,
        2.09077025,
        0.709339333,
        0.380012411,
        0.731976232,
        1.41038184,
        0.352616332,
        1.31705532,
        0.0,
        0.663946598,
        0.367846238,
        0.772797285,
        0.259566525,
        0.146730946,
        0.576373292,
        0.518189999,
        0.227972062,
        1.38120314,
        0.179991576,
        1.07829546,
        0.771138069,
        0.953876008,
        0.325548612,
        1.35299259,
        0.572605212,
        0.588813472,
        1.56381875,
        0.718718418,
        1.02537217,
        0.764017019,
    ];
    for family in FAMILIES {
        let device = device(family);
        let mut model = trainer(&device, Task::Gradients);
        step(&mut model, &StepScalars::default());
        let arena = model.step().gradients.as_ref().expect("gradients");
        let gradients = pollster::block_on(model.read_arena(arena)).expect("read");
        assert_eq!(gradients.len(), norms.len());
        let mut total = 0.0;
        for (gradient, want) in gradients.iter().zip(norms) {
            let norm = gradient.data.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            assert!((norm - want).abs() <= 1e-5 * want + 1e-6, "{}: {norm}, want {want}", gradient.name);
            total += norm * norm;
        }
        assert!((total.sqrt() - 27.20773805543679).abs() < 1e-4, "global norm {}", total.sqrt());
        let first = |k: usize| gradients[k].data[0];
        let firsts = [first(0), first(2), first(9), first(17), first(37), first(41)];
        close(
            "first elements",
            &firsts,
            &[0.0240185922, -2.55348024, -1.04859738, -0.0350012363, -0.227040331, 0.0406368453],
            5e-6,
        );
    }
}

#[test]
fn three_updates() {
    let constant = Schedule { init_lr: 1e-3, end_lr: 1e-3, total_steps: 10, warmup_steps: 0.0, power: 1.0 };
    let runs = [
        (OptimizerKind::AdamW, [5.577526314, 4.991099355, 4.531653572, 4.431718135]),
        (OptimizerKind::Lamb, [5.577526314, 5.345197322, 5.068781543, 4.807090410]),
    ];
    for family in FAMILIES {
        let device = device(family);
        for (kind, losses) in runs {
            let options = OptimizerOptions::new(kind);
            let mut model = trainer(&device, Task::Train(options));
            let mut norms = Vec::new();
            for (index, loss) in losses.into_iter().enumerate() {
                let rates = options.step_words(&constant, index as u64);
                let metrics =
                    step(&mut model, &StepScalars { step: index as u64, rates, ..Default::default() });
                let total = metrics.lm_example_loss + metrics.next_sentence_loss;
                close(&format!("{kind:?} loss before step {index}"), &[total], &[loss], 2e-5);
                norms.push(metrics.grad_norm);
                let words = pollster::block_on(model.read_arena(&model.step().weights)).expect("read");
                if kind == OptimizerKind::AdamW && index == 2 {
                    close("word[0]", &words[0].data[..3], &[0.38256503, -0.10503544, -0.27930882], 1e-5);
                }
            }
            if kind == OptimizerKind::AdamW {
                close("norms", &norms[..3], &[27.207738, 36.488546, 14.193956], 1e-4);
            }
        }
    }
}
