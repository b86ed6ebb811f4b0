//! Model folders against files that Hugging Face and TensorFlow's `run_pretraining` wrote.

mod tensorflow;

use std::fs;
use std::path::{Path, PathBuf};

use wgpu_bert::checkpoint::names::read_parameters;
use wgpu_bert::checkpoint::{ModelFolder, NamedTensor, TensorFile, safetensors};
use wgpu_bert::model::config::{Activation, BertConfig};
use wgpu_bert::model::parameters::parameter_shapes;

/// Folder, configuration, weights.
const GOLDEN_MODELS: [(&str, &str, &str); 7] = [
    ("tiny", "config.json", "model.safetensors"),
    ("tiny", "config_gelu_new.json", "model.safetensors"),
    ("odd", "config.json", "model.safetensors"),
    ("steps", "config.json", "start_wild.safetensors"),
    ("steps", "config.json", "lamb.params_step10.safetensors"),
    ("trajectory", "config.json", "start.safetensors"),
    ("trajectory", "config.json", "end_adamw_tf.safetensors"),
];

fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden").join(folder)
}

fn config(folder: &str, file: &str) -> BertConfig {
    BertConfig::from_json(&fs::read_to_string(golden(folder).join(file)).unwrap(), file).unwrap()
}

fn parameters(config: &BertConfig, folder: &str, file: &str) -> Vec<NamedTensor> {
    let bytes = fs::read(golden(folder).join(file)).unwrap();
    read_parameters(config, &TensorFile::parse(&bytes, file).unwrap()).unwrap()
}

#[test]
fn parameters_are_exactly_those_of_hugging_face() {
    for (folder, config_file, weights) in GOLDEN_MODELS {
        let config = config(folder, config_file);
        let bytes = fs::read(golden(folder).join(weights)).unwrap();
        let file = TensorFile::parse(&bytes, weights).unwrap();
        let mut names: Vec<_> = parameter_shapes(&config, true).into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(file.names(), names, "{folder}/{weights}");
        assert_eq!(read_parameters(&config, &file).unwrap().len(), names.len());
    }
}

#[test]
fn weights_are_written_byte_for_byte_as_they_were_read() {
    for (folder, config_file, weights) in GOLDEN_MODELS {
        let tensors = parameters(&config(folder, config_file), folder, weights);
        let written = safetensors::write(&tensors).unwrap();
        // Both sort by name, so the data is the same; headers may differ in spelling.
        let data: usize = tensors.iter().map(|tensor| tensor.data.len() * 4).sum();
        let original = fs::read(golden(folder).join(weights)).unwrap();
        assert!(written[written.len() - data..] == original[original.len() - data..], "{folder}/{weights}");
    }
}

#[test]
fn activations_survive_a_saved_folder() {
    for (file, activation, written_name) in [
        ("config.json", Activation::GeluErf, "\"hidden_act\": \"gelu\""),
        ("config_gelu_new.json", Activation::GeluTanh, "\"hidden_act\": \"gelu_new\""),
    ] {
        let config = config("tiny", file);
        assert_eq!(config.hidden_act, activation);
        let model = ModelFolder {
            tensors: parameters(&config, "tiny", "model.safetensors"),
            config,
            vocabulary: (0..512).map(|id| format!("word{id}\n")).collect(),
            do_lower_case: true,
            strip_accents: None,
            tokenizer_json: None,
        };
        let folder = tempfile::tempdir().unwrap();
        model.save(folder.path()).unwrap();
        let json = fs::read_to_string(folder.path().join("config.json")).unwrap();
        assert!(json.contains(written_name) && json.contains("\"BertForPreTraining\""), "{json}");
        assert_eq!(ModelFolder::load(folder.path()).unwrap(), model);
    }
}

#[test]
fn batches_hold_integers_and_float_weights() {
    let bytes = fs::read(golden("tiny").join("batch.safetensors")).unwrap();
    let batch = TensorFile::parse(&bytes, "batch.safetensors").unwrap();
    let ids = batch.i32("input_word_ids").unwrap();
    assert_eq!(ids.shape, [5, 64]);
    assert!(ids.data.iter().all(|id| (0..512).contains(id)));
    let weights = batch.f32("masked_lm_weights").unwrap();
    assert_eq!(weights.shape, [5, 10]);
    assert_eq!(weights.data.iter().sum::<f32>(), 26.0); // 10 + 7 + 3 + 0 + 6, by scalars_f64.json.
}
