//! What can go wrong between the host and a device.

/// An error of a device, of its driver, or of a plan that asks for more than it grants.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GpuError {
    /// The adapter refused to open a device.
    #[error("adapter {adapter} refused a device: {message}")]
    DeviceRefused {
        /// Name of the adapter.
        adapter: String,
        /// The driver's words.
        message: String,
    },
    /// One tensor or buffer of the plan is larger than the adapter allows.
    #[error("{what} needs {bytes} bytes, but this adapter's {limit_name} is {limit} bytes")]
    TooLarge {
        /// Which tensor or buffer.
        what: String,
        /// Its size in bytes.
        bytes: u64,
        /// The limit's name in the WebGPU specification.
        limit_name: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// The adapter cannot keep numbers in 2 bytes.
    #[error(
        "fp16 is not possible on {adapter}, which lacks the feature shader-f16; use fp32, or an adapter that has it"
    )]
    NoShaderF16 {
        /// Name of the adapter.
        adapter: String,
    },
    /// The device could not allocate what the plan needs.
    #[error(
        "out of device memory: {adapter} has no room for {bytes} bytes in {buffers} buffers, the largest of them {largest} \
         bytes; use recompute, which does not keep activations, or a smaller batch, sequence or model"
    )]
    OutOfMemory {
        /// Name of the adapter.
        adapter: String,
        /// Bytes of the whole plan.
        bytes: u64,
        /// Number of buffers of the plan.
        buffers: usize,
        /// Bytes of the largest of them.
        largest: u64,
    },
    /// The device or its compiler rejected what it was given, or failed inside.
    #[error("GPU error: {message}")]
    Rejected {
        /// The text of the uncaptured error.
        message: String,
    },
    /// The device is gone.
    #[error("the device was lost: {reason}")]
    Lost {
        /// The driver's words.
        reason: String,
    },
}

impl GpuError {
    /// Is the device gone?
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}
