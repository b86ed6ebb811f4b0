//! The strategy, and how it follows from a request and a survey.

use crate::gpu::{AdapterKind, AdapterReport, DeviceOptions, Gpu, GpuError, Survey};

use super::{StrategyError, StrategyRequest, Team, adapters};

/// How a run is spread over devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyKind {
    /// One replica on one adapter.
    OneDevice,
    /// Several replicas that make the same updates, of their gradients' sum.
    Mirrored,
    /// The same over several processes.
    MultiWorkerMirrored,
}

impl StrategyKind {
    /// The name in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneDevice => StrategyRequest::OneDevice.name(),
            Self::Mirrored => StrategyRequest::Mirrored.name(),
            Self::MultiWorkerMirrored => StrategyRequest::MultiWorkerMirrored.name(),
        }
    }
}

/// What was derived: which adapter trains, and why.
#[derive(Debug, Clone)]
pub struct Strategy {
    /// How the run is spread.
    pub kind: StrategyKind,
    /// The adapter that trains; that of the first of several replicas.
    pub adapter: AdapterReport,
    /// Those of the other replicas. All have the limits that all can keep, since the replicas' tensors are cut alike.
    pub others: Vec<AdapterReport>,
    /// The processes that each have such replicas, where there are several.
    pub team: Option<Team>,
    /// Why this one, in words.
    pub why: String,
    /// What the user should be told before the run starts.
    pub notice: Option<String>,
}

impl Strategy {
    /// Open the strategy's device.
    ///
    /// # Errors
    /// [`StrategyError::DeviceRefused`] when the driver says no, [`StrategyError::NoSuchKernels`] when the adapter cannot
    /// run those of the options.
    pub async fn open(&self, options: DeviceOptions) -> Result<Gpu, StrategyError> {
        open(&self.adapter, options).await
    }

    /// Open the devices of all replicas, the first one first.
    ///
    /// # Errors
    /// As [`Strategy::open`], for the first that a driver refuses.
    pub async fn open_all(&self, options: DeviceOptions) -> Result<Vec<Gpu>, StrategyError> {
        let mut devices = Vec::new();
        for adapter in self.replicas() {
            devices.push(open(adapter, options).await?);
        }
        Ok(devices)
    }

    /// The adapter of every replica, the first one first.
    pub fn replicas(&self) -> impl Iterator<Item = &AdapterReport> {
        std::iter::once(&self.adapter).chain(&self.others)
    }

    /// The same, to be told what was measured.
    pub(crate) fn replicas_mut(&mut self) -> impl Iterator<Item = &mut AdapterReport> {
        std::iter::once(&mut self.adapter).chain(&mut self.others)
    }

    /// The names of their adapters, with ` + ` between.
    pub fn names(&self) -> String {
        self.replicas().map(|adapter| &adapter.name[..]).collect::<Vec<_>>().join(" + ")
    }

    /// The first replica without the others.
    pub fn first_alone(&self) -> Self {
        Self { kind: StrategyKind::OneDevice, others: Vec::new(), team: None, ..self.clone() }
    }

    /// One of several processes that each have as many replicas, on adapters of their own. All make the same calls of the
    /// run, with the same options and data; every one of them does a part of each batch.
    #[must_use]
    pub fn in_team(self, team: Team) -> Self {
        Self { team: (team.count() > 1).then_some(team), ..self }
    }

    /// How many processes there are.
    pub fn workers(&self) -> usize {
        self.team.as_ref().map_or(1, Team::count)
    }

    /// So many replicas on each adapter of a mirrored strategy.
    ///
    /// # Errors
    /// [`StrategyError::Unsupported`] for several on an adapter of a strategy of another kind.
    pub fn with_replicas_per_adapter(self, count: usize) -> Result<Self, StrategyError> {
        match (self.kind, count) {
            (_, 1) => Ok(self),
            (StrategyKind::Mirrored | StrategyKind::MultiWorkerMirrored, _) => {
                let adapters =
                    self.replicas().flat_map(|adapter| std::iter::repeat_n(adapter.clone(), count));
                Ok(self.clone().on(adapters.collect()))
            }
            (StrategyKind::OneDevice, _) => Err(StrategyError::Unsupported {
                name: "several replicas on one_device",
                instead: "use --distribution_strategy mirrored for several replicas",
            }),
        }
    }

    /// The same on adapters of a new survey.
    ///
    /// # Errors
    /// The name of an adapter that is no longer there.
    pub(crate) async fn again(&self) -> Result<Self, String> {
        let mut adapters = Vec::new();
        for adapter in self.replicas() {
            adapters.push(adapter.again().await.ok_or_else(|| adapter.name.clone())?);
        }
        Ok(self.clone().on(adapters))
    }

    /// The same on other adapters, of which there is at least one.
    fn on(self, mut adapters: Vec<AdapterReport>) -> Self {
        if let Some(buffer) = adapters.iter().map(|adapter| adapter.max_buffer_size).min() {
            let binding = adapters.iter().map(|adapter| adapter.max_binding_size).min().unwrap_or(buffer);
            for adapter in &mut adapters {
                (adapter.max_buffer_size, adapter.max_binding_size) = (buffer, binding);
            }
        }
        let others = adapters.split_off(adapters.len().min(1));
        match adapters.pop() {
            Some(adapter) => Self { adapter, others, ..self },
            None => self,
        }
    }
}

