//! What a user may ask for.

use std::str::FromStr;

use super::StrategyError;

/// A strategy by name. The names are TensorFlow's, and `auto`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StrategyRequest {
    /// Whatever suits the adapters found.
    #[default]
    Auto,
    /// The best adapter, or the one named.
    OneDevice,
    /// Every GPU of this machine, gradients averaged.
    Mirrored,
    /// One process per worker, gradients averaged over all.
    MultiWorkerMirrored,
    /// No strategy, which is an error.
    Off,
    /// Google's accelerator.
    Tpu,
    /// Workers that ask servers for the parameters.
    ParameterServer,
    /// Parameters on the host, computation on the devices.
    CentralStorage,
}

const NAMES: [(&str, StrategyRequest); 8] = [
    ("auto", StrategyRequest::Auto),
    ("one_device", StrategyRequest::OneDevice),
    ("mirrored", StrategyRequest::Mirrored),
    ("multi_worker_mirrored", StrategyRequest::MultiWorkerMirrored),
    ("off", StrategyRequest::Off),
    ("tpu", StrategyRequest::Tpu),
    ("parameter_server", StrategyRequest::ParameterServer),
    ("central_storage", StrategyRequest::CentralStorage),
];

impl StrategyRequest {
    /// The name it is asked for by.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, request)| *request == self).map_or("", |(name, _)| name)
    }
}

impl FromStr for StrategyRequest {
    type Err = StrategyError;

    /// Upper and lower case are the same.
    fn from_str(name: &str) -> Result<Self, StrategyError> {
        let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
        known.map(|(_, request)| *request).ok_or_else(|| StrategyError::Unknown { name: name.into() })
    }
}
