//! The numbers in which a step keeps what it computes.

/// How activations and their gradients are stored, and what matrix products read. Weights that are trained, their
/// gradients and moments, sums and losses are f32 whichever it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 4 bytes each.
    #[default]
    F32,
    /// 2 bytes each, on adapters with the feature `shader-f16`.
    F16,
}
