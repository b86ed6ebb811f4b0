//! Whether a file holds the parameters of a model, under Hugging Face's names.

use std::collections::{HashMap, HashSet};

use super::{CheckpointError, NamedTensor, TensorFile};
use crate::model::config::BertConfig;
use crate::model::parameters::parameter_shapes;

/// Tensors that older files hold beside the parameters: the tied decoder, and a table of 0, 1, 2, ….
pub(super) const REDUNDANT: [&str; 3] =
    ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "bert.embeddings.position_ids"];

/// Reads the parameters of a model from a tensor file, in the order of [`parameter_shapes`].
///
/// A file without pooler and next-sentence head, as `BertForMaskedLM` has, gives what it holds. The tied decoder and
/// `position_ids` of older files are passed over.
///
/// # Errors
/// [`CheckpointError::TensorNames`], [`CheckpointError::TensorShape`] or [`CheckpointError::TensorType`].
pub fn read_parameters(config: &BertConfig, file: &TensorFile) -> Result<Vec<NamedTensor>, CheckpointError> {
    let mut found: Vec<(&str, Vec<usize>)> =
        file.names().into_iter().filter_map(|name| Some((name, file.shape(name)?))).collect();
    found.retain(|(name, _)| !REDUNDANT.contains(name));
    let next_sentence = found.iter().any(|(name, _)| is_of_next_sentence(name));
    let expected = parameter_shapes(config, next_sentence);
    check(&expected, &found, file.source_name())?;
    expected.iter().map(|(name, _)| file.f32(name)).collect()
}

/// Checks that `tensors` are all parameters of `BertForPreTraining`, each in its shape. `source_name` is for messages.
///
/// # Errors
/// [`CheckpointError::TensorNames`] or [`CheckpointError::TensorShape`].
pub fn check_complete(
    config: &BertConfig,
    tensors: &[NamedTensor],
    source_name: &str,
) -> Result<(), CheckpointError> {
    check_parameters(config, true, tensors, source_name)
}

/// The same, or of `BertForMaskedLM`, which has no pooler and no next-sentence head.
pub(super) fn check_parameters(
    config: &BertConfig,
    next_sentence: bool,
    tensors: &[NamedTensor],
    source_name: &str,
) -> Result<(), CheckpointError> {
    let found: Vec<_> = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.shape.clone())).collect();
    check(&parameter_shapes(config, next_sentence), &found, source_name)
}

/// Whether a parameter is one that only `BertForPreTraining` has.
pub fn is_of_next_sentence(name: &str) -> bool {
    name.starts_with("bert.pooler.") || name.starts_with("cls.seq_relationship.")
}

fn check(
    expected: &[(String, Vec<usize>)],
    found: &[(&str, Vec<usize>)],
    source_name: &str,
) -> Result<(), CheckpointError> {
    let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
    check_names(expected, &names, source_name)?;
    let expected: HashMap<_, _> = expected.iter().map(|(name, shape)| (name.as_str(), shape)).collect();
    match found.iter().find(|(name, shape)| expected[name] != shape) {
        None => Ok(()),
        Some((name, shape)) => Err(CheckpointError::TensorShape {
            file: source_name.into(),
            tensor: (*name).to_owned(),
            expected: expected[name].clone(),
            found: shape.clone(),
        }),
    }
}

/// Checks that `found` are the names of `expected`.
pub(super) fn check_names(
    expected: &[(String, Vec<usize>)],
    found: &[&str],
    source_name: &str,
) -> Result<(), CheckpointError> {
    let found_names: HashSet<_> = found.iter().copied().collect();
    let expected_names: HashSet<_> = expected.iter().map(|(name, _)| name.as_str()).collect();
    let missing = expected.iter().filter(|(name, _)| !found_names.contains(name.as_str()));
    let missing: Vec<String> = missing.map(|(name, _)| name.clone()).collect();
    let unexpected = found.iter().filter(|name| !expected_names.contains(*name));
    let unexpected: Vec<String> = unexpected.map(|name| (*name).to_owned()).collect();
    match missing.is_empty() && unexpected.is_empty() {
        true => Ok(()),
        false => Err(CheckpointError::TensorNames { file: source_name.into(), missing, unexpected }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::safetensors;

    fn config() -> BertConfig {
        BertConfig { hidden_size: 8, intermediate_size: 12, ..BertConfig::preset("tiny", 20).unwrap() }
    }

    fn zeros(next_sentence: bool) -> Vec<NamedTensor> {
        let shapes = parameter_shapes(&config(), next_sentence).into_iter();
        shapes
            .map(|(name, shape)| NamedTensor { data: vec![0.0; shape.iter().product()], name, shape })
            .collect()
    }

    fn read(tensors: &[NamedTensor]) -> Result<Vec<NamedTensor>, CheckpointError> {
        let bytes = safetensors::write(tensors)?;
        read_parameters(&config(), &TensorFile::parse(&bytes, "m.safetensors")?)
    }

    #[test]
    fn both_kinds_of_file_are_read_in_order() {
        for next_sentence in [true, false] {
            assert_eq!(read(&zeros(next_sentence)).unwrap(), zeros(next_sentence));
        }
    }

    #[test]
    fn redundant_tensors_are_passed_over() {
        let mut tensors = zeros(true);
        for (name, shape) in REDUNDANT.into_iter().zip([vec![20, 8], vec![20], vec![1, 512]]) {
            tensors.push(NamedTensor { data: vec![1.0; shape.iter().product()], name: name.into(), shape });
        }
        assert_eq!(read(&tensors).unwrap(), zeros(true));
    }

    #[test]
    fn missing_and_unexpected_tensors_are_listed() {
        let mut tensors = zeros(true);
        tensors[5].name = "other".into();
        assert_eq!(
            read(&tensors).unwrap_err().to_string(),
            "m.safetensors does not fit the configuration: \
             missing bert.encoder.layer.0.attention.self.query.weight; unexpected other;"
        );
        // Half a next-sentence head is not "no head".
        let half: Vec<_> = zeros(true).into_iter().filter(|t| !t.name.starts_with("cls.seq")).collect();
        let error = read(&half).unwrap_err().to_string();
        assert!(
            error.ends_with("missing cls.seq_relationship.weight, cls.seq_relationship.bias;"),
            "{error}"
        );
        let error = read(&[]).unwrap_err().to_string();
        assert!(
            error.contains("token_type_embeddings.weight, bert.embeddings.LayerNorm.weight and 38 more;"),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_shape_is_told_with_both_shapes() {
        let mut tensors = zeros(true);
        let word = tensors.iter_mut().find(|t| t.name.contains("word")).unwrap();
        *word = NamedTensor { shape: vec![21, 8], data: vec![0.0; 168], ..word.clone() };
        let told = "tensor bert.embeddings.word_embeddings.weight has shape [21, 8], \
                    but the configuration makes it [20, 8]";
        assert_eq!(read(&tensors).unwrap_err().to_string(), format!("m.safetensors: {told}"));
        let error = check_complete(&config(), &tensors, "the model").unwrap_err().to_string();
        assert_eq!(error, format!("the model: {told}"));
    }

    #[test]
    fn completeness_wants_the_next_sentence_head() {
        check_complete(&config(), &zeros(true), "").unwrap();
        let error = check_complete(&config(), &zeros(false), "").unwrap_err().to_string();
        assert!(error.contains("missing bert.pooler.dense.weight"), "{error}");
    }
}
