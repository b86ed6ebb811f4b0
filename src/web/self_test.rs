//! Does this browser's adapter compute what it should?

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use wasm_bindgen::prelude::*;

use super::options::{Kernels, from_js};
use super::survey::derive;
use super::{Rejection, to_js};
use crate::gpu::DeviceOptions;
use crate::train::self_test::{self, Comparison};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    kernels: Option<Kernels>,
    files: Option<BTreeMap<String, ByteBuf>>,
}

#[derive(Serialize)]
struct ReportView {
    ok: bool,
    adapter: String,
    kernels: &'static str,
    comparisons: usize,
    worst: Vec<ComparisonView>,
}

#[derive(Serialize)]
struct ComparisonView {
    quantity: &'static str,
    name: String,
    case: String,
    error: f64,
    tolerance: f64,
}

impl From<&Comparison> for ComparisonView {
    fn from(comparison: &Comparison) -> Self {
        let Comparison { case, kind, name, error, tolerance } = comparison.clone();
        Self { quantity: kind.name(), name, case, error, tolerance }
    }
}

/// `selfTest(strategy, options)`: compares losses, logits and gradients with golden numbers, those that come with
/// the program or the ones of `options.files` (name → bytes), and updates where the files have them.
///
/// # Errors
/// A `StrategyError` when `strategy`, a strategy's kind, is none or cannot be had; an `OptionError` that names the
/// option; a `SelfTestError` for files that are no golden case, or when the device fails.
#[wasm_bindgen(js_name = selfTest)]
pub async fn self_test(strategy: Option<String>, options: JsValue) -> Result<JsValue, JsValue> {
    let strategy = derive(strategy.as_deref()).await.map_err(Rejection::from)?;
    let options: Options = from_js(options)?;
    let family = options.kernels.map(Into::into);
    let files = match options.files {
        Some(files) => files.into_iter().map(|(name, bytes)| (name, bytes.into_vec())).collect(),
        None => self_test::bundled(),
    };
    let device = DeviceOptions { family, ..Default::default() };
    let gpu = Arc::new(strategy.open(device).await.map_err(Rejection::from)?);
    let report = self_test::self_test(&gpu, &files).await.map_err(Rejection::from)?;
    Ok(to_js(&ReportView {
        ok: report.ok(),
        adapter: gpu.adapter.name.clone(),
        kernels: gpu.kernels.products.name(),
        comparisons: report.comparisons.len(),
        worst: report.worst().into_iter().map(Into::into).collect(),
    })?)
}
