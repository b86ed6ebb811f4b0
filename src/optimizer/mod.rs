//! AdamW and LAMB on the device, with the learning-rate schedule, global-norm clipping and loss scaling.
//!
//! Once per plan, [`plan_update`] appends the gradients' norm and the update behind the backward pass. Once per
//! step, the host uploads the four words of [`OptimizerOptions::step_words`]; nothing is read back.
//!
//! ```
//! use wgpu_bert::gpu::{KernelFamily, Plan};
//! use wgpu_bert::ops::Scalar;
//! use wgpu_bert::optimizer::{
//!     Guarded, OptimizerKind, OptimizerOptions, Schedule, Slab, Variable, decays, plan_update,
//! };
//!
//! let mut plan = Plan::new(KernelFamily::Register);
//! let slab = Slab {
//!     parameters: plan.persistent("parameters", 192),
//!     gradients: plan.persistent("gradients", 192),
//!     first_moments: plan.persistent("first moments", 192),
//!     second_moments: plan.persistent("second moments", 192),
//! };
//! let [weight, bias] = ["bert.pooler.dense.weight", "bert.pooler.dense.bias"].map(decays);
//! let variables = [
//!     Variable { slab: 0, offset: 0, len: 100, decay: weight },
//!     Variable { slab: 0, offset: 128, len: 10, decay: bias },
//! ];
//! let options = OptimizerOptions::new(OptimizerKind::AdamW);
//! let step = Scalar { tensor: plan.persistent("step", 4), word: 0 };
//! let number = Scalar { tensor: plan.persistent("number of the step", 1), word: 0 };
//! let guarded = Guarded { mlm_loss: plan.persistent("losses", 20), nsp_loss: None, step: number };
//! plan_update(&mut plan, &options, &[slab], &variables, step, guarded, None);
//!
//! let schedule =
//!     Schedule { init_lr: 1e-4, end_lr: 0.0, total_steps: 1000, warmup_steps: 100.0, power: 1.0 };
//! let words = options.step_words(&schedule, 50);
//! assert_eq!(words[0], 0.5e-4);
//! ```

mod error;
mod loss_scale;
mod options;
mod schedule;
mod update;

pub use error::OptimizerError;
pub use loss_scale::{LossScale, LossScaleState};
pub use options::{OnNan, OptimizerKind, OptimizerOptions};
pub use schedule::Schedule;
pub use update::{
    Culprit, Guarded, LossScaling, Norm, RATES_KEPT, Slab, Unscaled, Variable, decays, plan_loss_scale,
    plan_update,
};
