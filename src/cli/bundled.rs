//! What belongs to the bundled corpus: a place for the model, and sentences to try it on.

/// Where the model of a run goes that was told neither text nor model.
pub const MODEL_DIR: &str = "wgpu-bert-model";

/// Sentences of the bundled corpus with a word to guess: Moses, Israel, heaven.
pub const PROBES: [&str; 3] = [
    "the lord spake unto [MASK], saying",
    "the children of [MASK]",
    "in the beginning god created the [MASK] and the earth",
];
