//! What a run uses where the user says nothing. Plain data.

use super::OutputBiasInit;
use crate::model::config::{Activation, BertConfig};

/// Values of a run's options.
pub struct Recipe {
    /// The model.
    pub model: Model,
    /// Of a vocabulary trained from the text.
    pub vocab_size: usize,
    /// Tokens of an example.
    pub max_seq_length: usize,
    /// `None`: as many as the share of masks asks for.
    pub max_predictions_per_seq: Option<usize>,
    /// Share of the tokens that are masked.
    pub masked_lm_prob: f64,
    /// How often the text is gone through.
    pub dupe_factor: usize,
    /// Tokens of an example's first segment; `None`: whole sentences.
    pub first_segment_tokens: Option<(usize, usize)>,
    /// Examples in a step.
    pub train_batch_size: usize,
    /// Steps of an epoch.
    pub num_steps_per_epoch: usize,
    /// Epochs.
    pub num_train_epochs: usize,
    /// Steps between two measurements.
    pub steps_per_loop: usize,
    /// At the end of the warm-up.
    pub learning_rate: f64,
    /// Its length.
    pub warmup: Warmup,
    /// How much of the second moments a step keeps.
    pub beta_2: f64,
    /// Where the output bias starts.
    pub output_bias_init: OutputBiasInit,
}

/// Which model a recipe trains.
pub enum Model {
    /// One of Google's sizes.
    Preset(&'static str),
    /// The vocabulary decides `vocab_size`, and a longer sequence raises `max_position_embeddings`.
    Sizes(BertConfig),
}

/// How long the learning rate grows.
pub enum Warmup {
    /// So many steps.
    Steps(f64),
    /// Of the whole run.
    Share(f64),
}

/// The reference's defaults. It has none for the model and the vocabulary, reads its metrics every step, and writes
/// to a temporary folder.
pub const REFERENCE: Recipe = Recipe {
    model: Model::Preset("tiny"),
    vocab_size: 8192,
    max_seq_length: 128,
    max_predictions_per_seq: Some(20),
    masked_lm_prob: 0.15,
    dupe_factor: 10,
    first_segment_tokens: None,
    train_batch_size: 32,
    num_steps_per_epoch: 1000,
    num_train_epochs: 3,
    steps_per_loop: 10,
    learning_rate: 5e-5,
    warmup: Warmup::Steps(10_000.0),
    beta_2: 0.999,
    output_bias_init: OutputBiasInit::Zeros,
};

/// The bundled corpus on a processor, in about two minutes: one narrow layer, short examples, many masks and a high
/// learning rate learn most within so little work.
pub const SOFTWARE: Recipe = Recipe {
    model: Model::Sizes(BertConfig {
        vocab_size: 1024,
        hidden_size: 32,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        intermediate_size: 128,
        hidden_act: Activation::GeluTanh,
        hidden_dropout_prob: 0.0,
        attention_probs_dropout_prob: 0.0,
        max_position_embeddings: 16,
        type_vocab_size: 2,
        initializer_range: 0.02,
        layer_norm_eps: 1e-12,
    }),
    vocab_size: 1024,
    max_seq_length: 16,
    max_predictions_per_seq: None,
    masked_lm_prob: 0.3,
    dupe_factor: 50,
    first_segment_tokens: Some((3, 12)),
    train_batch_size: 64,
    num_steps_per_epoch: 4800,
    num_train_epochs: 1,
    steps_per_loop: 20,
    learning_rate: 1.5e-2,
    warmup: Warmup::Share(0.1),
    beta_2: 0.98,
    output_bias_init: OutputBiasInit::Unigram,
};

/// The bundled corpus on a GPU.
pub const GPU: Recipe = Recipe {
    model: Model::Preset("tiny"),
    vocab_size: 4096,
    max_seq_length: 64,
    max_predictions_per_seq: None,
    masked_lm_prob: 0.3,
    dupe_factor: 20,
    first_segment_tokens: Some((3, 48)),
    train_batch_size: 64,
    num_steps_per_epoch: 10_000,
    num_train_epochs: 1,
    steps_per_loop: 50,
    learning_rate: 1e-3,
    warmup: Warmup::Share(0.1),
    beta_2: 0.98,
    output_bias_init: OutputBiasInit::Unigram,
};
