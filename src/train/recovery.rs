//! What a run goes on from when its device is lost.
//!
//! At the end of a loop, as often as that takes a hundredth of the time, the run keeps its state in the host's memory.
//! When the device is lost, a new one takes the state kept last, and the steps since then are done again: they have the
//! same numbers, so they are not told a second time.

use std::time::Duration;

use web_time::Instant;

use super::ledger::Ledger;
use super::on_device::Setup;
use super::{Running, Snapshot, StepMetrics, TrainError};

/// Losses of the device without a new step in between, after which a run ends.
const LOSSES: u32 = 3;
/// The time that keeping the state may take is this part of the whole.
const SHARE: u32 = 100;

/// A run between two loops.
struct Kept<'a> {
    snapshot: Snapshot,
    ledger: Ledger<'a>,
    /// Of the loop before, where it was not told yet.
    measured: Vec<StepMetrics>,
    at: Instant,
    /// The time it took.
    took: Duration,
}

/// Keeps the state of a run, and makes it anew.
pub(super) struct Recovery<'a> {
    setup: Setup<'a>,
    kept: Kept<'a>,
    losses: u32,
    /// Steps told of when the device was lost last.
    lost_at: u64,
}

impl<'a> Recovery<'a> {
    /// Of a run that starts from `snapshot`.
    pub fn new(setup: Setup<'a>, snapshot: Snapshot, ledger: Ledger<'a>) -> Self {
        let lost_at = snapshot.step;
        let (measured, at, took) = (Vec::new(), Instant::now(), Duration::ZERO);
        Self { setup, kept: Kept { snapshot, ledger, measured, at, took }, losses: 0, lost_at }
    }

    /// Where the run goes on, in steps.
    pub fn step(&self) -> u64 {
        self.kept.snapshot.step
    }

    /// Keeps the state of a run between two loops, if it is time for that.
    ///
    /// # Errors
    /// As [`Running::snapshot`].
    pub async fn keep(&mut self, running: &mut Running<'a>) -> Result<(), TrainError> {
        if self.kept.at.elapsed() < self.kept.took * SHARE {
            return Ok(());
        }
        let at = Instant::now();
        let measured = running.measured().await?.to_vec();
        let snapshot = running.snapshot().await?;
        let ledger = running.ledger.clone();
        self.kept = Kept { snapshot, ledger, measured, at, took: at.elapsed() };
        Ok(())
    }

    /// Counts a loss of the device in a run that had told of `told` steps.
    ///
    /// # Errors
    /// [`TrainError::LostAgain`] where it is one too many.
    pub fn count_loss(&mut self, told: u64, error: &TrainError) -> Result<(), TrainError> {
        self.losses = if told > self.lost_at { 1 } else { self.losses + 1 };
        self.lost_at = told;
        match self.losses {
            LOSSES => {
                Err(TrainError::LostAgain { losses: LOSSES, step: told, message: error.device_message() })
            }
            _ => Ok(()),
        }
    }

    /// Puts a run onto a new device, as it was when it was kept.
    ///
    /// # Errors
    /// [`TrainError::AdapterGone`], or why it cannot be set up.
    pub async fn restore(&mut self, running: &mut Running<'a>) -> Result<(), TrainError> {
        let device = self.setup.set_up_again().await?;
        let Kept { snapshot, ledger, measured, .. } = &self.kept;
        running.step = snapshot.restore(&device.trainer)?;
        running.device = device;
        running.untold = measured.len();
        running.measured.clone_from(measured);
        running.ledger.go_back_to(ledger);
        Ok(())
    }
}
