//! A training step measured on weights and examples from JavaScript. Only the benches call it: it is no part of the
//! package's typed face.

use serde::Deserialize;
use serde_bytes::ByteBuf;
use wasm_bindgen::prelude::*;

use super::plan::without_text;
use super::resolve::Resolved;
use super::survey::derive;
use super::{Rejection, kernels, to_js};
use crate::checkpoint::TensorFile;
use crate::checkpoint::names::read_parameters;
use crate::data::Features;
use crate::train::benchmark::{self, Workload};

#[wasm_bindgen]
extern "C" {
    /// Lets several programs step in turn.
    pub type Turns;

    /// Resolves when it is this one's turn.
    #[wasm_bindgen(method, catch)]
    async fn next(this: &Turns) -> Result<JsValue, JsValue>;
}

/// One batch, under the names of the reference's features, and a model.safetensors.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Given {
    weights: ByteBuf,
    input_ids: Vec<u32>,
    input_mask: Vec<u32>,
    segment_ids: Vec<u32>,
    masked_lm_positions: Vec<u32>,
    masked_lm_ids: Vec<u32>,
    next_sentence_labels: Vec<u32>,
}

/// `benchmark(strategy, options, workload, steps, turns)`: trains on one batch, a step in a turn, and tells the report of
/// the command `bench`.
///
/// # Errors
/// Those of `measureStep`; a `ModelFileError` for weights of another model, a `TextError` for a batch of another shape.
#[wasm_bindgen]
pub async fn benchmark(
    strategy: Option<String>,
    options: JsValue,
    workload: JsValue,
    steps: usize,
    turns: Turns,
) -> Result<JsValue, JsValue> {
    let mut strategy = derive(strategy.as_deref()).await.map_err(Rejection::from)?;
    let Resolved { options, instances, .. } = without_text(options)?;
    kernels::measure(&mut strategy, options.device).await;
    let given: Given = serde_wasm_bindgen::from_value(workload)?;
    let file = TensorFile::parse(&given.weights, "weights").map_err(Rejection::from)?;
    let features = Features {
        origin: "the workload".into(),
        seq_length: instances.max_seq_length,
        predictions: instances.places(),
        masked_lm_weights: vec![1.0; given.masked_lm_ids.len()],
        input_ids: given.input_ids,
        input_mask: given.input_mask,
        segment_ids: given.segment_ids,
        masked_lm_positions: given.masked_lm_positions,
        masked_lm_ids: given.masked_lm_ids,
        next_sentence_labels: given.next_sentence_labels,
    };
    let weights = read_parameters(&options.config, &file).map_err(Rejection::from)?;
    let workload = Workload { weights, features };
    // Whoever gives turns and cannot any more is going to close this page.
    let before_step = async || drop(turns.next().await);
    let report = benchmark::benchmark(Some(&strategy), &options, &workload, steps, before_step).await;
    Ok(to_js(&report.map_err(Rejection::from)?)?)
}
