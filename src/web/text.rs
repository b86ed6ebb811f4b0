//! Text as it comes from a page: files that the worker reads by parts.

use std::ops::ControlFlow;

use wasm_bindgen::prelude::*;

use super::Rejection;
use super::event::DataView;
use super::rejection::in_javascript;
use crate::data::{
    DataReport, Disk, Error, GeneratorProgress, HostFile, InstanceOptions, Stage, TextData, TextInstances,
    TextOptions, TextSource, Tokenizer, Vocabulary, VocabularyOptions, count_words, training_data,
};

#[wasm_bindgen]
extern "C" {
    /// A text that the worker has opened.
    pub type Reading;

    /// An array of [`HostFile`].
    #[wasm_bindgen(method)]
    fn files(this: &Reading) -> JsValue;

    /// The [`Workspace`](crate::data::Workspace) for what does not stay in memory.
    #[wasm_bindgen(method)]
    fn workspace(this: &Reading) -> JsValue;

    /// Are the files records, not text?
    #[wasm_bindgen(method, js_name = holdsRecords)]
    pub fn holds_records(this: &Reading) -> bool;

    /// Tells how far a pass is; false when it is to end.
    #[wasm_bindgen(method)]
    fn progress(this: &Reading, stage: &str, done: f64, total: f64) -> bool;
}

/// One after another, since there are no threads.
const OPTIONS: TextOptions = TextOptions { documents_run_on: false, json_field: None, threads: 1 };

impl Reading {
    fn sources(&self) -> Result<Vec<TextSource>, Rejection> {
        Ok(self.host_files()?.into_iter().map(TextSource::Host).collect())
    }

    pub(super) fn host_files(&self) -> Result<Vec<HostFile>, Rejection> {
        Ok(serde_wasm_bindgen::from_value(self.files())?)
    }

    pub(super) fn disk(&self) -> Result<Disk, Rejection> {
        Ok(serde_wasm_bindgen::from_value(self.workspace())?)
    }

    /// Trains a vocabulary of at most `size` entries.
    pub async fn train_vocabulary(&self, size: usize, do_lower_case: bool) -> Result<Vocabulary, Rejection> {
        let mut progress = |GeneratorProgress { done, total, .. }| self.tell("vocabulary", done, total);
        let words = count_words(self.sources()?, &OPTIONS, &mut progress).await?;
        Ok(words.train(&VocabularyOptions { size, do_lower_case, ..Default::default() })?)
    }

    /// Makes examples, in memory where they have at most `most` tokens, and tells what the text amounts to.
    pub async fn make_examples(
        &self,
        tokenizer: &Tokenizer,
        options: &InstanceOptions,
        most: Option<usize>,
    ) -> Result<(TextInstances, DataView), Rejection> {
        let most = most.map_or(TextInstances::IN_MEMORY, |most| most as u64);
        let workspace = self.disk()?;
        let mut progress = |GeneratorProgress { stage, done, total }| {
            self.tell(if stage == Stage::Tokenizing { "tokens" } else { "examples" }, done, total)
        };
        let made =
            training_data(self.sources()?, tokenizer, options, &OPTIONS, &workspace, most, &mut progress);
        let TextData { instances, report, undecodable, empty_files } = made.await?;
        let warnings = warnings(&report, undecodable, empty_files);
        Ok((instances, DataView::new(&report, tokenizer.vocabulary().size(), warnings)))
    }

    pub(super) fn tell(&self, stage: &str, done: u64, total: Option<u64>) -> ControlFlow<()> {
        match self.progress(stage, done as f64, total.unwrap_or(done) as f64) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

/// What is to be told of a text before training on it, a sentence each.
fn warnings(report: &DataReport, undecodable: u64, empty_files: u64) -> Vec<String> {
    let mut warnings: Vec<_> = report.warnings().iter().map(|warning| in_javascript(warning)).collect();
    if undecodable > 0 {
        warnings.push(format!(
            "{undecodable} bytes of the text are not UTF-8 and were left out; is it in another encoding?"
        ));
    }
    if empty_files > 0 {
        warnings.push(format!("{empty_files} of the files are empty."));
    }
    warnings
}

/// What a text or records are refused for, as JavaScript hears it.
pub fn refusal(error: &Error) -> Option<(&'static str, String)> {
    match error {
        Error::Interrupted => {
            Some(("AbortError", "stopped while the text was read, so there is no model".into()))
        }
        Error::Read { path, error } => {
            let name = path.display();
            Some(("TextError", format!("{name}: the file could not be read: {error} Choose it again")))
        }
        Error::RecordsNotText { origin } => Some((
            "TextError",
            format!(
                "{origin}: this is a TFRecord file of training instances, not text; give it as `records`"
            ),
        )),
        Error::Record { .. }
        | Error::BadRecordsGzip { .. }
        | Error::NoRecords { .. }
        | Error::ShapesDiffer { .. }
        | Error::RecordsChanged { .. }
        | Error::IdOutOfRange { .. }
        | Error::BadWeight { .. } => Some(("RecordsError", error.to_string())),
        _ => None,
    }
}
