//! `wgpu-bert export`: folders for other programs. What they make of them is for the tests in Node and in browsers.

use std::fs;
use std::path::Path;

use wgpu_bert::checkpoint::{ModelFolder, NamedTensor, TensorFile, safetensors};
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::model::parameters::parameter_shapes;

use super::workplace::Workplace;
use super::{Finished, json_lines, run, wgpu_bert, without_driver};

const VOCABULARY: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##é\n";
const OF_HUGGING_FACE: [&str; 6] = [
    "SHA256SUMS",
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
];

/// A place with a small model in the folder `model`.
struct Exporter {
    place: Workplace,
}

impl Exporter {
    fn new() -> Self {
        let place = Workplace::new();
        model().save(&place.model_dir()).unwrap();
        Self { place }
    }

    fn export(&self, model: &str, format: &str, output: &str, flags: &[&str]) -> Finished {
        let (model, output) = (self.place.path(model), self.place.path(output));
        let args = ["export", "--model", &model, "--format", format, "--output_dir", &output];
        // It needs no device.
        run(&mut without_driver(&[&args[..], flags].concat()))
    }

    fn load(&self, name: &str) -> ModelFolder {
        ModelFolder::load(self.place.path(name).as_ref()).unwrap()
    }

    /// The names of all files in a folder, sorted.
    fn files(&self, name: &str) -> Vec<String> {
        let root = self.place.path(name);
        let mut found = Vec::new();
        let mut folders = vec![root.clone().into()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir::<std::path::PathBuf>(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(path.strip_prefix(&root).unwrap().display().to_string()),
                }
            }
        }
        found.sort();
        found
    }

    /// The weights of the model with another list of tensors.
    fn write_weights(&self, name: &str, change: impl Fn(NamedTensor) -> Option<NamedTensor>) {
        let tensors: Vec<_> = model().tensors.into_iter().filter_map(change).collect();
        let path = self.place.path(name);
        fs::write(&path, safetensors::write(&tensors).unwrap()).unwrap();
        // On purpose.
        let _ = fs::remove_file(Path::new(&path).with_file_name("SHA256SUMS"));
    }
}

/// Every parameter has values of its own.
fn model() -> ModelFolder {
    let config = BertConfig {
        hidden_size: 4,
        num_hidden_layers: 1,
        intermediate_size: 6,
        max_position_embeddings: 8,
        ..BertConfig::preset("tiny", 7).unwrap()
    };
    let tensors = parameter_shapes(&config, true).into_iter().zip(1_u8..).map(|((name, shape), number)| {
        let data = (0..shape.iter().product()).map(|n| f32::from(number) + n as f32 / 64.0).collect();
        NamedTensor { name, shape, data }
    });
    ModelFolder {
        tensors: tensors.collect(),
        config,
        vocabulary: VOCABULARY.into(),
        do_lower_case: false,
        strip_accents: Some(true),
        tokenizer_json: None,
    }
}

#[track_caller]
fn succeeds(finished: &Finished, parts: &[&str]) {
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for part in parts {
        assert!(finished.stderr.contains(part), "{} should contain {part}", finished.stderr);
    }
}

#[track_caller]
fn refused(finished: &Finished, parts: &[&str]) {
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    for part in parts {
        assert!(finished.stderr.contains(part), "{} should contain {part}", finished.stderr);
    }
    assert!(!finished.stderr.contains("has a bug"), "{}", finished.stderr);
}

