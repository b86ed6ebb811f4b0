//! The strategy, and how it follows from a request and a survey.

use crate::gpu::{AdapterKind, AdapterReport, DeviceOptions, Gpu, GpuError, Survey};

use super::{StrategyError, StrategyRequest, adapters};

/// How a run is spread over devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyKind {
    /// One replica on one adapter.
    OneDevice,
}

impl StrategyKind {
    /// The name in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneDevice => StrategyRequest::OneDevice.name(),
        }
    }
}

/// What was derived: which adapter trains, and why.
#[derive(Debug, Clone)]
pub struct Strategy {
    /// How the run is spread.
    pub kind: StrategyKind,
    /// The adapter that trains.
    pub adapter: AdapterReport,
    /// Why this one, in words.
    pub why: String,
    /// What the user should be told before the run starts.
    pub notice: Option<String>,
}

impl Strategy {
    /// Open the strategy's device.
    ///
    /// # Errors
    /// [`StrategyError::DeviceRefused`] when the driver says no.
    pub async fn open(&self, options: DeviceOptions) -> Result<Gpu, StrategyError> {
        Gpu::open(&self.adapter, options).await.map_err(|error| StrategyError::DeviceRefused {
            adapter: adapters::describe(&self.adapter),
            message: match error {
                GpuError::DeviceRefused { message, .. } => message,
                other => other.to_string(),
            },
        })
    }
}

/// Derive a strategy. `adapter` is an index of the survey, or a part of a name (upper and lower case are the same).
///
/// # Errors
/// When there is no usable adapter or not the one named, and for every request that is not built here.
pub fn get_distribution_strategy(
    request: StrategyRequest,
    survey: &Survey,
    adapter: Option<&str>,
) -> Result<Strategy, StrategyError> {
    let unsupported = |instead| Err(StrategyError::Unsupported { name: request.name(), instead });
    match request {
        StrategyRequest::Auto | StrategyRequest::OneDevice => one_device(request, survey, adapter),
        StrategyRequest::Off => Err(StrategyError::NotGiven),
        StrategyRequest::Mirrored | StrategyRequest::MultiWorkerMirrored => {
            unsupported("this version trains on one device: use auto or one_device")
        }
        StrategyRequest::Tpu => {
            unsupported("a TPU is not reached through WebGPU: use auto or one_device on a GPU")
        }
        StrategyRequest::ParameterServer | StrategyRequest::CentralStorage => unsupported(
            "parameters live on the device that trains, without a server between: use auto or one_device",
        ),
    }
}

fn one_device(
    request: StrategyRequest,
    survey: &Survey,
    wanted: Option<&str>,
) -> Result<Strategy, StrategyError> {
    let (adapter, why) = match wanted {
        // Without any adapter the answers of the backends say more than "not found".
        Some(wanted) if !survey.adapters.is_empty() => {
            let adapter = adapters::named(survey, wanted)?;
            (adapter, format!("{}: the adapter named by --adapter {wanted}", request.name()))
        }
        _ => {
            let adapter = adapters::best(survey)?;
            let why = match adapters::choices(survey).len() {
                1 => format!("{}: the only adapter, {}", request.name(), adapter.kind.name()),
                n => format!("{}: the best of {n} adapters, {}", request.name(), adapter.kind.name()),
            };
            (adapter, why)
        }
    };
    let notice = (adapter.kind == AdapterKind::Software)
        .then(|| format!("No GPU in use: {} computes on the processor, which is slow.", adapter.name));
    Ok(Strategy { kind: StrategyKind::OneDevice, adapter: adapter.clone(), why, notice })
}
