//! A pre-training step of BERT in burn, on its wgpu backend:
//!
//! ```text
//! cargo run --release [--no-default-features] -- MODEL_SIZE VOCAB_SIZE STEPS
//! ```
//!
//! Without default features burn neither tunes nor fuses kernels. Masked positions alone are projected onto the vocabulary.
//! Forward with dropout, both losses, backward, clipping to norm 1, AdamW; 8 sequences of 128 tokens with 20 predictions,
//! padded from token 120 on. Prints one JSON object, and what each step took to stderr.

use std::time::Instant;

use burn::grad_clipping::GradientClippingConfig;
use burn::module::Param;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{
    Dropout, DropoutConfig, Embedding, EmbeddingConfig, Initializer, LayerNorm, LayerNormConfig, Linear,
    LinearConfig,
};
use burn::optim::{AdamWConfig, GradientsParams, Optimizer};
use burn::prelude::*;
use burn::tensor::{Bool, Int, activation};

const SEQUENCES: usize = 8;
const TOKENS: usize = 128;
const PREDICTIONS: usize = 20;
const LENGTH: usize = 120;
const WARMUP_STEPS: usize = 2;

#[derive(Module, Debug)]
struct Bert {
    word: Embedding,
    position: Embedding,
    token_type: Embedding,
    norm: LayerNorm,
    dropout: Dropout,
    encoder: TransformerEncoder,
    pooler: Linear,
    transform: Linear,
    transform_norm: LayerNorm,
    output_bias: Param<Tensor<1>>,
    next_sentence: Linear,
}

struct Batch {
    ids: Tensor<2, Int>,
    types: Tensor<2, Int>,
    positions: Tensor<2, Int>,
    padding: Tensor<2, Bool>,
    masked_rows: Tensor<1, Int>,
    masked_ids: Tensor<1, Int>,
    next_labels: Tensor<1, Int>,
}

impl Bert {
    fn new(vocab_size: usize, [layers, hidden, heads, intermediate]: [usize; 4], device: &Device) -> Self {
        let start = Initializer::Normal { mean: 0.0, std: 0.02 };
        let embedding =
            |rows| EmbeddingConfig::new(rows, hidden).with_initializer(start.clone()).init(device);
        let linear = |outputs| LinearConfig::new(hidden, outputs).init(device);
        let norm = || LayerNormConfig::new(hidden).with_epsilon(1e-12).init(device);
        Self {
            word: embedding(vocab_size),
            position: embedding(512),
            token_type: embedding(2),
            norm: norm(),
            dropout: DropoutConfig::new(0.1).init(),
            encoder: TransformerEncoderConfig::new(hidden, intermediate, heads, layers).init(device),
            pooler: linear(hidden),
            transform: linear(hidden),
            transform_norm: norm(),
            output_bias: Param::from_tensor(Tensor::zeros([vocab_size], device)),
            next_sentence: linear(2),
        }
    }

    fn loss(&self, batch: &Batch, device: &Device) -> Tensor<1> {
        let embedded = self.word.forward(batch.ids.clone())
            + self.position.forward(batch.positions.clone())
            + self.token_type.forward(batch.types.clone());
        let embedded = self.dropout.forward(self.norm.forward(embedded));
        let input = TransformerEncoderInput::new(embedded).mask_pad(batch.padding.clone());
        let output = self.encoder.forward(input);
        let hidden = output.dims()[2];
        let first = output.clone().slice([0..SEQUENCES, 0..1, 0..hidden]).reshape([SEQUENCES, hidden]);
        let pooled = self.dropout.forward(activation::tanh(self.pooler.forward(first)));
        let masked = output.reshape([SEQUENCES * TOKENS, hidden]).select(0, batch.masked_rows.clone());
        let masked = self.transform_norm.forward(activation::gelu(self.transform.forward(masked)));
        let logits = masked.matmul(self.word.weight.val().transpose()) + self.output_bias.val().unsqueeze();
        let cross_entropy = CrossEntropyLossConfig::new().init(device);
        cross_entropy.forward(logits, batch.masked_ids.clone())
            + cross_entropy.forward(self.next_sentence.forward(pooled), batch.next_labels.clone())
    }
}

