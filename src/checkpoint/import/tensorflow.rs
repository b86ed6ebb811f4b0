//! Checkpoints of TensorFlow: by the names of google-research's BERT where a TensorFlow 1 program saved variables by
//! name, by the objects of the reference's `run_pretraining` where a TensorFlow 2 program saved objects.

use std::io::{Read, Seek};

use super::super::CheckpointError;
use super::super::tensor_bundle::{BundleError, Node, ObjectGraph, TensorBundle};
use super::{Found, Layout, Survey};

/// Layers of the encoder that are numbered before the first transformer layer.
const FIRST_LAYER: usize = 4;

/// A head or an embedding: path from its object to the variable, the parameter's name, layout.
type Paths = &'static [(&'static str, &'static str, Layout)];

const EMBEDDINGS: Paths = &[
    ("layer_with_weights-0/embeddings", "bert.embeddings.word_embeddings.weight", Layout::Same),
    ("layer_with_weights-1/embeddings", "bert.embeddings.position_embeddings.weight", Layout::Same),
    ("layer_with_weights-2/embeddings", "bert.embeddings.token_type_embeddings.weight", Layout::Same),
    ("layer_with_weights-3/gamma", "bert.embeddings.LayerNorm.weight", Layout::Same),
    ("layer_with_weights-3/beta", "bert.embeddings.LayerNorm.bias", Layout::Same),
];

const LAYER: Paths = &[
    ("_attention_layer/_query_dense/kernel", "attention.self.query.weight", Layout::HeadsOut),
    ("_attention_layer/_query_dense/bias", "attention.self.query.bias", Layout::HeadsBias),
    ("_attention_layer/_key_dense/kernel", "attention.self.key.weight", Layout::HeadsOut),
    ("_attention_layer/_key_dense/bias", "attention.self.key.bias", Layout::HeadsBias),
    ("_attention_layer/_value_dense/kernel", "attention.self.value.weight", Layout::HeadsOut),
    ("_attention_layer/_value_dense/bias", "attention.self.value.bias", Layout::HeadsBias),
    ("_attention_layer/_output_dense/kernel", "attention.output.dense.weight", Layout::HeadsIn),
    ("_attention_layer/_output_dense/bias", "attention.output.dense.bias", Layout::Same),
    // Where checkpoints of 2019 and 2020 have it.
    ("_attention_output_dense/kernel", "attention.output.dense.weight", Layout::HeadsIn),
    ("_attention_output_dense/bias", "attention.output.dense.bias", Layout::Same),
    ("_attention_layer_norm/gamma", "attention.output.LayerNorm.weight", Layout::Same),
    ("_attention_layer_norm/beta", "attention.output.LayerNorm.bias", Layout::Same),
    ("_intermediate_dense/kernel", "intermediate.dense.weight", Layout::Kernel),
    ("_intermediate_dense/bias", "intermediate.dense.bias", Layout::Same),
    ("_output_dense/kernel", "output.dense.weight", Layout::Kernel),
    ("_output_dense/bias", "output.dense.bias", Layout::Same),
    ("_output_layer_norm/gamma", "output.LayerNorm.weight", Layout::Same),
    ("_output_layer_norm/beta", "output.LayerNorm.bias", Layout::Same),
];

const DENSE: Paths = &[("kernel", "weight", Layout::Kernel), ("bias", "bias", Layout::Same)];

const MASKED_LM: Paths = &[
    ("dense/kernel", "cls.predictions.transform.dense.weight", Layout::Kernel),
    ("dense/bias", "cls.predictions.transform.dense.bias", Layout::Same),
    ("layer_norm/gamma", "cls.predictions.transform.LayerNorm.weight", Layout::Same),
    ("layer_norm/beta", "cls.predictions.transform.LayerNorm.bias", Layout::Same),
    ("output_bias.Sbias", "cls.predictions.bias", Layout::Same),
];

