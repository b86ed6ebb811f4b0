//! What of a run lives on its device.

use std::sync::Arc;

use super::evaluate::{Deal, Evaluator};
use super::plan::Wanted;
use super::predict::LivePredictor;
use super::self_test::{bundled, check_device};
use super::{Compiling, PretrainOptions, TrainError, Trainer};
use crate::gpu::Gpu;
use crate::model::{BatchShape, StepPlan};
use crate::strategy::Strategy;

/// What of a run lives on its device: all of it goes when that is lost, and can be made again from a snapshot.
pub(super) struct OnDevice {
    pub trainer: Trainer,
    pub evaluator: Option<Evaluator>,
    pub predictor: LivePredictor,
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
    /// The step that is trained, where it fits the strategy's adapter.
    pub fn plan(&self) -> Result<StepPlan, TrainError> {
        let adapter = &self.strategy.adapter;
        Wanted::training(adapter, self.options).fitting(adapter, self.shape)
    }

    /// Opens the strategy's device.
    pub async fn open(&self) -> Result<Gpu, TrainError> {
        Ok(self.strategy.open(self.options.device).await?)
    }

    /// Opens another one where the adapter of the lost one is still there; otherwise the error says what is not.
    pub async fn open_again(&mut self) -> Result<Gpu, String> {
        let adapter = &mut self.strategy.adapter;
        *adapter =
            adapter.again().await.ok_or_else(|| format!("the adapter {} is not there", adapter.name))?;
        Gpu::open(adapter, self.options.device).await.map_err(|error| error.to_string())
    }

    /// Checks what a device computes, and compiles and allocates everything on it. No weights are written.
    pub async fn set_up(
        &self,
        gpu: Gpu,
        plan: StepPlan,
        compiling: impl FnMut(Compiling),
    ) -> Result<OnDevice, TrainError> {
        let gpu = Arc::new(gpu);
        match self.compile(gpu.clone(), plan, compiling).await {
            Err(error) => Err(error.or_loss_of(&gpu).await),
            set_up => set_up,
        }
    }

    async fn compile(
        &self,
        gpu: Arc<Gpu>,
        plan: StepPlan,
        mut compiling: impl FnMut(Compiling),
    ) -> Result<OnDevice, TrainError> {
        let options = self.options;
        let kernels = plan.plan.kernels();
        let total = kernels.len();
        gpu.compile(&kernels, |done| compiling(Compiling { done, total })).await?;
        check_device(&gpu, &bundled()).await?;
        let trainer = Trainer::compile(gpu, plan).await?;
        let evaluator = match self.evaluation {
            None => None,
            Some(deal) => Some(Evaluator::of_training(&trainer, deal, &options.config).await?),
        };
        let predictor = LivePredictor::new(options.use_next_sentence_label);
        Ok(OnDevice { trainer, evaluator, predictor })
    }
}
