//! What can go wrong with a model folder.

use std::path::PathBuf;

#[cfg(not(target_family = "wasm"))]
use super::tensor_bundle::BundleError;
use crate::model::config::ConfigError;

/// A model folder, or a tensor file, that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried: "read", "write", …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// Something other than a file stands where a file must go.
    #[error("{} is not a file: move it away, or choose another folder", .path.display())]
    Blocked {
        /// The path in the way.
        path: PathBuf,
    },
    /// A file that every model folder has.
    #[error("{folder} is not a model folder: {file} is missing")]
    MissingFile {
        /// The folder.
        folder: String,
        /// The file's name.
        file: &'static str,
    },
    /// A checkpoint that is not as it was written, or not one of ours.
    #[error("the checkpoint {} cannot be used: {problem}", .folder.display())]
    UnusableCheckpoint {
        /// Its folder.
        folder: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that is not what its checksum was made of.
    #[error(
        "{} is damaged: its checksum is not the one in SHA256SUMS. If you changed it yourself, remove SHA256SUMS",
        .path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Two programs must not write one run.
    #[error("another run is writing to {}: wait for it, or choose another folder", .folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// A text file that is not UTF-8.
    #[error("{file} is not UTF-8 text: the first wrong byte is number {position}")]
    NotText {
        /// The file.
        file: String,
        /// Offset of the first wrong byte.
        position: usize,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A checkpoint of TensorFlow cannot be used.
    #[cfg(not(target_family = "wasm"))]
    #[error(transparent)]
    TensorFlow(#[from] BundleError),
    /// `tokenizer_config.json` cannot be used.
    #[error("{file}: {problem}")]
    TokenizerConfig {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// More words than the model has rows for.
    #[error(
        "{file} has {entries} entries, but \"vocab_size\" of the model is {vocab_size}: they do not belong together"
    )]
    Vocabulary {
        /// The vocabulary file.
        file: String,
        /// Lines in it.
        entries: usize,
        /// Rows of the word embedding.
        vocab_size: usize,
    },
    /// Not a safetensors file, or a damaged one.
    #[error("{file} is not a whole safetensors file: {source}")]
    NotSafetensors {
        /// The file.
        file: String,
        /// What the format's reader says.
        source: ::safetensors::SafeTensorError,
    },
    /// A tensor asked for by name.
    #[error("{file} has no tensor {tensor}")]
    MissingTensor {
        /// The file.
        file: String,
        /// The tensor's name.
        tensor: String,
    },
    /// A tensor of numbers of another type.
    #[error("{file}: tensor {tensor} holds {found}, but {expected} is needed")]
    TensorType {
        /// The file.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// The types that can be read.
        expected: &'static str,
        /// The type found.
        found: String,
    },
    /// A tensor of other sizes than the configuration says.
    #[error("{file}: tensor {tensor} has shape {found:?}, but the configuration makes it {expected:?}")]
    TensorShape {
        /// The file.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// The shape by the configuration.
        expected: Vec<usize>,
        /// The shape found.
        found: Vec<usize>,
    },
    /// The file does not hold the parameters of this model, each once.
    #[error("{file} does not fit the configuration:{}{}", list("missing", .missing), list("unexpected", .unexpected))]
    TensorNames {
        /// The file.
        file: String,
        /// Parameters the configuration asks for that are not there.
        missing: Vec<String>,
        /// Tensors that are no parameter of this model.
        unexpected: Vec<String>,
    },
    /// A folder that is to be new has something in it.
    #[error("{} is not empty: choose another folder", .folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// More than a file of ONNX can hold.
    #[error(
        "as an ONNX file the model would take {bytes} bytes, but such a file has at most {largest}: use a smaller model, \
         or Hugging Face's form"
    )]
    TooLargeForOnnx {
        /// Bytes it would take.
        bytes: u64,
        /// The most there can be.
        largest: u64,
    },
    /// A tensor whose data is not as long as its shape says, or two of one name.
    #[error("cannot store tensor {tensor} of shape {shape:?} and {values} values: {problem}")]
    Unstorable {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Values it holds.
        values: usize,
        /// Why not.
        problem: &'static str,
    },
}

/// ` missing a, b, c and 13 more;` or nothing.
fn list(what: &str, names: &[String]) -> String {
    const SHOWN: usize = 4;
    if names.is_empty() {
        return String::new();
    }
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(" {what} {}{more};", names[..names.len().min(SHOWN)].join(", "))
}