/// Which tensors of a checkpoint are parameters of a model. Step counters and what optimizers keep are passed over.
pub(super) fn survey<S: Read + Seek>(bundle: &mut TensorBundle<S>) -> Result<Survey, CheckpointError> {
    let names = match bundle.object_graph()? {
        Some(graph) => {
            let no_bert = || BundleError::NoBert { file: bundle.prefix().into() };
            of_objects(&graph).ok_or_else(no_bert)?
        }
        None => bundle.tensors().filter_map(|(key, _)| of_name(key)).collect(),
    };
    let mut survey = Survey { parameters: Vec::new(), unexpected: Vec::new() };
    for (tensor, shape) in bundle.tensors() {
        let (tensor, shape) = (tensor.to_owned(), shape.to_vec());
        match names.iter().find(|name| name.key == tensor) {
            Some(Name { parameter, layout, .. }) => {
                survey.parameters.push(Found {
                    parameter: parameter.clone(),
                    tensor,
                    shape,
                    layout: *layout,
                });
            }
            None if is_of_training(&tensor) => {}
            None => survey.unexpected.push((tensor, shape)),
        }
    }
    Ok(survey)
}

/// What a tensor is to the model.
struct Name {
    key: String,
    parameter: String,
    layout: Layout,
}

/// Step counters, and what optimizers keep: apart from the variables, or behind their names.
fn is_of_training(key: &str) -> bool {
    let (start, end) = (key.split('/').next(), key.rsplit('/').next());
    let is_one_of = |part: Option<&str>, names: &[&str]| part.is_some_and(|part| names.contains(&part));
    key.contains("/.OPTIMIZER_SLOT/")
        || is_one_of(start, &["optimizer", "global_step", "save_counter", "beta1_power", "beta2_power"])
        || is_one_of(end, &["adam_m", "adam_v", "Adam", "Adam_1"])
}

/// `bert/encoder/layer_0/attention/self/query/kernel` and so on.
fn of_name(key: &str) -> Option<Name> {
    let (path, last) = key.rsplit_once('/')?;
    let (ending, layout) = match last {
        "kernel" => (".weight", Layout::Kernel),
        "gamma" => (".weight", Layout::Same),
        "bias" | "beta" | "output_bias" => (".bias", Layout::Same),
        "output_weights" => (".weight", Layout::Same),
        "word_embeddings" => (".word_embeddings.weight", Layout::Same),
        "position_embeddings" => (".position_embeddings.weight", Layout::Same),
        "token_type_embeddings" => (".token_type_embeddings.weight", Layout::Same),
        _ => return None,
    };
    let path = path.replace('/', ".").replace("layer_", "layer.");
    let is_part = ["bert.", "cls."].iter().any(|part| path.starts_with(part));
    is_part.then(|| Name { key: key.into(), parameter: path + ending, layout })
}

/// The variables of the encoder and of the heads around it.
fn of_objects(graph: &ObjectGraph) -> Option<Vec<Name>> {
    let is_transformer = |layer: &Node<'_>| layer.at("_attention_layer").is_some();
    let has_transformers =
        |node: &Node<'_>| layer(*node, FIRST_LAYER).is_some_and(|node| is_transformer(&node));
    let encoder = graph.nodes().find(has_transformers)?;
    let mut names = Vec::new();
    let mut add = |node: Option<Node<'_>>, start: &str, paths: Paths| {
        let variable = |path| node.and_then(|node| node.variable(path));
        names.extend(paths.iter().filter_map(|(path, name, layout)| {
            let parameter = format!("{start}{name}");
            Some(Name { key: variable(path)?.into(), parameter, layout: *layout })
        }));
    };
    add(Some(encoder), "", EMBEDDINGS);
    let after = |layers: usize| layer(encoder, FIRST_LAYER + layers);
    let layers = (0..).take_while(|layers| after(*layers).is_some_and(|node| is_transformer(&node))).count();
    for number in 0..layers {
        add(after(number), &format!("bert.encoder.layer.{number}."), LAYER);
    }
    add(after(layers), "bert.pooler.dense.", DENSE);

    // The masked-LM head has the words' embeddings, too; the next-sentence head is the first layer of a model that stands
    // beside the encoder in the pre-trainer.
    let words = encoder.at("layer_with_weights-0/embeddings");
    let is_masked_lm = |node: &Node<'_>| node.at("dense").is_some() && node.at("embedding_table") == words;
    add(graph.nodes().find(is_masked_lm), "", MASKED_LM);
    let pretrainer = graph.nodes().find(|node| layer(*node, 0) == Some(encoder));
    let next_sentence = pretrainer.and_then(|node| node.at("layer_with_weights-1/layer_with_weights-0"));
    add(next_sentence, "cls.seq_relationship.", DENSE);
    Some(names)
}

/// The layers of a model are numbered, those without weights left out.
fn layer(model: Node<'_>, number: usize) -> Option<Node<'_>> {
    model.at(&format!("layer_with_weights-{number}"))
}
