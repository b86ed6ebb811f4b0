//! What can be wrong with an optimizer's numbers.

/// A number training could not work with.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{what} is {value:?}, but must be {allowed}")]
pub struct OptimizerError {
    /// Which number, by the name of its field.
    pub what: &'static str,
    /// What it was.
    pub value: f64,
    /// What it may be.
    pub allowed: &'static str,
}

impl OptimizerError {
    /// The error, unless `holds`.
    pub(super) fn unless(
        holds: bool,
        what: &'static str,
        value: f64,
        allowed: &'static str,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self { what, value, allowed }) }
    }
}
