//! Guesses for masked words.

use std::sync::Arc;

use super::{StepScalars, TrainError, Trainer};
use crate::checkpoint::NamedTensor;
use crate::data::{Batch, BatchLimits, Example, Features, Tokenizer, Vocabulary};
use crate::gpu::Gpu;
use crate::model::config::BertConfig;
use crate::model::{BatchShape, StepKind};

/// A word for a mask, and how likely the model finds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    /// The token.
    pub token: String,
    /// Its probability among all tokens.
    pub probability: f32,
}

/// What a model guesses for one prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Guesses {
    /// For every mask, from left to right, the best tokens, likeliest first.
    pub masks: Vec<Vec<Guess>>,
    /// Tokens left out because the prompt is longer than the model reads.
    pub cropped: usize,
}

/// A prompt as the model reads it.
struct Prompt {
    text: String,
    ids: Vec<u32>,
    masks: Vec<usize>,
    cropped: usize,
}

/// Let the model fill every `[MASK]` of every prompt with its `top_k` best tokens.
///
/// The tensors are a model's, by Hugging Face's names; the prompts are computed on the device one after another.
///
/// # Errors
/// [`TrainError::NoMask`] or [`TrainError::MasksTooFarApart`] for a prompt, [`TrainError::NoAnswer`] for a model
/// without sound weights, [`TrainError::OtherModel`] for tensors that are not the configuration's, or what the device
/// says.
pub async fn fill_masks(
    gpu: &Arc<Gpu>,
    config: &BertConfig,
    tensors: &[NamedTensor],
    tokenizer: &Tokenizer,
    prompts: &[&str],
    top_k: usize,
) -> Result<Vec<Guesses>, TrainError> {
    Predictor::new(gpu.clone()).fill_masks(config, tensors, tokenizer, prompts, top_k).await
}

/// Guesses of a model whose weights stay as they are.
pub struct Predictor {
    gpu: Arc<Gpu>,
    /// Compiled for prompts up to this shape; made anew when longer ones come.
    model: Option<(BatchShape, Trainer)>,
}

impl Predictor {
    /// On a device, on which it leaves the model between two calls.
    pub fn new(gpu: Arc<Gpu>) -> Self {
        Self { gpu, model: None }
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// See [`fill_masks`](fill_masks()); `config` and `tensors` are the same every time.
    ///
    /// # Errors
    /// As [`fill_masks`](fill_masks()).
    pub async fn fill_masks(
        &mut self,
        config: &BertConfig,
        tensors: &[NamedTensor],
        tokenizer: &Tokenizer,
        prompts: &[&str],
        top_k: usize,
    ) -> Result<Vec<Guesses>, TrainError> {
        let (encoded, needed) = encode_all(config, tokenizer, prompts)?;
        let (shape, mut model) = match self.model.take().filter(|(shape, _)| holds(*shape, needed)) {
            Some(model) => model,
            None => {
                let model = Trainer::new(self.gpu.clone(), config, needed, StepKind::predict(false)).await?;
                model.check_fit(tensors)?;
                model.write_weights(tensors);
                (needed, model)
            }
        };
        let guesses = guess_all(&mut model, config, tokenizer, shape, &encoded, top_k).await?;
        self.model = Some((shape, model));
        Ok(guesses)
    }
}

/// Is there room for all that is needed?
fn holds(shape: BatchShape, needed: BatchShape) -> bool {
    shape.seq_length >= needed.seq_length && shape.predictions >= needed.predictions
}

/// The prompts as the model reads them, and the shape that holds the longest.
fn encode_all(
    config: &BertConfig,
    tokenizer: &Tokenizer,
    prompts: &[&str],
) -> Result<(Vec<Prompt>, BatchShape), TrainError> {
    let encoded: Vec<Prompt> =
        prompts.iter().map(|prompt| encode(prompt, tokenizer, config)).collect::<Result<_, _>>()?;
    let (seq_length, predictions) =
        encoded.iter().fold((1, 1), |(seq, masks), p| (seq.max(p.ids.len()), masks.max(p.masks.len())));
    Ok((encoded, BatchShape { batch_size: 1, seq_length, predictions }))
}

async fn guess_all(
    model: &mut Trainer,
    config: &BertConfig,
    tokenizer: &Tokenizer,
    shape: BatchShape,
    prompts: &[Prompt],
    top_k: usize,
) -> Result<Vec<Guesses>, TrainError> {
    let mut guesses = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        let batch = batch(prompt, shape, config)?;
        model.submit(&batch, &StepScalars::default(), false).await?;
        let logits = model.step().without_padding(&model.read(model.step().mlm_logits).await?);
        if logits.iter().any(|logit| !logit.is_finite()) {
            return Err(TrainError::NoAnswer { prompt: prompt.text.clone() });
        }
        let masks = logits.chunks_exact(config.vocab_size).take(prompt.masks.len());
        let masks = masks.map(|logits| best(logits, tokenizer, top_k)).collect();
        guesses.push(Guesses { masks, cropped: prompt.cropped });
    }
    Ok(guesses)
}

