//! What of a run lives on its device.

use std::sync::Arc;

use super::evaluate::{Deal, Evaluator};
use super::gradients::AllReduceCallbacks;
use super::layout::Layout;
use super::mirror::Mirror;
use super::predict::LivePredictor;
use super::self_test::check_device_once;
use super::{Compiling, PretrainOptions, Share, Snapshot, StepScalars, TrainError, Trainer};
use crate::data::Batch;
use crate::gpu::{Gpu, GpuError};
use crate::model::{BatchShape, StepPlan};
use crate::strategy::{Strategy, StrategyError};

/// What of a run lives on its device: all of it goes when that is lost, and can be made again from a snapshot.
pub(super) struct OnDevice {
    /// That of the first replica, which speaks for all.
    pub trainer: Trainer,
    /// The others.
    pub mirror: Option<Mirror>,
    pub evaluator: Option<Evaluator>,
    pub predictor: LivePredictor,
    pub layout: Layout,
}

impl OnDevice {
    /// Writes a state to all replicas; the result is the number of steps done.
    pub fn restore(&self, snapshot: &Snapshot, options: &PretrainOptions) -> Result<u64, TrainError> {
        for other in self.mirror.iter().flat_map(Mirror::others) {
            snapshot.restore(other, options)?;
        }
        snapshot.restore(&self.trainer, options)
    }

    /// One step on all parts of this process's share of a batch, of which the whole is told too; see [`Trainer::submit`].
    pub async fn submit(
        &mut self,
        parts: &[Batch],
        whole: &Share,
        scalars: &StepScalars,
        read_metrics: bool,
        callbacks: &mut AllReduceCallbacks<'_>,
    ) -> Result<(), TrainError> {
        match &mut self.mirror {
            Some(mirror) => {
                mirror.submit(&mut self.trainer, parts, whole, scalars, read_metrics, callbacks).await
            }
            None => Ok(self.trainer.submit_parts(parts, scalars, read_metrics).await?),
        }
    }
}

/// How a run is set up on a device.
pub(super) struct Setup<'a> {
    pub strategy: Strategy,
    pub options: &'a PretrainOptions,
    pub shape: BatchShape,
    /// How the examples that the model is evaluated on make batches.
    pub evaluation: Option<Deal>,
}

impl Setup<'_> {
    /// How batches are cut, and the step that each replica trains, where they fit the strategy's adapters.
    pub fn plan(&self) -> Result<(Layout, Vec<StepPlan>), TrainError> {
        Layout::new(&self.strategy, self.options, self.shape)
    }

    /// Opens the strategy's devices.
    pub async fn open(&self) -> Result<Vec<Gpu>, TrainError> {
        Ok(self.strategy.open_all(self.options.device).await?)
    }

    /// Opens others where the adapters of the lost ones are still there; otherwise the error says what is not.
    pub async fn open_again(&mut self) -> Result<Vec<Gpu>, String> {
        let again = self.strategy.again().await;
        self.strategy = again.map_err(|adapter| format!("the adapter {adapter} is not there"))?;
        let opened = self.strategy.open_all(self.options.device).await;
        opened.map_err(|error| match error {
            StrategyError::DeviceRefused { adapter, message } => {
                GpuError::DeviceRefused { adapter, message }.to_string()
            }
            other => other.to_string(),
        })
    }

    /// Checks what the devices compute, and compiles and allocates everything on them. No weights are written.
    pub async fn set_up(
        &self,
        gpus: Vec<Gpu>,
        plan: (Layout, Vec<StepPlan>),
        compiling: impl FnMut(Compiling),
    ) -> Result<OnDevice, TrainError> {
        let gpus: Vec<_> = gpus.into_iter().map(Arc::new).collect();
        match self.compile(&gpus, plan, compiling).await {
            Err(mut error) => {
                for gpu in &gpus {
                    error = error.or_loss_of(gpu).await;
                }
                Err(error)
            }
            set_up => set_up,
        }
    }

    async fn compile(
        &self,
        gpus: &[Arc<Gpu>],
        (layout, plans): (Layout, Vec<StepPlan>),
        mut compiling: impl FnMut(Compiling),
    ) -> Result<OnDevice, TrainError> {
        let options = self.options;
        let mut trainers = Vec::with_capacity(plans.len());
        for (gpu, plan) in gpus.iter().zip(plans) {
            let kernels = plan.kernels();
            let total = kernels.len();
            gpu.compile(&kernels, |done| compiling(Compiling { done, total })).await?;
            check_device_once(gpu, options.device).await?;
            trainers.push(Trainer::compile(gpu.clone(), plan).await?);
        }
        let trainer = trainers.remove(0);
        let distribution = &options.distribution;
        let mirror = distribution
            .passes_host(gpus.len() * self.strategy.workers())
            .then(|| Mirror::new(&trainer, trainers, distribution, options.optimizer.clip_norm));
        let evaluator = match self.evaluation {
            None => None,
            Some(deal) => Some(Evaluator::of_training(&trainer, deal, &options.config).await?),
        };
        let predictor = LivePredictor::new(options.use_next_sentence_label);
        Ok(OnDevice { trainer, mirror, evaluator, predictor, layout })
    }
}
