//! What a run would take, before there is one.

use serde::Serialize;
use wasm_bindgen::prelude::*;

use super::options::from_js;
use super::resolve::{Resolved, VocabularySource, resolve};
use super::survey::derive;
use super::{Rejection, kernels, to_js};
use crate::data::Vocabulary;
use crate::train::{self, RunPlan, TrainError};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanView {
    parameters: u64,
    bytes: u64,
    dispatches: usize,
    gradient_accumulation_steps: usize,
    fits: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    largest_batch_size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MeasurementView {
    seconds_per_step: f64,
}

impl From<RunPlan> for PlanView {
    fn from(plan: RunPlan) -> Self {
        let RunPlan { parameters, bytes, dispatches, gradient_accumulation_steps, misfit, .. } = plan;
        Self {
            parameters,
            bytes,
            dispatches,
            gradient_accumulation_steps,
            fits: misfit.is_none(),
            largest_batch_size: match misfit {
                Some(TrainError::DoesNotFit { largest, .. }) => Some(largest).filter(|largest| *largest > 0),
                _ => None,
            },
            message: misfit.map(|misfit| misfit.to_string()),
        }
    }
}

/// `planRun(strategy, options)`: what a run with these options takes.
///
/// # Errors
/// A `StrategyError` when `strategy`, a strategy's kind, is none or cannot be had; an `OptionError`.
#[wasm_bindgen(js_name = planRun)]
pub async fn plan_run(strategy: Option<String>, options: JsValue) -> Result<JsValue, JsValue> {
    let strategy = derive(strategy.as_deref()).await.map_err(Rejection::from)?;
    let Resolved { options, instances, .. } = without_text(options)?;
    let (seq_length, predictions) = (instances.max_seq_length, instances.places());
    let plan = train::plan_run(Some(&strategy), &options, seq_length, predictions);
    Ok(to_js(&PlanView::from(plan.map_err(Rejection::from)?))?)
}

/// `measureStep(strategy, options)`: how long a step with these options takes here.
///
/// # Errors
/// As [`plan_run`]; an `OptionError` for a batch that does not fit; a `DeviceError`.
#[wasm_bindgen(js_name = measureStep)]
pub async fn measure_step(strategy: Option<String>, options: JsValue) -> Result<JsValue, JsValue> {
    let mut strategy = derive(strategy.as_deref()).await.map_err(Rejection::from)?;
    let Resolved { options, instances, .. } = without_text(options)?;
    kernels::measure(&mut strategy, options.device).await;
    let (seq_length, predictions) = (instances.max_seq_length, instances.places());
    let measured = train::measure_step(Some(&strategy), &options, seq_length, predictions).await;
    let seconds_per_step = measured.map_err(Rejection::from)?.as_secs_f64();
    Ok(to_js(&MeasurementView { seconds_per_step })?)
}

/// A run whose text nobody has read: a vocabulary that it would train has as many words as it may have.
pub(super) fn without_text(options: JsValue) -> Result<Resolved, Rejection> {
    let mut run = resolve(from_js(options)?)?;
    run.instances.check()?;
    run.check_positions()?;
    run.options.config.vocab_size = match &run.vocabulary {
        VocabularySource::Given(text) => Vocabulary::parse(text, "vocabulary")?.size(),
        VocabularySource::Trained(size) => *size,
    };
    Ok(run)
}
