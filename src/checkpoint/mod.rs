//! Model folders: safetensors with Hugging Face names, configuration, vocabulary and tokenizer files.
//!
//! [`model_folder`] holds a trained model and puts it on a disk, [`safetensors`] reads and writes lists of tensors, and
//! [`names`] checks that they are a model's. `import` takes weights from other programs, TensorFlow's checkpoints by way
//! of `tensor_bundle`. `RunFolder` keeps the newest checkpoints of a run, each with a checksum.

#[cfg(not(target_family = "wasm"))]
mod checksums;
mod error;
#[cfg(not(target_family = "wasm"))]
pub mod import;
pub mod model_folder;
pub mod names;
#[cfg(not(target_family = "wasm"))]
mod new_folder;
#[cfg(not(target_family = "wasm"))]
mod onnx;
#[cfg(not(target_family = "wasm"))]
mod run_folder;
pub mod safetensors;
#[cfg(not(target_family = "wasm"))]
mod storage;
#[cfg(not(target_family = "wasm"))]
pub mod tensor_bundle;

pub use error::CheckpointError;
pub use model_folder::ModelFolder;
#[cfg(not(target_family = "wasm"))]
pub use new_folder::NewFolder;
#[cfg(not(target_family = "wasm"))]
pub use run_folder::RunFolder;
pub use safetensors::{NamedTensor, TensorFile};
