//! What a run tells the page.

use std::time::Duration;

use serde::Serialize;

use crate::data::{DataReport, RecordSet, Skipped};
use crate::train::{Evaluation, Progress, Started};

/// One thing told; `kind` says which.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum RunEvent {
    Data {
        purpose: Purpose,
        #[serde(flatten)]
        report: DataView,
    },
    Records {
        purpose: Purpose,
        #[serde(flatten)]
        report: RecordsView,
    },
    Compiling {
        done: usize,
        total: usize,
    },
    Started {
        adapter: String,
        kernels: String,
        parameters: usize,
        bytes: u64,
        dispatches: usize,
        gradient_accumulation_steps: usize,
        step: u64,
        total_steps: u64,
        uniform_loss: f64,
        unigram_loss: f64,
    },
    Progress {
        step: u64,
        total_steps: u64,
        loss: f32,
        lm_example_loss: f32,
        masked_lm_accuracy: f32,
        /// Absent without the task, as its accuracy.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_sentence_loss: Option<f32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_sentence_accuracy: Option<f32>,
        grad_norm: f32,
        /// Absent where there are none.
        #[serde(skip_serializing_if = "is_none")]
        left_out: u64,
        /// Absent where the loss is not scaled.
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_scale: Option<f32>,
        learning_rate: f32,
        tokens_per_second: f64,
        elapsed_seconds: f64,
    },
    Evaluating {
        step: u64,
        done: usize,
        instances: usize,
    },
    Evaluation {
        step: u64,
        #[serde(flatten)]
        evaluation: EvaluationView,
    },
    Notice {
        message: String,
    },
    DeviceLost {
        message: String,
        /// Where the run goes on.
        step: u64,
    },
    Done {
        step: u64,
        stopped: bool,
    },
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// What examples are for.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    Training,
    Evaluation,
}

/// How well a model guesses.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationView {
    instances: usize,
    predictions: f64,
    loss: f64,
    lm_example_loss: f64,
    perplexity: f64,
    masked_lm_accuracy: f64,
    /// Absent without the task, as its accuracy.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_sentence_loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_sentence_accuracy: Option<f64>,
}

impl From<Evaluation> for EvaluationView {
    fn from(evaluation: Evaluation) -> Self {
        Self {
            instances: evaluation.instances,
            predictions: evaluation.predictions,
            loss: evaluation.loss(),
            lm_example_loss: evaluation.lm_example_loss,
            perplexity: evaluation.perplexity(),
            masked_lm_accuracy: evaluation.masked_lm_accuracy,
            next_sentence_loss: evaluation.next_sentence_loss,
            next_sentence_accuracy: evaluation.next_sentence_accuracy,
        }
    }
}

/// What files of records amount to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordsView {
    instances: usize,
    max_seq_length: usize,
    max_predictions_per_seq: usize,
    random_next_share: f64,
    skipped: usize,
    /// For a person, a sentence each.
    warnings: Vec<String>,
}

impl RecordsView {
    pub fn new(records: &RecordSet) -> Self {
        let Skipped { count, first } = records.skipped();
        let left_out = |first| format!("{count} bad records were left out; the first: {first}");
        Self {
            instances: records.count(),
            max_seq_length: records.seq_length(),
            max_predictions_per_seq: records.predictions(),
            random_next_share: records.random_next() as f64 / records.count().max(1) as f64,
            skipped: *count,
            warnings: first.iter().map(left_out).collect(),
        }
    }
}

/// What the text amounts to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DataView {
    documents: usize,
    sentences: usize,
    tokens: usize,
    unknown_share: f64,
    instances: usize,
    random_next_share: f64,
    vocab_size: usize,
    /// For a person, a sentence each.
    pub warnings: Vec<String>,
}

impl DataView {
    pub fn new(report: &DataReport, vocab_size: usize, warnings: Vec<String>) -> Self {
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        Self {
            documents: report.documents,
            sentences: report.sentences,
            tokens: report.tokens,
            unknown_share: share(report.unknown, report.tokens),
            instances: report.instances,
            random_next_share: share(report.random_next, report.instances),
            vocab_size,
            warnings,
        }
    }
}

impl RunEvent {
    pub fn started(started: Started, step: u64, total_steps: u64) -> Self {
        let Started { adapter, kernels, parameters, bytes, dispatches, .. } = started;
        Self::Started {
            adapter,
            kernels,
            parameters,
            bytes,
            dispatches,
            gradient_accumulation_steps: started.gradient_accumulation_steps,
            step,
            total_steps,
            uniform_loss: started.uniform_loss,
            unigram_loss: started.unigram_loss,
        }
    }

    pub fn device_lost(step: u64, message: &str) -> Self {
        Self::DeviceLost { message: message.into(), step }
    }

    pub fn device_awaited(why: &str, after: Duration) -> Self {
        let seconds = after.as_secs_f64();
        Self::Notice {
            message: format!("no other device can be opened: {why}; it is tried again in {seconds} s"),
        }
    }
}

impl From<Progress> for RunEvent {
    fn from(progress: Progress) -> Self {
        Self::Progress {
            step: progress.step,
            total_steps: progress.total_steps,
            loss: progress.loss,
            lm_example_loss: progress.lm_example_loss,
            masked_lm_accuracy: progress.masked_lm_accuracy,
            next_sentence_loss: progress.next_sentence_loss,
            next_sentence_accuracy: progress.next_sentence_accuracy,
            grad_norm: progress.grad_norm,
            left_out: progress.left_out,
            loss_scale: progress.loss_scale,
            learning_rate: progress.learning_rate,
            tokens_per_second: progress.tokens_per_second,
            elapsed_seconds: progress.elapsed.as_secs_f64(),
        }
    }
}