#[test]
fn a_run_and_its_checkpoints_are_exported_without_what_only_training_needs() {
    let place = Workplace::new();
    let trained = place.pretrain(&["--save_checkpoints_steps=4"]);
    assert_eq!(trained.code, Some(0), "{}", trained.stderr);
    let exporter = Exporter { place };
    for (model, output) in
        [("model", "final"), ("model/checkpoint-6", "last"), ("model/checkpoint-4", "earlier")]
    {
        succeeds(&exporter.export(model, "huggingface", output, &[]), &["Written in", "model.safetensors"]);
        assert_eq!(exporter.files(output), OF_HUGGING_FACE);
        assert!(exporter.load(output) == exporter.load(model));
    }
    assert!(exporter.load("final") == exporter.load("last"));
    assert!(exporter.load("final").tensors != exporter.load("earlier").tensors);
    let asked = run(&mut wgpu_bert(&["fill-mask", "--model", &exporter.place.path("final"), "the [MASK]"]));
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    let weights = exporter.place.path("final/model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, bytes).unwrap();
    let asked = run(&mut wgpu_bert(&["fill-mask", "--model", &exporter.place.path("final"), "the [MASK]"]));
    assert!(asked.code == Some(2) && asked.stderr.contains("is damaged"), "{}", asked.stderr);

    let finished = exporter.export("model", "onnx", "deep/onnx", &["--json"]);
    succeeds(&finished, &["onnx/model.onnx"]);
    let expected = ["config.json", "onnx/model.onnx", "tokenizer.json", "tokenizer_config.json"];
    assert_eq!(exporter.files("deep/onnx"), expected);
    let done = json_lines(&finished.stdout).pop().unwrap();
    assert_eq!((&done["kind"], &done["files"].as_array().unwrap().len()), (&"done".into(), &4));
    assert_eq!(done["output_dir"], exporter.place.path("deep/onnx"));
}

#[test]
fn weights_alone_need_a_configuration_and_a_vocabulary() {
    let exporter = Exporter::new();
    let [weights, config, vocabulary] = ["model/model.safetensors", "model/config.json", "model/vocab.txt"]
        .map(|name| exporter.place.path(name));
    let (config, vocabulary) = (format!("--bert_config_file={config}"), format!("--vocab_file={vocabulary}"));
    let export = |model: &str, flags: &[&str]| exporter.export(model, "huggingface", "out", flags);
    refused(&export("model/model.safetensors", &[&vocabulary]), &[&weights, "--bert_config_file"]);
    refused(&export("model/model.safetensors", &[&config]), &[&weights, "--vocab_file"]);
    refused(&export("model", &[&config]), &[&weights, "its own", "leave --bert_config_file out"]);
    refused(&export("model", &[&vocabulary]), &[&weights, "its own", "leave --vocab_file out"]);
    assert!(!Path::new(&exporter.place.path("out")).exists());

    let text = ["--do_lower_case=false", "--strip_accents"];
    succeeds(&export("model/model.safetensors", &[&[config.as_str(), &vocabulary][..], &text].concat()), &[]);
    let written = exporter.load("out");
    for part in ["\"lowercase\": false", "\"strip_accents\": true"] {
        assert!(written.tokenizer_json.as_ref().unwrap().contains(part), "{part}");
    }
    assert!(written == ModelFolder { tokenizer_json: written.tokenizer_json.clone(), ..model() });
    // The folder says it itself.
    succeeds(&exporter.export("model", "huggingface", "again", &[]), &[]);
    assert!(exporter.load("again") == written);
}

#[test]
fn checkpoints_of_tensorflow_are_converted() {
    let exporter = Exporter::new();
    let tensorflow = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tensorflow/tf1");
    let checkpoint = tensorflow.join("bert_model.ckpt").display().to_string();
    let output = exporter.place.path("out");
    let args = ["export", "--model", &checkpoint, "--format=huggingface", "--output_dir", &output];
    succeeds(&run(&mut without_driver(&args)), &["Written in"]);
    let bytes = fs::read(tensorflow.join("weights.safetensors")).unwrap();
    let expected = TensorFile::parse(&bytes, "weights").unwrap();
    let written = exporter.load("out");
    assert_eq!(written.config.hidden_act.hugging_face_name(), "gelu_new");
    assert_eq!(written.tensors.len(), expected.names().len());
    for tensor in &written.tensors {
        assert!(expected.f32(&tensor.name).unwrap() == *tensor, "{}", tensor.name);
    }
}

#[test]
fn files_of_other_classes_are_exported_as_what_they_are() {
    let exporter = Exporter::new();
    // Of BertForMaskedLM, with a pooler that is of no use alone, and with what is no part of a model.
    exporter.write_weights("model/model.safetensors", |tensor| match tensor.name.as_str() {
        "cls.seq_relationship.weight" => Some(NamedTensor { name: "classifier.weight".into(), ..tensor }),
        "cls.seq_relationship.bias" => None,
        _ => Some(tensor),
    });
    let told = ["no next-sentence head", "left out", "classifier.weight [2, 4]"];
    succeeds(&exporter.export("model", "huggingface", "out", &[]), &told);
    let config = fs::read_to_string(exporter.place.path("out/config.json")).unwrap();
    assert!(config.contains("\"BertForMaskedLM\""), "{config}");
    let is_kept = |tensor: &NamedTensor| !tensor.name.contains("pooler") && !tensor.name.contains("seq_rel");
    let kept: Vec<_> = model().tensors.into_iter().filter(is_kept).collect();
    assert!(exporter.load("out").tensors == kept);
    succeeds(&exporter.export("model", "onnx", "onnx", &[]), &told);

    // The names of BertModel, older ones, and no head at all.
    exporter.write_weights("model/model.safetensors", |tensor| {
        let name = tensor.name.strip_prefix("bert.")?.replace("LayerNorm.weight", "LayerNorm.gamma");
        Some(NamedTensor { name, ..tensor })
    });
    for format in ["huggingface", "onnx"] {
        refused(&exporter.export("model", format, "none", &[]), &["model.safetensors", "masked-LM head"]);
    }
    assert!(!Path::new(&exporter.place.path("none")).exists());
}

#[test]
fn what_cannot_be_exported_is_told() {
    let exporter = Exporter::new();
    let export = |model: &str| exporter.export(model, "onnx", "out", &[]);
    refused(&exporter.export("model", "tensorflow", "out", &[]), &["tensorflow", "huggingface, onnx"]);
    refused(&export("none"), &["none"]);
    refused(&run(&mut wgpu_bert(&["export", "--format=onnx", "--output_dir=x"])), &["--model"]);

    // Places that are taken.
    for (output, part) in
        [("model", "is not empty"), ("text.txt", "cannot open the folder"), ("text.txt/x", "text.txt/x")]
    {
        refused(&exporter.export("model", "onnx", output, &[]), &[part, output]);
    }
    assert!(exporter.load("model") == model());

    // Numbers that are none, a vocabulary without [MASK], none at all, and a folder without anything.
    exporter.write_weights("model/model.safetensors", |mut tensor| {
        if tensor.name.contains("transform.dense.bias") {
            tensor.data[1] = f32::NAN;
        }
        Some(tensor)
    });
    refused(&export("model"), &["model.safetensors is damaged", "cls.predictions.transform.dense.bias"]);
    exporter.place.write("model/vocab.txt", &VOCABULARY.replace("[MASK]", "mask"));
    refused(&export("model"), &["vocab.txt", "[MASK]"]);
    fs::remove_file(exporter.place.path("model/vocab.txt")).unwrap();
    refused(&export("model"), &["model.safetensors holds no vocabulary", "--vocab_file"]);
    fs::create_dir(exporter.place.path("empty")).unwrap();
    refused(&export("empty"), &["empty is not a model folder: config.json is missing"]);
    assert!(!Path::new(&exporter.place.path("out")).exists());
}

#[test]
fn checkpoints_are_looked_at_before_they_are_exported() {
    let place = Workplace::new();
    assert_eq!(place.pretrain(&[]).code, Some(0));
    let exporter = Exporter { place };
    // A run that was killed has no final model.
    fs::remove_file(exporter.place.path("model/model.safetensors")).unwrap();
    refused(&exporter.export("model", "huggingface", "out", &[]), &["no final model", "model/checkpoint-6"]);
    let file = exporter.place.path("model/checkpoint-6/model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    let finished = exporter.export("model/checkpoint-6", "huggingface", "out", &[]);
    refused(&finished, &["checkpoint-6/model.safetensors is damaged"]);
    assert!(!Path::new(&exporter.place.path("out")).exists());
}