impl Batch {
    fn random(vocab_size: usize, device: &Device) -> Self {
        // A linear congruential generator, since any tokens will do.
        let mut state = 1u64;
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % limit as u64) as i32
        };
        let column = |i: usize| i % TOKENS;
        let tokens = 0..SEQUENCES * TOKENS;
        let ids: Vec<i32> = tokens.clone().map(|_| below(vocab_size)).collect();
        let types: Vec<i32> = tokens.clone().map(|i| i32::from(column(i) >= TOKENS / 2)).collect();
        let positions: Vec<i32> = tokens.clone().map(|i| column(i) as i32).collect();
        let padding: Vec<bool> = tokens.map(|i| column(i) >= LENGTH).collect();
        let row = |i: usize| (i / PREDICTIONS * TOKENS + i % PREDICTIONS * (LENGTH / PREDICTIONS)) as i32;
        let masked_rows: Vec<i32> = (0..SEQUENCES * PREDICTIONS).map(row).collect();
        let masked_ids: Vec<i32> = masked_rows.iter().map(|_| below(vocab_size)).collect();
        let next_labels: Vec<i32> = (0..SEQUENCES).map(|_| below(2)).collect();
        let matrix = |values| Tensor::from_data(TensorData::new(values, [SEQUENCES, TOKENS]), device);
        let list = |values: Vec<i32>| {
            let len = [values.len()];
            Tensor::from_data(TensorData::new(values, len), device)
        };
        Self {
            ids: matrix(ids),
            types: matrix(types),
            positions: matrix(positions),
            padding: Tensor::from_data(TensorData::new(padding, [SEQUENCES, TOKENS]), device),
            masked_rows: list(masked_rows),
            masked_ids: list(masked_ids),
            next_labels: list(next_labels),
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [size, vocab_size, steps] = &arguments[..] else { panic!("MODEL_SIZE VOCAB_SIZE STEPS") };
    let sizes = match size.as_str() {
        "tiny" => [2, 128, 2, 512],
        "mini" => [4, 256, 4, 1024],
        "small" => [4, 512, 8, 2048],
        other => panic!("no model is called {other}"),
    };
    let vocab_size = vocab_size.parse().expect("a number of tokens");
    let steps: usize = steps.parse().expect("a number of steps");

    let device = Device::wgpu(Default::default()).autodiff();
    let mut model = Bert::new(vocab_size, sizes, &device);
    let clipping = Some(GradientClippingConfig::Norm(1.0));
    let mut optimizer =
        AdamWConfig::new().with_epsilon(1e-6).with_weight_decay(0.01).with_grad_clipping(clipping).init();
    let batch = Batch::random(vocab_size, &device);
    let (mut times, mut loss_value) = (Vec::new(), 0f32);
    for step in 0..WARMUP_STEPS + steps {
        let start = Instant::now();
        let loss = model.loss(&batch, &device);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-4, model, gradients);
        loss_value = loss.into_scalar();
        device.sync().expect("the device has done its work");
        let time = start.elapsed().as_secs_f64() * 1e3;
        eprintln!("step {step}: {time:.0} ms, loss {loss_value:.4}");
        times.push(time);
    }
    let mut times = times.split_off(WARMUP_STEPS);
    times.sort_by(f64::total_cmp);
    let tuned = if cfg!(feature = "tuned") { "tuned and fused" } else { "neither tuned nor fused" };
    let report = serde_json::json!({
        "name": format!("burn, {tuned}"),
        "step_ms": times[times.len() / 2],
        "min_step_ms": times[0],
        "loss": f64::from(loss_value),
    });
    println!("{report}");
}
