//! A model as an ONNX file that fills masks:
//!
//! ```text
//! input_ids, attention_mask, token_type_ids   int64 [batch_size, sequence_length]
//! logits                                      f32   [batch_size, sequence_length, vocab_size]
//! ```
//!
//! The names are those of Hugging Face's exports, so programs that know these take the file. Both sizes are open; a
//! sequence may be as long as the model has positions. Operators are those of version 17, the first with layer
//! normalization: onnxruntime has them since 1.12, natively and for the web.

mod builder;
mod fill_mask;
mod proto;

use std::collections::HashMap;

use prost::Message;

use serde_json::json;

use super::model_folder::{CONFIG, TOKENIZER, TOKENIZER_CONFIG};
use super::{CheckpointError, ModelFolder, NamedTensor};
use crate::model::config::BertConfig;
use crate::model::parameters::parameter_shapes;
use proto::{Dimension, FLOAT, Graph, INT64, Model, OperatorSet, Shape, Tensor, TensorType, Type, ValueInfo};

/// Where transformers.js looks for the model.
const MODEL: &str = "onnx/model.onnx";

/// Version 17 of the operators came with version 8 of the format.
const OPERATORS: i64 = 17;
const FORMAT: i64 = 8;

/// What protocol buffers can hold, and so a file of ONNX. Weights in files beside it would go further, but the programs in
/// browsers that these files are for cannot.
const LARGEST: u64 = i32::MAX as u64;

impl ModelFolder {
    /// The files of a folder as transformers.js takes it, by name, with the model as an ONNX file that fills masks. What
    /// only predicts next sentences is left out.
    ///
    /// # Errors
    /// As [`ModelFolder::to_files`], and [`CheckpointError::TooLargeForOnnx`].
    pub fn into_onnx_files(self) -> Result<Vec<(&'static str, Vec<u8>)>, CheckpointError> {
        self.check()?;
        let mut config = self.config.to_hugging_face("BertForMaskedLM");
        // In browsers it asks for a quantized model unless it is told otherwise.
        config["transformers.js_config"] = json!({"dtype": "fp32"});
        let mut files = vec![
            (CONFIG, format!("{config:#}\n").into_bytes()),
            (TOKENIZER_CONFIG, self.tokenizer_config().into_bytes()),
        ];
        files.extend(self.tokenizer_json.map(|text| (TOKENIZER, text.into_bytes())));
        files.push((MODEL, write(&self.config, self.tensors)?));
        Ok(files)
    }
}

/// The file of a model, given its parameters in any order.
fn write(config: &BertConfig, tensors: Vec<NamedTensor>) -> Result<Vec<u8>, CheckpointError> {
    let parameters = parameter_shapes(config, false);
    let mut model = model(config);
    let weights: usize = parameters.iter().map(|(name, shape)| encoded_len(name, shape)).sum();
    let bytes = model.encoded_len() as u64 + weights as u64;
    if bytes > LARGEST {
        return Err(CheckpointError::TooLargeForOnnx { bytes, largest: LARGEST });
    }
    let mut tensors: HashMap<_, _> = tensors.into_iter().map(|tensor| (tensor.name, tensor.data)).collect();
    let constants = &mut model.graph.get_or_insert_default().initializer;
    for (name, shape) in parameters {
        let Some(data) = tensors.remove(&name) else {
            return Err(CheckpointError::MissingTensor { file: "the model".into(), tensor: name });
        };
        constants.push(Tensor {
            dims: shape.iter().map(|&size| size as i64).collect(),
            data_type: FLOAT,
            name,
            raw_data: bytemuck::cast_slice(&data).to_vec(),
        });
    }
    Ok(model.encode_to_vec())
}

/// Bytes of a parameter in the file, at most.
fn encoded_len(name: &str, shape: &[usize]) -> usize {
    const NUMBERS: usize = 64; // Sizes, lengths and tags.
    4 * shape.iter().product::<usize>() + name.len() + NUMBERS
}