async fn open(adapter: &AdapterReport, options: DeviceOptions) -> Result<Gpu, StrategyError> {
    let (wanted, families) = (options.kernels_on(adapter).products, adapter.families());
    if !families.contains(&wanted) {
        return Err(StrategyError::NoSuchKernels {
            adapter: adapters::describe(adapter),
            wanted: wanted.name(),
            available: families.iter().map(|family| family.name()).collect(),
        });
    }
    Gpu::open(adapter, options).await.map_err(|error| StrategyError::DeviceRefused {
        adapter: adapters::describe(adapter),
        message: match error {
            GpuError::DeviceRefused { message, .. } => message,
            other => other.to_string(),
        },
    })
}

/// What to do for several processes where there is no way between them.
const NO_MPI: &str = if cfg!(target_family = "wasm") {
    "pages do not train together: use auto, one_device or mirrored"
} else {
    "this build has no MPI, which carries gradients from process to process: install Open MPI and libclang \
     (libopenmpi-dev, openmpi-bin and libclang-dev on Debian and Ubuntu), build with `--features mpi`, and start it with \
     mpirun; on one machine use mirrored"
};

/// Derive a strategy. `adapter` is an index of the survey, or a part of a name (upper and lower case are the same); for
/// replicas on several adapters, indices or names with commas between.
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
        StrategyRequest::Auto if adapter.is_none() => match adapters::equal_gpus(survey) {
            several if several.len() > 1 => Ok(mirrored(request, several)),
            _ => one_device(request, survey, adapter),
        },
        StrategyRequest::Auto | StrategyRequest::OneDevice => one_device(request, survey, adapter),
        StrategyRequest::Off => Err(StrategyError::NotGiven),
        StrategyRequest::MultiWorkerMirrored if !cfg!(feature = "mpi") => unsupported(NO_MPI),
        StrategyRequest::Mirrored | StrategyRequest::MultiWorkerMirrored => match adapter {
            Some(wanted) if !survey.adapters.is_empty() => {
                Ok(mirrored(request, adapters::all_named(survey, wanted)?))
            }
            _ => match adapters::gpus(survey) {
                gpus if gpus.is_empty() => Ok(mirrored(request, vec![adapters::best(survey)?])),
                gpus => Ok(mirrored(request, gpus)),
            },
        },
        StrategyRequest::Tpu => {
            unsupported("a TPU is not reached through WebGPU: use auto or one_device on a GPU")
        }
        StrategyRequest::ParameterServer | StrategyRequest::CentralStorage => unsupported(
            "parameters live on the device that trains, without a server between: use auto or one_device",
        ),
    }
}

/// A replica on each of these adapters, of which there is at least one.
fn mirrored(request: StrategyRequest, adapters: Vec<&AdapterReport>) -> Strategy {
    let names: Vec<_> = adapters.iter().map(|adapter| adapters::describe(adapter)).collect();
    let why = format!("{}: a replica on each of {}", request.name(), names.join(" and "));
    let kind = match request {
        StrategyRequest::MultiWorkerMirrored => StrategyKind::MultiWorkerMirrored,
        _ => StrategyKind::Mirrored,
    };
    let (others, notice) = (Vec::new(), slow(&adapters));
    let strategy = Strategy { kind, adapter: adapters[0].clone(), others, team: None, why, notice };
    strategy.on(adapters.into_iter().cloned().collect())
}

/// What to tell where only the processor computes.
fn slow(adapters: &[&AdapterReport]) -> Option<String> {
    let names: Vec<_> = adapters.iter().map(|adapter| &adapter.name[..]).collect();
    let verb = if names.len() == 1 { "computes" } else { "compute" };
    let all_software = adapters.iter().all(|adapter| adapter.kind == AdapterKind::Software);
    all_software
        .then(|| format!("No GPU in use: {} {verb} on the processor, which is slow.", names.join(" and ")))
}

fn one_device(
    request: StrategyRequest,
    survey: &Survey,
    wanted: Option<&str>,
) -> Result<Strategy, StrategyError> {
    let (adapter, why) = match wanted {
        // Without any adapter the answers of the backends say more than "not found".
        Some(wanted) if !survey.adapters.is_empty() => {
            let several = || adapters::all_named(survey, wanted).is_ok_and(|several| several.len() > 1);
            let adapter = match adapters::named(survey, wanted) {
                Err(StrategyError::AdapterNotFound { .. }) if several() => {
                    return Err(StrategyError::Unsupported {
                        name: "several adapters without mirrored",
                        instead: "use --distribution_strategy mirrored for several adapters",
                    });
                }
                named => named?,
            };
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
    let (kind, others, notice) = (StrategyKind::OneDevice, Vec::new(), slow(&[adapter]));
    Ok(Strategy { kind, adapter: adapter.clone(), others, team: None, why, notice })
}
