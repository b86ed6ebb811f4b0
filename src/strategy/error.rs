//! The error of a run without a strategy.

use crate::gpu::Absence;

/// Why there is no strategy. The message starts with `Distribution strategy is not specified.` whatever the reason.
#[derive(Debug, Clone, thiserror::Error)]
#[error("Distribution strategy is not specified. {}\nWhat to do: {}", self.explanation(), self.advice())]
#[non_exhaustive]
pub enum StrategyError {
    /// The trainer got none, or the request was `off`.
    NotGiven,
    /// Nothing to train on.
    NoAdapter {
        /// What each backend without an adapter answered.
        absences: Vec<Absence>,
        /// Adapters that are there but cannot run the kernels, and what they lack.
        unusable: Vec<(String, String)>,
    },
    /// No adapter is called that.
    AdapterNotFound {
        /// The name or index asked for.
        wanted: String,
        /// What there is.
        available: Vec<String>,
    },
    /// Several adapters are called that.
    AdapterAmbiguous {
        /// The name asked for.
        wanted: String,
        /// Those that match.
        matches: Vec<String>,
    },
    /// The adapter named cannot run the kernels.
    AdapterUnusable {
        /// The adapter.
        adapter: String,
        /// What it lacks.
        shortcoming: String,
    },
    /// The adapter is there, its driver opens no device.
    DeviceRefused {
        /// The adapter.
        adapter: String,
        /// The driver's words.
        message: String,
    },
    /// The adapter cannot run the kernels asked for.
    NoSuchKernels {
        /// The adapter.
        adapter: String,
        /// What was asked for.
        wanted: &'static str,
        /// What it can run.
        available: Vec<&'static str>,
    },
    /// A strategy that exists, but not here.
    Unsupported {
        /// Its name.
        name: &'static str,
        /// Why, and what to use instead.
        instead: &'static str,
    },
    /// No strategy is called that.
    Unknown {
        /// The name asked for.
        name: String,
    },
}

impl StrategyError {
    /// The same for every reason.
    pub fn code(&self) -> &'static str {
        "DISTRIBUTION_STRATEGY_NOT_SPECIFIED"
    }

    /// The reason as a word that stays the same from version to version.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotGiven => "not_given",
            Self::NoAdapter { absences, .. } => {
                absences.first().map_or("no_adapter", |absence| absence.cause.name())
            }
            Self::AdapterNotFound { .. } | Self::AdapterAmbiguous { .. } | Self::AdapterUnusable { .. } => {
                "no_adapter"
            }
            Self::DeviceRefused { .. } | Self::NoSuchKernels { .. } => "device_refused",
            Self::Unsupported { .. } | Self::Unknown { .. } => "unsupported_strategy",
        }
    }

    fn explanation(&self) -> String {
        match self {
            Self::NotGiven => "None was given, or it was turned off.".into(),
            Self::NoAdapter { absences, unusable } => {
                let answers = absences.iter().map(|absence| (&absence.backend, &absence.reason));
                let unusable = unusable.iter().map(|(adapter, why)| (adapter, why));
                let lines = answers.chain(unusable).map(|(who, what)| format!("{who}: {what}"));
                format!("No adapter to train on was found.{}", list(lines))
            }
            Self::AdapterNotFound { wanted, available } => {
                format!("No adapter is called \"{wanted}\". There are:{}", list(available))
            }
            Self::AdapterAmbiguous { wanted, matches } => {
                format!("\"{wanted}\" could be any of:{}", list(matches))
            }
            Self::AdapterUnusable { adapter, shortcoming } => {
                format!("Adapter {adapter} cannot run the kernels: {shortcoming}.")
            }
            Self::DeviceRefused { adapter, message } => {
                format!("Adapter {adapter} is there, but its driver opened no device: {message}.")
            }
            Self::NoSuchKernels { adapter, wanted, available } => {
                format!("Adapter {adapter} cannot run the {wanted} kernels, but {}.", available.join(", "))
            }
            Self::Unsupported { name, .. } => format!("The strategy \"{name}\" is not available."),
            Self::Unknown { name } => format!(
                "There is no strategy \"{name}\"; there are auto, one_device, mirrored and multi_worker_mirrored (and \
                 off, which is this error)."
            ),
        }
    }
}

fn list(lines: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    lines.into_iter().map(|line| format!("\n  {line}")).collect()
}
