//! A run small enough to be made again and again.

use wgpu_bert::checkpoint::NamedTensor;
use wgpu_bert::data::{Corpus, Features, InstanceOptions, Tokenizer, create_instances, train_vocabulary};
use wgpu_bert::gpu::{DeviceOptions, Precision};
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::optimizer::{OptimizerKind, OptimizerOptions, Schedule};
use wgpu_bert::strategy::{Strategy, StrategyRequest, get_distribution_strategy};
use wgpu_bert::train::{Distribution, OutputBiasInit, PretrainOptions};

use crate::harness::Device;

#[derive(Clone)]
pub struct Setting {
    pub strategy: Strategy,
    pub options: PretrainOptions,
    pub tokenizer: Tokenizer,
    pub features: Features,
}

pub fn setting(device: &Device, kind: OptimizerKind) -> Setting {
    let survey = pollster::block_on(wgpu_bert::gpu::survey());
    let strategy = get_distribution_strategy(StrategyRequest::Auto, &survey, None).expect("strategy");
    let mut corpus = Corpus::default();
    let text = "the dog sees the cat\na cat sees the dog\nthe bird sings\n\n".repeat(12);
    corpus.add("text", text.as_bytes(), false).expect("text");
    let vocabulary = train_vocabulary(corpus.sentences(), 60, true).expect("vocabulary");
    let tokenizer = Tokenizer::new(vocabulary, true);
    let documents = corpus.encode(&tokenizer).expect("documents");
    let instances = InstanceOptions {
        max_seq_length: 14,
        max_predictions_per_seq: 3,
        dupe_factor: 2,
        ..InstanceOptions::default()
    };
    let features = create_instances(&documents, tokenizer.vocabulary(), &instances).expect("instances");
    let config = BertConfig {
        hidden_size: 8,
        num_hidden_layers: 1,
        intermediate_size: 12,
        max_position_embeddings: 16,
        ..BertConfig::preset("tiny", tokenizer.vocabulary().size()).expect("tiny")
    };
    let options = PretrainOptions {
        config,
        batch_size: 4,
        optimizer: OptimizerOptions::new(kind),
        schedule: Schedule { init_lr: 1e-2, end_lr: 0.0, total_steps: 17, warmup_steps: 3.0, power: 1.0 },
        steps_per_epoch: 17,
        num_eval_per_epoch: 1,
        use_next_sentence_label: true,
        steps_per_loop: 3,
        seed: 7,
        recompute: false,
        precision: Precision::default(),
        output_bias_init: OutputBiasInit::Zeros,
        device: DeviceOptions { family: Some(device.gpu.kernels.products), ..DeviceOptions::default() },
        distribution: Distribution::default(),
    };
    Setting { strategy, options, tokenizer, features }
}

pub fn bits(tensors: &[NamedTensor]) -> Vec<u32> {
    tensors.iter().flat_map(|tensor| tensor.data.iter().map(|v| v.to_bits())).collect()
}
