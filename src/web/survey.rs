//! Which adapters the browser has, and the strategy derived from them.

use serde::Serialize;
use wasm_bindgen::prelude::*;

use super::{Rejection, kernels, to_js};
use crate::gpu::{AdapterReport, survey};
use crate::strategy::{self, Strategy, StrategyError, StrategyRequest, shortcoming};

#[derive(Serialize)]
struct SurveyView {
    adapters: Vec<AdapterView>,
    absences: Vec<AbsenceView>,
}

/// Limits bear WebGPU's names.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdapterView {
    name: String,
    kind: &'static str,
    max_buffer_size: u64,
    max_storage_buffer_binding_size: u64,
    max_storage_buffers_per_shader_stage: u32,
    max_compute_invocations_per_workgroup: u32,
    max_compute_workgroup_storage_size: u32,
    features: Vec<&'static str>,
    shortcoming: Option<String>,
}

#[derive(Serialize)]
struct AbsenceView {
    reason: &'static str,
    message: String,
}

#[derive(Serialize)]
struct StrategyView {
    kind: &'static str,
    adapter: AdapterView,
    replicas: Vec<AdapterView>,
    why: String,
    notice: Option<String>,
}

impl From<&AdapterReport> for AdapterView {
    fn from(adapter: &AdapterReport) -> Self {
        Self {
            name: adapter.name.clone(),
            kind: adapter.kind.name(),
            max_buffer_size: adapter.max_buffer_size,
            max_storage_buffer_binding_size: adapter.max_binding_size,
            max_storage_buffers_per_shader_stage: adapter.max_storage_buffers,
            max_compute_invocations_per_workgroup: adapter.max_invocations,
            max_compute_workgroup_storage_size: adapter.max_workgroup_memory,
            features: adapter.features.clone(),
            shortcoming: shortcoming(adapter),
        }
    }
}

/// `surveyAdapters()`: every adapter, and why there is none.
///
/// # Errors
/// None that a browser could cause.
#[wasm_bindgen(js_name = surveyAdapters)]
pub async fn survey_adapters() -> Result<JsValue, JsValue> {
    let survey = survey().await;
    let absences = survey.absences.into_iter();
    let view = SurveyView {
        adapters: survey.adapters.iter().map(AdapterView::from).collect(),
        absences: absences.map(|a| AbsenceView { reason: a.cause.name(), message: a.reason }).collect(),
    };
    Ok(to_js(&view)?)
}

/// `getDistributionStrategy(request)`: what the strategy called `request` becomes on this machine.
///
/// # Errors
/// A `StrategyError`, as its fields.
#[wasm_bindgen(js_name = getDistributionStrategy)]
pub async fn get_distribution_strategy(request: String) -> Result<JsValue, JsValue> {
    let strategy = derive(Some(&request)).await.map_err(Rejection::from)?;
    let replicas = strategy.replicas().map(AdapterView::from).collect();
    let Strategy { kind, adapter, why, notice, .. } = strategy;
    Ok(to_js(&StrategyView { kind: kind.name(), adapter: (&adapter).into(), replicas, why, notice })?)
}

/// The strategy of that name; without a name the error that none was given.
pub(super) async fn derive(request: Option<&str>) -> Result<Strategy, StrategyError> {
    let request: StrategyRequest = request.ok_or(StrategyError::NotGiven)?.parse()?;
    let mut strategy = strategy::get_distribution_strategy(request, &survey().await, None)?;
    kernels::recall(&mut strategy).await;
    Ok(strategy)
}
