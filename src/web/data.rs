//! Text → a vocabulary, and training examples.

use wasm_bindgen::prelude::*;

use super::event::DataView;
use super::guesses::ExampleView;
use super::options::{DataOptions, VocabularyOptions, from_js};
use super::rejection::in_javascript;
use super::{Rejection, text, to_js};
use crate::data::{
    self, BatchLimits, Corpus, DataReport, FeatureNames, InstanceOptions, InstanceSet, Instances, Tokenizer,
    Vocabulary, write_records,
};
use crate::train::recipe;

/// `trainVocabulary(files, options)`: the content of a `vocab.txt`.
///
/// # Errors
/// An `OptionError` that names the option; a `TextError`.
#[wasm_bindgen(js_name = trainVocabulary)]
pub fn train_vocabulary(files: JsValue, options: JsValue) -> Result<String, JsValue> {
    let options: VocabularyOptions = from_js(options)?;
    let corpus = text::corpus(files)?;
    let size = options.vocab_size.unwrap_or(recipe::REFERENCE.vocab_size);
    let vocabulary = data::train_vocabulary(corpus.sentences(), size, options.do_lower_case.unwrap_or(true));
    Ok(vocabulary.map_err(Rejection::from)?.to_text())
}

/// Training examples in the worker's memory.
#[wasm_bindgen]
pub struct PretrainingData {
    instances: Instances,
    tokenizer: Tokenizer,
    report: DataView,
}

/// `createPretrainingData(files, options)`: examples of a text.
///
/// # Errors
/// An `OptionError` that names the option; a `TextError`.
#[wasm_bindgen(js_name = createPretrainingData)]
pub fn create_pretraining_data(files: JsValue, options: JsValue) -> Result<PretrainingData, JsValue> {
    let options: DataOptions = from_js(options)?;
    let Some(vocabulary) = &options.vocabulary else {
        return Err(Rejection::option("vocabulary", "is needed; trainVocabulary makes one").into());
    };
    let vocabulary = Vocabulary::parse(vocabulary, "vocabulary").map_err(Rejection::from)?;
    let wanted = recipe::REFERENCE.instances(options.instances());
    let tokenizer = Tokenizer::new(vocabulary, options.do_lower_case.unwrap_or(true));
    let (instances, report) = prepare(&text::corpus(files)?, &tokenizer, &wanted)?;
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
    /// None that a caller could cause.
    pub fn examples(&self, count: usize) -> Result<JsValue, JsValue> {
        let vocabulary = self.tokenizer.vocabulary();
        let limits = BatchLimits {
            vocab_size: vocabulary.size(),
            type_vocab_size: 2,
            max_position_embeddings: self.instances.seq_length(),
        };
        let records: Vec<usize> = (0..count.min(self.instances.count())).collect();
        let batch = self.instances.batch(&records, &limits).map_err(Rejection::from)?;
        Ok(to_js(&ExampleView::all(batch.examples(vocabulary, None)))?)
    }

    /// `toTFRecord(from, count)`: the bytes of some of them in a file that TensorFlow's `run_pretraining` reads. A file
    /// is put together of such parts.
    #[wasm_bindgen(js_name = toTFRecord)]
    pub fn to_tfrecord(&self, from: usize, count: usize) -> Vec<u8> {
        let end = from.saturating_add(count).min(self.instances.count());
        write_records(&self.instances.features(from.min(end)..end), FeatureNames::V1)
    }
}

/// Examples of a text, and what it amounts to.
pub fn prepare(
    corpus: &Corpus,
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
) -> Result<(Instances, DataView), Rejection> {
    let documents = corpus.encode(tokenizer)?;
    let instances = Instances::make(&documents, tokenizer.vocabulary(), options)?;
    let report = DataReport::new(&documents, tokenizer.vocabulary(), &instances);
    let mut warnings: Vec<_> = report.warnings().iter().map(|warning| in_javascript(warning)).collect();
    if corpus.undecodable() > 0 {
        let bytes = corpus.undecodable();
        warnings.push(format!(
            "{bytes} bytes of the text are not UTF-8 and were left out; is it in another encoding?"
        ));
    }
    Ok((instances, DataView::new(&report, tokenizer.vocabulary().size(), warnings)))
}
