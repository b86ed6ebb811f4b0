//! What of a run lives on its device.

use std::sync::Arc;

use super::evaluate::{Evaluator, HeldOut};
use super::plan::Wanted;
use super::predict::LivePredictor;
use super::self_test::{bundled, check_device};
use super::{Compiling, PretrainOptions, TrainError, Trainer};
use crate::data::Features;
use crate::model::BatchShape;
use crate::strategy::Strategy;

/// What of a run lives on its device: all of it goes when that is lost, and can be made again from a snapshot.
pub(super) struct OnDevice {
    pub trainer: Trainer,
    pub evaluator: Option<HeldOut>,
    pub predictor: LivePredictor,
}

/// How a run is set up on a device.
pub(super) struct Setup<'a> {
    pub strategy: Strategy,
    pub options: &'a PretrainOptions,
    pub shape: BatchShape,
    /// What the model is evaluated on.
    pub held_out: Option<Arc<Features>>,
}

impl Setup<'_> {
    /// Opens the strategy's device, checks what it computes, and compiles and allocates everything. No weights are written.
    pub async fn set_up(&self, mut compiling: impl FnMut(Compiling)) -> Result<OnDevice, TrainError> {
        let Self { strategy: Strategy { adapter, .. }, options, shape, .. } = self;
        let plan = Wanted::training(adapter, options).fitting(adapter, *shape)?;
        let gpu = Arc::new(self.strategy.open(options.device).await?);
        let kernels = plan.plan.kernels();
        let total = kernels.len();
        gpu.compile(&kernels, |done| compiling(Compiling { done, total })).await?;
        check_device(&gpu, &bundled()).await?;
        let trainer = Trainer::compile(gpu, plan).await?;
        let evaluator = match self.held_out.clone() {
            None => None,
            Some(features) => {
                let (config, next_sentence) = (&options.config, options.use_next_sentence_label);
                let batch_size = options.batch_size;
                Some(Evaluator::of_training(&trainer, features, config, batch_size, next_sentence).await?)
            }
        };
        let predictor = LivePredictor::new(options.use_next_sentence_label);
        Ok(OnDevice { trainer, evaluator, predictor })
    }

    /// The same on a new device, where the adapter of the lost one is still there.
    pub async fn set_up_again(&mut self) -> Result<OnDevice, TrainError> {
        let again = self.strategy.adapter.again().await;
        let gone = || TrainError::AdapterGone { adapter: self.strategy.adapter.name.clone() };
        self.strategy.adapter = again.ok_or_else(gone)?;
        self.set_up(|_| {}).await
    }
}
