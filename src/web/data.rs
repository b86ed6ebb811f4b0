//! Text → a vocabulary, and training examples.

use wasm_bindgen::prelude::*;

use super::event::DataView;
use super::guesses::ExampleView;
use super::options::{DataOptions, VocabularyOptions, from_js};
use super::text::Reading;
use super::{Rejection, to_js};
use crate::data::{Batch, BatchLimits, FeatureNames, TextInstances, Tokenizer, Vocabulary, write_records};
use crate::train::recipe;

/// `trainVocabulary(text, options)`: the content of a `vocab.txt`.
///
/// # Errors
/// An `OptionError` that names the option; a `TextError`; an `AbortError`.
#[wasm_bindgen(js_name = trainVocabulary)]
pub async fn train_vocabulary(text: Reading, options: JsValue) -> Result<String, JsValue> {
    let options: VocabularyOptions = from_js(options)?;
    let size = options.vocab_size.unwrap_or(recipe::REFERENCE.vocab_size);
    Ok(text.train_vocabulary(size, options.do_lower_case.unwrap_or(true)).await?.to_text())
}

/// Training examples, in the worker's memory or its storage.
#[wasm_bindgen]
pub struct PretrainingData {
    instances: TextInstances,
    tokenizer: Tokenizer,
    report: DataView,
}

/// `createPretrainingData(text, options)`: examples of a text, which needs its workspace as long as they are used.
///
/// # Errors
/// An `OptionError` that names the option; a `TextError`; an `AbortError`.
#[wasm_bindgen(js_name = createPretrainingData)]
pub async fn create_pretraining_data(text: Reading, options: JsValue) -> Result<PretrainingData, JsValue> {
    let options: DataOptions = from_js(options)?;
    let Some(vocabulary) = &options.vocabulary else {
        return Err(Rejection::option("vocabulary", "is needed; trainVocabulary makes one").into());
    };
    let vocabulary = Vocabulary::parse(vocabulary, "vocabulary").map_err(Rejection::from)?;
    let wanted = recipe::REFERENCE.instances(options.instances());
    let tokenizer = Tokenizer::new(vocabulary, options.do_lower_case.unwrap_or(true));
    let (instances, report) = text.make_examples(&tokenizer, &wanted, options.max_tokens_in_memory).await?;
    Ok(PretrainingData { instances, tokenizer, report })
}

#[wasm_bindgen]
impl PretrainingData {
    /// What the text amounts to.
    ///
    /// # Errors
    /// None that a caller could cause.
    #[wasm_bindgen(getter)]
    pub fn report(&self) -> Result<JsValue, JsValue> {
        Ok(to_js(&self.report)?)
    }

    /// `examples(count)`: the first ones.
    ///
    /// # Errors
    /// When the storage cannot be read.
    pub fn examples(&mut self, count: usize) -> Result<JsValue, JsValue> {
        let vocabulary = self.tokenizer.vocabulary();
        let features =
            self.instances.features(0..count.min(self.instances.count())).map_err(Rejection::from)?;
        let limits = BatchLimits {
            vocab_size: vocabulary.size(),
            type_vocab_size: 2,
            max_position_embeddings: features.seq_length,
        };
        let records: Vec<usize> = (0..features.count()).collect();
        let batch = Batch::new(&features, &records, &limits).map_err(Rejection::from)?;
        Ok(to_js(&ExampleView::all(batch.examples(vocabulary, None)))?)
    }

    /// `toTFRecord(from, count)`: the bytes of some of them in a file that TensorFlow's `run_pretraining` reads. A file
    /// is put together of such parts.
    ///
    /// # Errors
    /// When the storage cannot be read.
    #[wasm_bindgen(js_name = toTFRecord)]
    pub fn to_tfrecord(&mut self, from: usize, count: usize) -> Result<Vec<u8>, JsValue> {
        let end = from.saturating_add(count).min(self.instances.count());
        let features = self.instances.features(from.min(end)..end).map_err(Rejection::from)?;
        Ok(write_records(&features, FeatureNames::V1))
    }
}
