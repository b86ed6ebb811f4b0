//! What a run goes on from when its device is lost.
//!
//! At the end of a loop, as often as that takes a hundredth of the time, the run keeps its state in the host's memory.
//! When the device is lost, a new one takes the state kept last, and the steps since then are done again: they have the
//! same numbers, so they are not told a second time.

use std::time::Duration;

use web_time::Instant;

use super::ledger::Ledger;
use super::on_device::{OnDevice, Setup};
use super::{Compiling, Event, Running, Snapshot, StepMetrics, TrainError};
use crate::gpu::{Gpu, sleep};

/// Losses of the device without a new step in between, after which a run ends.
const LOSSES: u32 = 3;
/// The time that keeping the state may take is this part of the whole.
const SHARE: u32 = 100;

/// How long a run waits before each attempt but the first to open another device: a driver that restarts opens none for
/// some seconds.
const WAITS: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

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

    /// Everything on the first device, or on the one after it where that is lost before the run has begun.
    ///
    /// # Errors
    /// Why it cannot be set up, or as [`Recovery::another_device`].
    pub async fn first_device(&mut self, mut tell: impl FnMut(Event)) -> Result<OnDevice, TrainError> {
        let plan = self.setup.plan()?;
        let gpus = self.setup.open().await?;
        let compiling = |compiling: Compiling| tell(Event::Compiling(compiling));
        match self.setup.set_up(gpus, plan, compiling).await {
            Err(error) if error.is_loss() => {
                self.another_device(self.step(), error, async |event| tell(event)).await
            }
            set_up => set_up,
        }
    }

    /// Everything on a new device, after one was lost by `error` in a run that had told of `told` steps.
    ///
    /// # Errors
    /// [`TrainError::LostAgain`] where it is one loss too many, [`TrainError::NotReplaced`], or why it cannot be set up.
    pub async fn another_device(
        &mut self,
        told: u64,
        mut error: TrainError,
        mut tell: impl AsyncFnMut(Event),
    ) -> Result<OnDevice, TrainError> {
        loop {
            self.count_loss(told, &error)?;
            tell(Event::DeviceLost { step: self.step(), message: error.device_message() }).await;
            let gpus = self.open_again(&mut tell).await?;
            match self.setup.set_up(gpus, self.setup.plan()?, |_| {}).await {
                Err(again) if again.is_of_device() => error = again,
                set_up => return set_up,
            }
        }
    }

    fn count_loss(&mut self, told: u64, error: &TrainError) -> Result<(), TrainError> {
        self.losses = if told > self.lost_at { 1 } else { self.losses + 1 };
        self.lost_at = told;
        match self.losses {
            LOSSES => {
                Err(TrainError::LostAgain { losses: LOSSES, step: told, message: error.device_message() })
            }
            _ => Ok(()),
        }
    }

    async fn open_again(&mut self, tell: &mut impl AsyncFnMut(Event)) -> Result<Vec<Gpu>, TrainError> {
        let mut waits = WAITS.into_iter();
        loop {
            let why = match self.setup.open_again().await {
                Ok(gpus) => return Ok(gpus),
                Err(why) => why,
            };
            let Some(after) = waits.next() else { return Err(TrainError::NotReplaced { why }) };
            tell(Event::DeviceAwaited { why, after }).await;
            sleep(after).await;
        }
    }

    /// Writes the weights and moments that were kept; the result is the number of steps done.
    ///
    /// # Errors
    /// [`TrainError::OtherModel`], where they are of another one.
    pub fn write_state(&self, device: &OnDevice) -> Result<u64, TrainError> {
        device.restore(&self.kept.snapshot, self.setup.options)
    }

    /// Puts a run onto a new device, as it was when it was kept.
    ///
    /// # Errors
    /// As [`Recovery::write_state`].
    pub fn restore(&self, running: &mut Running<'a>, device: OnDevice) -> Result<(), TrainError> {
        let Kept { ledger, measured, .. } = &self.kept;
        running.step = self.write_state(&device)?;
        running.device = device;
        running.untold = measured.len();
        running.measured.clone_from(measured);
        running.ledger.go_back_to(ledger);
        Ok(())
    }
}
