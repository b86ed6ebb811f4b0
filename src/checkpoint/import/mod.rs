//! Weights to start a run from: what a file of tensors holds of a model, whoever wrote it.
//!
//! Files of `BertModel` lack the prefix `bert.` and the heads, those of `BertForMaskedLM` lack pooler and next-sentence
//! head, and so do checkpoints of TensorFlow that hold the encoder alone. A head that a file lacks as a whole is for the
//! caller to initialise; anything else that does not fit is an error.

mod hugging_face;
mod layout;
mod source;
mod tensorflow;

use super::names::check_names;
use super::{CheckpointError, NamedTensor, TensorFile};
use crate::model::config::BertConfig;
use crate::model::parameters::parameter_shapes;
use layout::Layout;
pub use source::{ImportSource, ImportWeights};

/// The start of the names of what a file may lack.
const HEADS: [&str; 3] = ["bert.pooler.", "cls.predictions.", "cls.seq_relationship."];

/// What a file holds of a model. Names and shapes are the model's.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The parameters that were found.
    pub matched: Vec<NamedTensor>,
    /// Parameters of heads that the file lacks, and their shapes.
    pub missing: Vec<(String, Vec<usize>)>,
    /// Tensors of the file that are no part of such a model, like a classifier, and their shapes.
    pub unexpected: Vec<(String, Vec<usize>)>,
}

/// Finds the parameters of a model in a file of tensors or a checkpoint.
///
/// # Errors
/// [`CheckpointError::TensorNames`] when a parameter is missing other than with its whole head, or a layer is there that
/// the model has not; [`CheckpointError::TensorShape`] or [`CheckpointError::TensorType`]; and whatever is wrong with the
/// file.
pub fn import(config: &BertConfig, source: &mut ImportSource) -> Result<Imported, CheckpointError> {
    match &mut source.weights {
        ImportWeights::Safetensors(bytes) => {
            let file = TensorFile::parse(bytes, &source.name)?;
            hugging_face::survey(&file).import(config, &source.name, |name| file.f32(name))
        }
        ImportWeights::TensorFlow(bundle) => {
            tensorflow::survey(bundle)?.import(config, &source.name, |name| bundle.f32(name))
        }
    }
}

/// The tensors of a file, told apart by name.
struct Survey {
    parameters: Vec<Found>,
    /// Names and shapes of those that are no part of any such model.
    unexpected: Vec<(String, Vec<usize>)>,
}

/// A tensor of a file that should be a parameter.
struct Found {
    /// The name that the model has for it.
    parameter: String,
    /// Its name in the file.
    tensor: String,
    /// Its shape in the file.
    shape: Vec<usize>,
    layout: Layout,
}

