//! Adapters, devices, the memory plan and the step plan. Knows nothing of maths.
//!
//! A [`Plan`] is a list of dispatches over named tensors, made without a device. [`Plan::memory`] lays the
//! tensors into buffers and compares them with an adapter's limits; [`Plan::compile`] allocates them on a
//! [`Gpu`] and returns a [`Program`] that is encoded again for every step and creates nothing.

mod browser;
mod buffer;
mod device;
mod error;
mod kernels;
mod memory;
mod plan;
mod precision;
mod profile;
mod program;
mod readback;
mod survey;
mod time;
mod upload;

pub use browser::Browser;
pub use device::{DeviceOptions, Gpu};
pub use error::GpuError;
pub use kernels::{KernelFamily, Kernels, RowKernels};
pub use memory::{MemoryPlan, PlannedBuffer, PlannedTensor};
pub use plan::{Dispatch, Kernel, Plan, Shader, Tensor};
pub use precision::Precision;
pub use profile::KernelTime;
pub use program::{BufferRange, Program};
pub use readback::Readback;
pub use survey::{Absence, AbsenceCause, AdapterKind, AdapterReport, Survey, survey};
pub(crate) use time::sleep;
pub use upload::UploadRing;
