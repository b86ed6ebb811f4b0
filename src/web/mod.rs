//! The face to JavaScript: plain objects in, plain objects out. Runs in the worker of the npm package, whose typed
//! functions (`www/src`) are what people call.

mod bench;
mod callback;
mod data;
mod event;
mod guesses;
mod kernels;
mod model;
mod options;
mod panic;
mod plan;
mod prepare;
mod pretrain;
mod rejection;
mod resolve;
mod self_test;
mod survey;
mod text;

use serde::Serialize;
use wasm_bindgen::JsValue;

pub use bench::benchmark;
pub use data::{PretrainingData, create_pretraining_data, train_vocabulary};
pub use kernels::{KernelStore, set_kernel_store};
pub use model::{Model, load_model, load_snapshot};
pub use panic::on_panic;
pub use plan::{measure_step, plan_run};
pub use pretrain::{Conductor, run_bert_pretrain};
pub use self_test::self_test;
pub use survey::{get_distribution_strategy, survey_adapters};

use rejection::Rejection;

/// A value as the plain object that `JSON.parse` would make of its JSON.
fn to_js(value: &impl Serialize) -> Result<JsValue, Rejection> {
    Ok(value.serialize(&serde_wasm_bindgen::Serializer::json_compatible())?)
}