impl Survey {
    /// Compares with what the model needs, then reads that with `read`.
    fn import(
        self,
        config: &BertConfig,
        source_name: &str,
        mut read: impl FnMut(&str) -> Result<NamedTensor, CheckpointError>,
    ) -> Result<Imported, CheckpointError> {
        let Self { parameters, unexpected } = self;
        let (expected, missing): (Vec<_>, Vec<_>) =
            parameter_shapes(config, true).into_iter().partition(|(name, _)| {
                let head = HEADS.iter().find(|head| name.starts_with(*head));
                head.is_none_or(|head| parameters.iter().any(|found| found.parameter.starts_with(head)))
            });
        let names: Vec<_> = parameters.iter().map(|found| found.parameter.as_str()).collect();
        check_names(&expected, &names, source_name)?;
        let find =
            |name: &str| parameters.iter().find(|found| found.parameter == name).expect("it was checked");
        for (name, shape) in &expected {
            let found = find(name);
            let expected = found.layout.shape_in_file(shape, config);
            if found.shape != expected {
                return Err(CheckpointError::TensorShape {
                    file: source_name.into(),
                    tensor: found.tensor.clone(),
                    expected,
                    found: found.shape.clone(),
                });
            }
        }
        let matched = expected.into_iter().map(|(name, shape)| {
            let found = find(&name);
            let data = found.layout.in_model(read(&found.tensor)?.data, &shape);
            Ok(NamedTensor { name, shape, data })
        });
        Ok(Imported { matched: matched.collect::<Result<_, CheckpointError>>()?, missing, unexpected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::safetensors;

    fn config() -> BertConfig {
        BertConfig { hidden_size: 8, intermediate_size: 12, ..BertConfig::preset("tiny", 20).unwrap() }
    }

    /// All parameters, each filled with its number.
    fn whole() -> Vec<NamedTensor> {
        let shapes = parameter_shapes(&config(), true).into_iter().zip(1_u8..);
        shapes
            .map(|((name, shape), number)| NamedTensor {
                data: vec![number.into(); shape.iter().product()],
                name,
                shape,
            })
            .collect()
    }

    fn imported(tensors: &[NamedTensor]) -> Result<Imported, CheckpointError> {
        let weights = ImportWeights::Safetensors(safetensors::write(tensors)?);
        let name = "m.safetensors".into();
        let mut source = ImportSource {
            name,
            weights,
            config: None,
            vocabulary: None,
            do_lower_case: None,
            strip_accents: None,
        };
        import(&config(), &mut source)
    }

    fn only(starts: &[&str]) -> Vec<NamedTensor> {
        whole().into_iter().filter(|t| starts.iter().any(|start| t.name.starts_with(start))).collect()
    }

    #[test]
    fn files_of_every_class_are_read() {
        let encoder = ["bert.embeddings", "bert.encoder", "bert.pooler"];
        // BertForPreTraining, BertForMaskedLM, BertModel with and without the prefix, and without a pooler.
        for (kept, prefix) in [
            (&["bert.", "cls."][..], true),
            (&["bert.embeddings", "bert.encoder", "cls.predictions"], true),
            (&encoder, true),
            (&encoder, false),
            (&encoder[..2], false),
        ] {
            let expected = only(kept);
            let mut tensors = expected.clone();
            let buffer = NamedTensor {
                name: "bert.embeddings.position_ids".into(),
                shape: vec![1, 512],
                data: vec![0.0; 512],
            };
            tensors.push(buffer);
            if !prefix {
                tensors.iter_mut().for_each(|tensor| tensor.name = tensor.name.replace("bert.", ""));
            }
            let got = imported(&tensors).unwrap();
            assert_eq!(got.matched, expected);
            assert_eq!(got.matched.len() + got.missing.len(), whole().len());
            assert!(got.unexpected.is_empty(), "{:?}", got.unexpected);
        }
    }

    #[test]
    fn layer_norms_may_bear_their_old_names() {
        let mut tensors = whole();
        for tensor in &mut tensors {
            tensor.name = tensor.name.replace("LayerNorm.weight", "LayerNorm.gamma");
            tensor.name = tensor.name.replace("LayerNorm.bias", "LayerNorm.beta");
        }
        assert_eq!(imported(&tensors).unwrap().matched, whole());
    }

    #[test]
    fn what_stands_beside_the_model_is_listed() {
        let classifier =
            NamedTensor { name: "classifier.weight".into(), shape: vec![3, 8], data: vec![0.0; 24] };
        let got = imported(&[whole(), vec![classifier]].concat()).unwrap();
        assert_eq!(got.unexpected, [("classifier.weight".to_owned(), vec![3, 8])]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let message = |tensors: &[NamedTensor]| imported(tensors).unwrap_err().to_string();
        let mut deeper = whole();
        let layer = only(&["bert.encoder.layer.1."]).into_iter();
        deeper.extend(layer.map(|t| NamedTensor { name: t.name.replace("layer.1.", "layer.2."), ..t }));
        assert!(message(&deeper).contains("unexpected bert.encoder.layer.2."), "{}", message(&deeper));
        let mut half = whole();
        half.retain(|tensor| tensor.name != "cls.predictions.bias");
        assert!(message(&half).contains("missing cls.predictions.bias"), "{}", message(&half));
        assert!(
            message(&only(&["cls."])).contains("missing bert.embeddings."),
            "{}",
            message(&only(&["cls."]))
        );
        let mut wider = whole();
        wider[0] = NamedTensor { shape: vec![21, 8], data: vec![0.0; 168], ..wider[0].clone() };
        assert!(
            message(&wider).contains("[21, 8], but the configuration makes it [20, 8]"),
            "{}",
            message(&wider)
        );
    }
}
