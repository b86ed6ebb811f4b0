//! The run: options, the loop, metrics and events. Knows no file system and no browser.

pub mod benchmark;
mod callback;
mod checkpoint;
mod choices;
mod error;
mod evaluate;
mod ledger;
mod measure;
mod options;
mod pack;
mod plan;
mod predict;
pub mod recipe;
mod run;
mod running;
pub mod self_test;
mod snapshot;
pub mod summaries;
mod suspicion;
mod trainer;

pub use callback::{Callback, CallbackFuture, CallbackPoint, CallbackResult, Logs};
pub use checkpoint::{EvaluationRecord, RunRecord, TrainingCheckpoint};
pub use choices::{InstanceChoices, OptimizerChoices};
pub use error::TrainError;
pub use evaluate::{Evaluation, evaluate};
pub use measure::measure_step;
pub use options::{Compiling, Control, Event, OutputBiasInit, PretrainOptions, Progress, Started, Trained};
pub use pack::{StepScalars, dropout_key};
pub use plan::{RunPlan, plan_run};
pub use predict::{Guess, Guesses, fill_masks};
pub use run::{PretrainRun, run_bert_pretrain};
pub use running::Running;
pub use snapshot::Snapshot;
pub use suspicion::Suspicion;
pub use trainer::{StepMetrics, Trainer};
