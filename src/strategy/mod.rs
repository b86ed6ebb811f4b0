//! From the adapters found to a distribution strategy, and the error when there is none.
//!
//! Deriving a strategy is a pure function of a request and a survey, so it can be tried without a device. Here a
//! machine where no driver answered:
//!
//! ```
//! use wgpu_bert::gpu::{Absence, AbsenceCause, Survey};
//! use wgpu_bert::strategy::{StrategyRequest, get_distribution_strategy};
//!
//! let cause = AbsenceCause::NoDriver;
//! let absence = Absence { backend: "vulkan".into(), cause, reason: "no driver answered".into() };
//! let survey = Survey { adapters: Vec::new(), absences: vec![absence] };
//!
//! let error = get_distribution_strategy(StrategyRequest::Auto, &survey, None).unwrap_err();
//! assert!(error.to_string().starts_with("Distribution strategy is not specified."));
//! assert_eq!((error.code(), error.reason()), ("DISTRIBUTION_STRATEGY_NOT_SPECIFIED", "no_adapter"));
//! ```
//!
//! And the usual way to an open device:
//!
//! ```no_run
//! use wgpu_bert::gpu::{DeviceOptions, survey};
//! use wgpu_bert::strategy::{StrategyRequest, get_distribution_strategy};
//!
//! # async fn f() -> Result<(), wgpu_bert::strategy::StrategyError> {
//! let strategy = get_distribution_strategy(StrategyRequest::Auto, &survey().await, None)?;
//! let gpu = strategy.open(DeviceOptions::default()).await?;
//! # Ok(())
//! # }
//! ```

mod adapters;
mod advice;
mod all_reduce;
mod derive;
mod error;
#[cfg(feature = "mpi")]
mod mpi;
mod request;
mod workers;

pub use adapters::shortcoming;
pub use all_reduce::{Algorithm, AlgorithmError, AllReduce, packs, sum};
pub use derive::{Strategy, StrategyKind, get_distribution_strategy};
pub use error::StrategyError;
#[cfg(feature = "mpi")]
pub use mpi::Mpi;
pub use request::StrategyRequest;
pub use workers::{Team, Workers, WorkersError};

#[cfg(test)]
mod tests;
