//! From what a page gives to examples: a text that they are made of, or records that hold them.

use wasm_bindgen::prelude::*;

use super::Rejection;
use super::event::{DataView, Purpose, RecordsView, RunEvent};
use super::pretrain::{Conductor, tell};
use super::resolve::{Resolved, VocabularySource};
use super::text::Reading;
use crate::data::{GeneratorProgress, InstanceOptions, RecordSet, Tokenizer, TrainingData, Vocabulary};

/// Read everything, and tell of it. The model gets as many words as the vocabulary has, and examples the shape that records
/// have.
pub async fn prepare(
    run: &mut Resolved,
    conductor: &Conductor,
) -> Result<(Tokenizer, TrainingData), JsValue> {
    let source: Reading = conductor.source().await?.unchecked_into();
    let vocabulary = match source.holds_records() {
        true => vocabulary_of_records(run)?,
        false => {
            run.check_positions()?;
            run.vocabulary.vocabulary(&source, run.do_lower_case).await?
        }
    };
    run.options.config.vocab_size = vocabulary.size();
    let tokenizer = Tokenizer::new(vocabulary, run.do_lower_case);
    let mut data = match source.holds_records() {
        true => {
            let records = source.records(&RecordsWanted::of(run), tokenizer.vocabulary()).await?;
            run.instances.max_seq_length = records.seq_length();
            run.instances.max_predictions_per_seq = records.predictions();
            let report = RecordsView::new(&records);
            tell(conductor, &RunEvent::Records { purpose: Purpose::Training, report })?;
            records.into()
        }
        false => {
            let most = run.max_tokens_in_memory;
            let (instances, mut report) = source.make_examples(&tokenizer, &run.instances, most).await?;
            warn_of_warmup(run, &mut report);
            tell(conductor, &RunEvent::Data { purpose: Purpose::Training, report })?;
            TrainingData::from(instances)
        }
    };
    let held_out = conductor.evaluation().await?;
    if !held_out.is_undefined() {
        data =
            data.with_evaluation(held_out_of(run, &held_out.unchecked_into(), &tokenizer, conductor).await?);
    }
    Ok((tokenizer, data))
}

/// A text is gone through once: other masks would make no other text of it.
async fn held_out_of(
    run: &Resolved,
    source: &Reading,
    tokenizer: &Tokenizer,
    conductor: &Conductor,
) -> Result<TrainingData, JsValue> {
    let purpose = Purpose::Evaluation;
    if source.holds_records() {
        // Options about shapes are about what is trained on.
        let wanted = RecordsWanted { shape: (None, None), ..RecordsWanted::of(run) };
        let records = source.records(&wanted, tokenizer.vocabulary()).await?;
        tell(conductor, &RunEvent::Records { purpose, report: RecordsView::new(&records) })?;
        return Ok(records.into());
    }
    let options = InstanceOptions { dupe_factor: 1, ..run.instances.clone() };
    let (instances, report) = source.make_examples(tokenizer, &options, run.max_tokens_in_memory).await?;
    tell(conductor, &RunEvent::Data { purpose, report })?;
    Ok(instances.into())
}

/// Examples that are made already: options about making them have nothing to act on.
fn vocabulary_of_records(run: &Resolved) -> Result<Vocabulary, Rejection> {
    if let Some(option) = run.for_text {
        return Err(Rejection::option(
            option,
            "has nothing to act on: the examples of records are made already",
        ));
    }
    match &run.vocabulary {
        VocabularySource::Given(text) => Ok(Vocabulary::parse(text, "vocabulary")?),
        VocabularySource::Trained(_) => {
            Err(Rejection::option("vocabulary", "is needed: the one that the records were made with"))
        }
    }
}

/// What records are to be.
pub struct RecordsWanted {
    pub next_sentence: bool,
    pub skip_bad: bool,
    /// S and M, where they are given.
    pub shape: (Option<usize>, Option<usize>),
}

impl RecordsWanted {
    fn of(run: &Resolved) -> Self {
        let next_sentence = run.options.use_next_sentence_label;
        Self { next_sentence, skip_bad: run.skip_bad_records, shape: run.given_shape }
    }
}

impl Reading {
    /// Looks through files of records, whose tokens must be in the vocabulary.
    pub async fn records(
        &self,
        wanted: &RecordsWanted,
        vocabulary: &Vocabulary,
    ) -> Result<RecordSet, Rejection> {
        let (files, disk) = (self.host_files()?, self.disk()?);
        let mut progress = |GeneratorProgress { done, total, .. }| self.tell("records", done, total);
        let records =
            RecordSet::open(files, wanted.next_sentence, wanted.skip_bad, &disk, &mut progress).await?;
        for (option, given, found) in [
            ("maxSeqLength", wanted.shape.0, records.seq_length()),
            ("maxPredictionsPerSeq", wanted.shape.1, records.predictions()),
        ] {
            if let Some(given) = given.filter(|given| *given != found) {
                return Err(Rejection::option(option, format!("is {given}, but the records have {found}")));
            }
        }
        records.check_vocabulary(vocabulary.size())?;
        Ok(records)
    }
}

fn warn_of_warmup(run: &Resolved, report: &mut DataView) {
    let schedule = &run.options.schedule;
    if schedule.never_leaves_warmup() {
        let (steps, warmup, rate) = (schedule.total_steps, schedule.warmup_steps, schedule.init_lr);
        report.warnings.push(format!(
            "All {steps} steps lie within the warm-up of {warmup}, so the learning rate never reaches {rate}."
        ));
    }
}