/// Guesses of a model while it is trained, from the weights as they are.
pub(super) struct LivePredictor {
    /// Compiled for prompts up to this shape; made anew when longer ones come.
    model: Option<(BatchShape, Trainer)>,
    /// Compiled for examples of this shape; made anew when others come.
    examples: Option<(BatchShape, Trainer)>,
    kind: StepKind,
}

impl LivePredictor {
    pub fn new(next_sentence: bool) -> Self {
        Self { model: None, examples: None, kind: StepKind::predict(next_sentence) }
    }

    pub async fn fill_masks(
        &mut self,
        trainer: &Trainer,
        config: &BertConfig,
        tokenizer: &Tokenizer,
        prompts: &[&str],
        top_k: usize,
    ) -> Result<Vec<Guesses>, TrainError> {
        let (encoded, needed) = encode_all(config, tokenizer, prompts)?;
        let (shape, mut model) = match self.model.take().filter(|(shape, _)| holds(*shape, needed)) {
            Some(model) => model,
            None => (needed, trainer.sharing(config, needed, self.kind).await?),
        };
        let guesses = guess_all(&mut model, config, tokenizer, shape, &encoded, top_k).await?;
        self.model = Some((shape, model));
        Ok(guesses)
    }

    /// The instances of a batch, with the likeliest token wherever one is hidden. `None` when an answer is not a number.
    pub async fn examples(
        &mut self,
        trainer: &Trainer,
        config: &BertConfig,
        vocabulary: &Vocabulary,
        batch: &Batch,
    ) -> Result<Option<Vec<Example>>, TrainError> {
        let Batch { batch_size, seq_length, predictions, .. } = *batch;
        let needed = BatchShape { batch_size, seq_length, predictions };
        let (shape, mut model) = match self.examples.take().filter(|(shape, _)| *shape == needed) {
            Some(model) => model,
            None => (needed, trainer.sharing(config, needed, self.kind).await?),
        };
        model.submit(batch, &StepScalars::default(), false).await?;
        let logits = model.step().without_padding(&model.read(model.step().mlm_logits).await?);
        self.examples = Some((shape, model));
        let is_number = logits.iter().all(|logit| logit.is_finite());
        let guesses: Vec<u32> = logits.chunks_exact(config.vocab_size).map(likeliest).collect();
        Ok(is_number.then(|| batch.examples(vocabulary, Some(&guesses))))
    }
}

fn likeliest(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    best.unwrap_or_default() as u32
}

/// `[CLS] prompt [SEP]`, cropped to what the model reads: at the right, unless a mask is there.
fn encode(prompt: &str, tokenizer: &Tokenizer, config: &BertConfig) -> Result<Prompt, TrainError> {
    let special = tokenizer.vocabulary().special();
    let ids = tokenizer.encode_prompt(prompt);
    let limit = config.max_position_embeddings.saturating_sub(2);
    let mut masks = ids.iter().enumerate().filter(|(_, id)| **id == special.mask).map(|(at, _)| at);
    let Some(first) = masks.next() else { return Err(TrainError::NoMask { prompt: prompt.into() }) };
    let end = masks.next_back().unwrap_or(first) + 1;
    let start = end.saturating_sub(limit);
    if start > first {
        return Err(TrainError::MasksTooFarApart { prompt: prompt.into(), tokens: end - first, limit });
    }
    let kept = &ids[start..ids.len().min(start + limit)];
    let cropped = ids.len() - kept.len();
    let ids: Vec<u32> = [&[special.cls], kept, &[special.sep]].concat();
    let masks = ids.iter().enumerate().filter(|(_, id)| **id == special.mask).map(|(at, _)| at).collect();
    Ok(Prompt { text: prompt.into(), ids, masks, cropped })
}

fn batch(prompt: &Prompt, shape: BatchShape, config: &BertConfig) -> Result<Batch, TrainError> {
    let BatchShape { seq_length, predictions, .. } = shape;
    let padded = |values: Vec<u32>, len: usize| {
        let mut values = values;
        values.resize(len, 0);
        values
    };
    let features = Features {
        origin: "the prompt".into(),
        seq_length,
        predictions,
        input_ids: padded(prompt.ids.clone(), seq_length),
        input_mask: padded(vec![1; prompt.ids.len()], seq_length),
        segment_ids: vec![0; seq_length],
        masked_lm_positions: padded(prompt.masks.iter().map(|at| *at as u32).collect(), predictions),
        masked_lm_ids: vec![0; predictions],
        masked_lm_weights: vec![0.0; predictions],
        next_sentence_labels: vec![0],
    };
    let limits = BatchLimits {
        vocab_size: config.vocab_size,
        type_vocab_size: config.type_vocab_size,
        max_position_embeddings: config.max_position_embeddings,
    };
    Ok(Batch::new(&features, &[0], &limits)?)
}

fn best(logits: &[f32], tokenizer: &Tokenizer, top_k: usize) -> Vec<Guess> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - max).exp()).sum();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    let guess = |id: usize| {
        let token = tokenizer.vocabulary().token(id as u32).unwrap_or("[unused]").to_string();
        Guess { token, probability: (f64::from(logits[id] - max).exp() / sum) as f32 }
    };
    order.into_iter().take(top_k).map(guess).collect()
}
