//! What a caller adds to a run at the reference's points: the start and the end of the run, of an epoch, and of a loop,
//! which is up to `steps_per_loop` steps within an epoch.
//!
//! ```text
//! on_train_begin
//!   on_epoch_begin(1)
//!     on_batch_begin(0)  on_batch_end(9)      a loop of 10 steps; an evaluation falls between its steps and its end
//!     on_batch_begin(10) on_batch_end(13)     the epoch of 14 steps cuts the next one short
//!   on_epoch_end(1)
//!   on_epoch_begin(2) …
//! on_train_end
//! ```
//!
//! The reference calls `on_epoch_end` twice for the last epoch; here every epoch that is completed ends once. A run that
//! goes on within an epoch does not begin it again, and one that is stopped within an epoch does not end it. Where the
//! device is lost and steps are done again, nothing is called again.

use std::error::Error;
use std::future::{Future, ready};
use std::pin::Pin;

use super::{Control, Evaluation, Progress, Running};

/// [`Control::Stop`] ends the run as the reference's `stop_training` does: after the loop under way, whose end is called
/// yet. An error ends it at once, as
/// [`TrainError::Callback`](super::TrainError::Callback), unless it is that the device was lost: then the callback is called
/// again when the run comes by that point on another one.
pub type CallbackResult = Result<Control, Box<dyn Error + Send + Sync>>;

/// What [`Callback::call`] gives.
pub type CallbackFuture<'a> = Pin<Box<dyn Future<Output = CallbackResult> + 'a>>;

/// Where in a run a callback is called. Epochs count from 1, steps from 0, as in the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CallbackPoint {
    /// Everything is set up.
    TrainBegin,
    /// An epoch's first step follows.
    EpochBegin {
        /// The epoch.
        epoch: u64,
    },
    /// A loop of steps follows.
    BatchBegin {
        /// Its first step.
        step: u64,
    },
    /// The steps of a loop are done.
    BatchEnd {
        /// Its last step.
        step: u64,
        /// What it measured.
        logs: Logs,
    },
    /// An epoch's last step is done.
    EpochEnd {
        /// The epoch.
        epoch: u64,
        /// What its last loop measured.
        logs: Logs,
    },
    /// The run is over, finished or stopped.
    TrainEnd,
}

impl CallbackPoint {
    /// Its place among those that come after the same number of steps.
    pub(super) fn place(&self) -> u8 {
        match self {
            Self::TrainBegin => 0,
            Self::BatchEnd { .. } => 1,
            Self::EpochEnd { .. } => 2,
            Self::EpochBegin { .. } => 3,
            Self::BatchBegin { .. } => 4,
            Self::TrainEnd => 5,
        }
    }

    /// The name of its method.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TrainBegin => "on_train_begin",
            Self::EpochBegin { .. } => "on_epoch_begin",
            Self::BatchBegin { .. } => "on_batch_begin",
            Self::BatchEnd { .. } => "on_batch_end",
            Self::EpochEnd { .. } => "on_epoch_end",
            Self::TrainEnd => "on_train_end",
        }
    }
}

/// Measurements of a loop. As in the reference they are of that loop alone, at the end of an epoch too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logs {
    /// Means over its steps.
    pub progress: Progress,
    /// The evaluation after its last step, where one was due.
    pub evaluation: Option<Evaluation>,
}

/// Something to be called during a run; every method does nothing unless it is written.
///
/// While there are callbacks, the run waits for the device at the end of every loop, so that the measurements of a loop
/// are there before the next one begins. Nothing is read within a loop.
///
/// ```
/// use wgpu_bert::train::{Callback, CallbackResult, Control, Logs};
///
/// /// Ends a run whose loss has become small enough.
/// struct GoodEnough(f32);
///
/// impl Callback for GoodEnough {
///     fn on_batch_end(&mut self, step: u64, logs: &Logs) -> CallbackResult {
///         println!("step {step}: loss {}", logs.progress.loss);
///         Ok(if logs.progress.loss < self.0 { Control::Stop } else { Control::Continue })
///     }
/// }
/// ```
pub trait Callback {
    /// Everything is set up.
    ///
    /// # Errors
    /// Whatever is to end the run; so it is with all methods.
    fn on_train_begin(&mut self) -> CallbackResult {
        Ok(Control::Continue)
    }

    /// The first step of `epoch`, from 1, follows.
    fn on_epoch_begin(&mut self, _epoch: u64) -> CallbackResult {
        Ok(Control::Continue)
    }

    /// A loop follows whose first step is `step`, from 0.
    fn on_batch_begin(&mut self, _step: u64) -> CallbackResult {
        Ok(Control::Continue)
    }

    /// A loop is done whose last step was `step`, from 0.
    fn on_batch_end(&mut self, _step: u64, _logs: &Logs) -> CallbackResult {
        Ok(Control::Continue)
    }

    /// The last step of `epoch`, from 1, is done.
    fn on_epoch_end(&mut self, _epoch: u64, _logs: &Logs) -> CallbackResult {
        Ok(Control::Continue)
    }

    /// The run is over, finished or stopped. Its answer changes nothing, but its error is the run's.
    fn on_train_end(&mut self) -> CallbackResult {
        Ok(Control::Continue)
    }

    /// Calls the method of a point. To be written only by who must wait for the answer, or wants to use the run as it is:
    /// ask the model, or take a snapshot.
    fn call<'a>(&'a mut self, point: CallbackPoint, _running: &'a mut Running<'_>) -> CallbackFuture<'a> {
        let answer = match point {
            CallbackPoint::TrainBegin => self.on_train_begin(),
            CallbackPoint::EpochBegin { epoch } => self.on_epoch_begin(epoch),
            CallbackPoint::BatchBegin { step } => self.on_batch_begin(step),
            CallbackPoint::BatchEnd { step, logs } => self.on_batch_end(step, &logs),
            CallbackPoint::EpochEnd { epoch, logs } => self.on_epoch_end(epoch, &logs),
            CallbackPoint::TrainEnd => self.on_train_end(),
        };
        Box::pin(ready(answer))
    }
}