/// Everything but the parameters.
fn model(config: &BertConfig) -> Model {
    let graph = fill_mask::build(config);
    let open = |name: &str| Dimension { dim_param: Some(name.into()), dim_value: None };
    let tokens = [open("batch_size"), open("sequence_length")];
    let size = Dimension { dim_value: Some(config.vocab_size as i64), dim_param: None };
    let value = |name: &str, elem_type: i32, dim: Vec<Dimension>| {
        let tensor_type = TensorType { elem_type, shape: Some(Shape { dim }) };
        ValueInfo { name: name.into(), kind: Some(Type { tensor_type: Some(tensor_type) }) }
    };
    let inputs = [fill_mask::INPUT_IDS, fill_mask::ATTENTION_MASK, fill_mask::TOKEN_TYPE_IDS];
    Model {
        ir_version: FORMAT,
        producer_name: env!("CARGO_PKG_NAME").into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        graph: Some(Graph {
            node: graph.nodes,
            name: "fill-mask".into(),
            initializer: graph.constants,
            input: inputs.map(|name| value(name, INT64, tokens.to_vec())).to_vec(),
            output: vec![value(fill_mask::LOGITS, FLOAT, [&tokens[..], &[size]].concat())],
        }),
        opset_import: vec![OperatorSet { domain: String::new(), version: OPERATORS }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::model_folder::tests::small_model;
    use crate::model::config::Activation;

    /// The graph in the file of a model.
    fn graph_of(model: ModelFolder) -> Graph {
        let files = model.into_onnx_files().unwrap();
        let (_, bytes) = files.iter().find(|(name, _)| *name == MODEL).unwrap();
        let model = Model::decode(bytes.as_slice()).unwrap();
        assert_eq!((model.ir_version, model.opset_import.len()), (8, 1));
        assert_eq!((model.opset_import[0].domain.as_str(), model.opset_import[0].version), ("", 17));
        model.graph.unwrap()
    }

    fn names<T>(list: &[T], name: impl Fn(&T) -> &String) -> Vec<&str> {
        list.iter().map(|item| name(item).as_str()).collect()
    }

    #[test]
    fn files_are_where_transformers_js_looks_for_them() {
        let model = small_model(1.0);
        let files = model.clone().into_onnx_files().unwrap();
        let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["config.json", "tokenizer_config.json", "tokenizer.json", "onnx/model.onnx"]);
        let config = String::from_utf8(files[0].1.clone()).unwrap();
        assert_eq!(BertConfig::from_json(&config, "").unwrap(), model.config);
        let config: serde_json::Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config["architectures"], json!(["BertForMaskedLM"]));
        assert_eq!(config["transformers.js_config"]["dtype"], "fp32");
    }

    #[test]
    fn inputs_and_output_are_open_in_batch_and_sequence() {
        let graph = graph_of(small_model(1.0));
        let described = |values: &[ValueInfo]| -> Vec<String> {
            let sizes = |value: &ValueInfo| {
                let tensor = value.kind.as_ref().unwrap().tensor_type.as_ref().unwrap();
                let size = |dim: &Dimension| match (&dim.dim_param, dim.dim_value) {
                    (Some(name), None) => name.clone(),
                    (None, Some(size)) => size.to_string(),
                    other => panic!("{other:?}"),
                };
                let sizes: Vec<_> = tensor.shape.as_ref().unwrap().dim.iter().map(size).collect();
                format!("{} {} [{}]", value.name, tensor.elem_type, sizes.join(", "))
            };
            values.iter().map(sizes).collect()
        };
        let inputs = ["input_ids", "attention_mask", "token_type_ids"];
        assert_eq!(
            described(&graph.input),
            inputs.map(|name| format!("{name} 7 [batch_size, sequence_length]"))
        );
        assert_eq!(described(&graph.output), ["logits 1 [batch_size, sequence_length, 7]"]);
    }

    #[test]
    fn every_parameter_is_there_once_and_used() {
        let model = small_model(0.5);
        let graph = graph_of(model.clone());
        for (name, shape) in parameter_shapes(&model.config, false) {
            let found: Vec<_> = graph.initializer.iter().filter(|tensor| tensor.name == name).collect();
            let [tensor] = found[..] else { panic!("{} of {name}", found.len()) };
            assert!(tensor.dims.iter().copied().eq(shape.iter().map(|&size| size as i64)), "{name}");
            assert_eq!(tensor.raw_data, 0.5_f32.to_le_bytes().repeat(shape.iter().product()), "{name}");
            let uses = graph.node.iter().filter(|node| node.input.contains(&name)).count();
            // The words are the decoder, too.
            assert_eq!(uses, 1 + usize::from(name == "bert.embeddings.word_embeddings.weight"), "{name}");
        }
        let floats =
            graph.initializer.iter().filter(|tensor| tensor.dims.len() == 2 && tensor.data_type == FLOAT);
        assert_eq!(floats.count(), 3 + 6 + 1, "the matrices: tables, a layer, the transform");
    }

    #[test]
    fn nodes_come_after_what_they_need() {
        for hidden_act in [Activation::GeluErf, Activation::GeluTanh, Activation::Relu, Activation::Silu] {
            let mut model = small_model(1.0);
            model.config.hidden_act = hidden_act;
            let graph = graph_of(model);
            let mut known = names(&graph.initializer, |tensor| &tensor.name);
            known.extend(names(&graph.input, |value| &value.name));
            for node in &graph.node {
                for input in &node.input {
                    assert!(known.contains(&input.as_str()), "{} needs {input}", node.name);
                }
                assert_eq!(node.output, [node.name.as_str()]);
                known.push(&node.name);
            }
            let count = known.len();
            known.sort_unstable();
            known.dedup();
            assert_eq!(known.len(), count, "a name stands for two things");
            assert_eq!(graph.node.last().unwrap().name, "logits");
            let gates = ["Erf", "Tanh", "Relu", "Sigmoid"];
            let found: Vec<_> =
                graph.node.iter().filter(|node| gates.contains(&node.op_type.as_str())).collect();
            let expected = match hidden_act {
                Activation::GeluErf => "Erf",
                Activation::GeluTanh => "Tanh",
                Activation::Relu => "Relu",
                Activation::Silu => "Sigmoid",
            };
            // Of the layer and of the head.
            assert!(found.len() == 2 && found.iter().all(|node| node.op_type == expected), "{hidden_act:?}");
        }
    }

    #[test]
    fn what_no_file_of_onnx_can_hold_is_refused() {
        // A word embedding of 2 GiB and a little.
        let config = BertConfig::preset("base", 700_000).unwrap();
        let error = write(&config, Vec::new()).unwrap_err().to_string();
        assert!(error.contains("would take 24") && error.contains("at most 2147483647"), "{error}");
        // The published large model is no such.
        let large = BertConfig {
            hidden_size: 1024,
            num_hidden_layers: 24,
            num_attention_heads: 16,
            intermediate_size: 4096,
            ..BertConfig::preset("base", 30522).unwrap()
        };
        assert!(matches!(write(&large, Vec::new()), Err(CheckpointError::MissingTensor { .. })));
    }
}
