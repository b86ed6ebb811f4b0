//! `--init_checkpoint`: the weights of another program or run, and what was made of them.

use std::fmt::Write;

use wgpu_bert::checkpoint::NamedTensor;
use wgpu_bert::checkpoint::import::{ImportSource, ImportWeights, Imported, import};
use wgpu_bert::model::config::Activation;
use wgpu_bert::train::PretrainOptions;

use super::super::error::CliError;
use super::super::output;

/// The parameters that the source has; tells which, which not, and what else there is.
pub fn weights(mut source: ImportSource, options: &PretrainOptions) -> Result<Vec<NamedTensor>, CliError> {
    if let Some(config) =
        source.config.as_ref().filter(|config| config.hidden_act != options.config.hidden_act)
    {
        return Err(CliError::OtherActivation {
            origin: source.name,
            theirs: config.hidden_act.hugging_face_name(),
            ours: options.config.hidden_act.hugging_face_name(),
        });
    }
    let Imported { matched, missing, unexpected } = import(&options.config, &mut source)?;
    let shapes: Vec<_> = matched.iter().map(|tensor| (tensor.name.clone(), tensor.shape.clone())).collect();
    output::note(format_args!("Weights of {}:{}", source.name, list(&shapes)));
    let of_tensorflow = matches!(source.weights, ImportWeights::TensorFlow(_));
    if of_tensorflow && options.config.hidden_act == Activation::GeluTanh {
        output::note("Its activation is gelu_new, the tanh form, which TensorFlow's BERT calls gelu.");
    }
    for (what, tensors) in [
        ("Not in it, so they start at random", missing),
        ("In it, but no part of the model, so left out", unexpected),
    ] {
        if !tensors.is_empty() {
            output::note(format_args!("{what}:{}", list(&tensors)));
        }
    }
    Ok(matched)
}

/// A line for each name and shape, but one for all layers that are alike.
pub fn list(tensors: &[(String, Vec<usize>)]) -> String {
    let mut lines: Vec<(String, &[usize], usize)> = Vec::new();
    for (name, shape) in tensors {
        let name = without_layer(name);
        match lines.iter_mut().find(|(other, other_shape, _)| *other == name && other_shape == shape) {
            Some((.., count)) => *count += 1,
            None => lines.push((name, shape, 1)),
        }
    }
    let mut text = String::new();
    for (name, shape, count) in lines {
        let times = if count > 1 { format!(", {count} times") } else { String::new() };
        let _ = write!(text, "\n  {name} {shape:?}{times}"); // A string takes all.
    }
    text
}

/// `encoder.layer.3.output` → `encoder.layer.*.output`.
fn without_layer(name: &str) -> String {
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.split('.').map(|part| if is_number(part) { "*" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_that_are_alike_take_one_line() {
        let tensors =
            ["bert.encoder.layer.0.a", "b", "bert.encoder.layer.10.a"].map(|name| (name.into(), vec![2, 3]));
        assert_eq!(list(&tensors), "\n  bert.encoder.layer.*.a [2, 3], 2 times\n  b [2, 3]");
    }
}
