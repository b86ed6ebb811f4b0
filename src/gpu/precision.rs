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

impl Precision {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }

    /// The type in WGSL.
    pub(super) fn wgsl(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
        }
    }
}
