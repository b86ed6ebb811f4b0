//! The BERT model: its configuration, its parameters, its forward and backward as a list of ops.

pub mod config;
pub mod cost;
pub mod initializer;
pub mod parameters;

mod encoder;
mod heads;
mod inputs;
mod layer_norm;
mod parts;
mod step;

pub use inputs::{BatchShape, Inputs, MAX_SEGMENT_ROWS, StepWord};
pub use parts::{PartSums, Stage};
pub use step::{StepKind, StepPlan, Task};
