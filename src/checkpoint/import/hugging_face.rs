//! Safetensors files, by the names that Hugging Face's classes gave them over the years.

use super::super::TensorFile;
use super::super::names::REDUNDANT;
use super::{Found, Layout, Survey};

/// Which tensors of a file are parameters of a model.
pub(super) fn survey(file: &TensorFile) -> Survey {
    let mut survey = Survey { parameters: Vec::new(), unexpected: Vec::new() };
    for tensor in file.names() {
        let shape = file.shape(tensor).unwrap_or_default();
        let parameter = our_name(tensor);
        if REDUNDANT.contains(&parameter.as_str()) {
            continue;
        }
        let tensor = tensor.to_owned();
        // Layers, embeddings and heads must be the model's; what stands beside them need not concern it.
        if ["bert.", "cls."].iter().any(|part| parameter.starts_with(part)) {
            survey.parameters.push(Found { parameter, tensor, shape, layout: Layout::Same });
        } else {
            survey.unexpected.push((tensor, shape));
        }
    }
    survey
}

/// The name of a tensor in a `BertForPreTraining` of today: with the prefix of the encoder, and layer norms' weight and
/// bias, which were gamma and beta once.
fn our_name(name: &str) -> String {
    let is_encoder = ["embeddings.", "encoder.", "pooler."].iter().any(|part| name.starts_with(part));
    let name = if is_encoder { format!("bert.{name}") } else { name.to_owned() };
    match name.rsplit_once("LayerNorm.") {
        Some((start, "gamma")) => format!("{start}LayerNorm.weight"),
        Some((start, "beta")) => format!("{start}LayerNorm.bias"),
        _ => name,
    }
}
