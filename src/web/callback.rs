//! Callbacks that live on the page: asked of the worker, which waits for their answer.

use serde::Serialize;
use wasm_bindgen::prelude::*;

use super::event::{EvaluationView, RunEvent};
use super::pretrain::{Command, Conductor, answer};
use super::to_js;
use crate::data::Tokenizer;
use crate::train::{Callback, CallbackFuture, CallbackPoint, Control, Logs, Running};

/// All callbacks of a run.
pub struct PageCallbacks<'a> {
    pub conductor: &'a Conductor,
    pub tokenizer: &'a Tokenizer,
}

/// Where in a run they are called, by the name of the method.
#[derive(Serialize)]
#[serde(tag = "method")]
enum PointView {
    #[serde(rename = "onTrainBegin")]
    TrainBegin,
    #[serde(rename = "onEpochBegin")]
    EpochBegin { epoch: u64 },
    #[serde(rename = "onBatchBegin")]
    BatchBegin { step: u64 },
    #[serde(rename = "onBatchEnd")]
    BatchEnd { step: u64, logs: LogsView },
    #[serde(rename = "onEpochEnd")]
    EpochEnd { epoch: u64, logs: LogsView },
    #[serde(rename = "onTrainEnd")]
    TrainEnd,
}

/// A `progress` event, and the evaluation that came with it.
#[derive(Serialize)]
struct LogsView {
    #[serde(flatten)]
    progress: RunEvent,
    #[serde(skip_serializing_if = "Option::is_none")]
    evaluation: Option<EvaluationView>,
}

impl From<Logs> for LogsView {
    fn from(Logs { progress, evaluation }: Logs) -> Self {
        Self { progress: progress.into(), evaluation: evaluation.map(Into::into) }
    }
}

impl From<CallbackPoint> for PointView {
    fn from(point: CallbackPoint) -> Self {
        match point {
            CallbackPoint::TrainBegin => Self::TrainBegin,
            CallbackPoint::EpochBegin { epoch } => Self::EpochBegin { epoch },
            CallbackPoint::BatchBegin { step } => Self::BatchBegin { step },
            CallbackPoint::BatchEnd { step, logs } => Self::BatchEnd { step, logs: logs.into() },
            CallbackPoint::EpochEnd { epoch, logs } => Self::EpochEnd { epoch, logs: logs.into() },
            CallbackPoint::TrainEnd => Self::TrainEnd,
        }
    }
}

impl PageCallbacks<'_> {
    /// Meanwhile the page may ask the run: a callback may, and would else wait for itself.
    async fn ask(&mut self, point: CallbackPoint, running: &mut Running<'_>) -> Result<Control, JsValue> {
        self.conductor.call_back(to_js(&PointView::from(point))?);
        loop {
            let command = self.conductor.next_in_callback().await?;
            match serde_wasm_bindgen::from_value(command)? {
                Command::Continue | Command::Pause => return Ok(Control::Continue),
                Command::Stop => return Ok(Control::Stop),
                question => answer(self.conductor, running, self.tokenizer, question).await,
            }
        }
    }
}

impl Callback for PageCallbacks<'_> {
    fn call<'a>(&'a mut self, point: CallbackPoint, running: &'a mut Running<'_>) -> CallbackFuture<'a> {
        Box::pin(async move {
            // The page knows what it threw.
            self.ask(point, running).await.map_err(|error| format!("{error:?}").into())
        })
    }
}
