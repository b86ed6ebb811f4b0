//! Checkpoints that the programs of Google and TensorFlow wrote, and what is said of those that cannot be read.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wgpu_bert::checkpoint::import::{ImportSource, Imported, import};
use wgpu_bert::checkpoint::tensor_bundle::TensorBundle;
use wgpu_bert::checkpoint::{CheckpointError, NamedTensor, TensorFile};
use wgpu_bert::model::config::{Activation, BertConfig};

const TF1: &str = "tf1/bert_model.ckpt";
const FULL: &str = "tf2/run/ctl_step_12.ckpt-2";

fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tensorflow").join(path)
}

fn config() -> BertConfig {
    let text = fs::read_to_string(data("tf1/bert_config.json")).unwrap();
    BertConfig::from_json(&text, "bert_config.json").unwrap()
}

fn load(path: &Path, config: &BertConfig) -> Result<Imported, CheckpointError> {
    import(config, &mut ImportSource::open(path)?)
}

fn message(path: &Path) -> String {
    load(path, &config()).unwrap_err().to_string()
}

/// A copy of a checkpoint in a folder of its own.
fn copy(checkpoint: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("copy.ckpt");
    for ending in ["index", "data-00000-of-00001"] {
        let original = data(&format!("{checkpoint}.{ending}"));
        fs::write(ending_of(&prefix, ending), fs::read(original).unwrap()).unwrap();
    }
    (folder, prefix)
}

fn ending_of(prefix: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}.{ending}", prefix.display()))
}

#[test]
fn the_weights_are_those_that_were_saved() {
    let pooled: &[_] = &["bert."];
    for (checkpoint, weights, held) in [
        (TF1, "tf1", &["bert.", "cls."][..]),
        (FULL, "tf2", &["bert.", "cls."]),
        ("tf2/run/pretrained/bert_model.ckpt-3", "tf2", pooled),
        ("tf2/converted/encoder-1", "tf1", pooled),
        ("tf2/converted/pretrainer-1", "tf1", &["bert.", "cls.predictions."]),
        ("kinds/older", "tf1", pooled),
    ] {
        let bytes = fs::read(data(weights).join("weights.safetensors")).unwrap();
        let expected = TensorFile::parse(&bytes, weights).unwrap();
        let is_held = |name: &str| held.iter().any(|start| name.starts_with(start));
        let Imported { matched, missing, unexpected } = load(&data(checkpoint), &config()).unwrap();
        for tensor in &matched {
            assert!(*tensor == expected.f32(&tensor.name).unwrap(), "{checkpoint}: {}", tensor.name);
        }
        let mut found: Vec<&str> = matched.iter().map(|tensor| tensor.name.as_str()).collect();
        found.sort_unstable();
        let names = expected.names();
        assert_eq!(found, names.iter().copied().filter(|name| is_held(name)).collect::<Vec<_>>());
        let mut lacked: Vec<_> = missing.iter().map(|(name, _)| name.as_str()).collect();
        lacked.sort_unstable();
        assert_eq!(lacked, names.into_iter().filter(|name| !is_held(name)).collect::<Vec<_>>());
        for (name, shape) in missing {
            assert_eq!(Some(shape), expected.shape(&name));
        }
        assert!(unexpected.is_empty(), "{checkpoint}: {unexpected:?}");
    }
}

#[test]
fn what_lies_beside_a_checkpoint_says_what_the_model_is() {
    let source = ImportSource::open(&data(TF1)).unwrap();
    assert_eq!(source.config.unwrap().hidden_act, Activation::GeluTanh);
    assert!(source.vocabulary.unwrap().starts_with("[PAD]\n[UNK]\n"));
    assert_eq!(source.name, data(TF1).display().to_string());
    assert_eq!(ImportSource::open(&data(FULL)).unwrap().config, None);
    // A file in Hugging Face's form means another function by "gelu".
    let (folder, prefix) = copy(TF1);
    let text = r#"{"model_type": "bert", "vocab_size": 30, "hidden_act": "gelu"}"#;
    fs::write(folder.path().join("config.json"), text).unwrap();
    let config = ImportSource::open(&prefix).unwrap().config.unwrap();
    assert_eq!(config.hidden_act, Activation::GeluErf);
    fs::write(folder.path().join("bert_config.json"), "{}").unwrap();
    assert!(
        message(&prefix).ends_with("bert_config.json: the key \"vocab_size\" is missing: it has no default")
    );
}

#[test]
fn a_checkpoint_may_be_given_by_its_files_or_its_folder() {
    let run = data("tf2/run");
    for (given, prefix) in [
        (data("tf2/run/ctl_step_12.ckpt-2.index"), data(FULL)),
        (data("tf2/run/ctl_step_12.ckpt-2.data-00000-of-00001"), data(FULL)),
        (run.join("checkpoint"), data(FULL)),
        (run.clone(), data(FULL)),
        (run.join("pretrained"), data("tf2/run/pretrained/bert_model.ckpt-3")),
        (data("tf1"), data(TF1)),
    ] {
        assert_eq!(ImportSource::open(&given).unwrap().name, prefix.display().to_string());
    }
    // The latest by an absolute name that was true elsewhere, and has an accent and a quote in it.
    let (folder, prefix) = copy(TF1);
    let named = folder.path().join("mod\u{e9}l\"e");
    for ending in ["index", "data-00000-of-00001"] {
        fs::rename(ending_of(&prefix, ending), ending_of(&named, ending)).unwrap();
    }
    let state = folder.path().join("checkpoint");
    fs::write(&state, "model_checkpoint_path: \"/elsewhere/mod\\303\\251l\\\"e\"\n").unwrap();
    assert_eq!(ImportSource::open(folder.path()).unwrap().name, named.display().to_string());
    fs::write(&state, "model_checkpoint_path: \"gone.ckpt\"\n").unwrap();
    assert!(message(folder.path()).contains("gone.ckpt.index is missing"), "{}", message(folder.path()));
    fs::write(&state, "all_model_checkpoint_paths: \"a\"\n").unwrap();
    let told = "checkpoint should name the latest checkpoint, in a line like model_checkpoint_path: \"bert_model.ckpt\"";
    assert!(message(&state).ends_with(told), "{}", message(&state));
}

#[test]
fn a_path_that_means_no_checkpoint_is_told_what_there_is() {
    let wrong = message(&data("tf2/run/ctl_step_12.ckpt"));
    assert!(wrong.ends_with("run/ctl_step_12.ckpt; beside it there are: ctl_step_12.ckpt-2"), "{wrong}");
    let several = message(&data("kinds"));
    assert!(
        several.ends_with("several TensorFlow checkpoints, so name one: foreign, older, slices, types"),
        "{several}"
    );
    let none = message(&data("tf3/bert_model.ckpt"));
    assert!(none.starts_with("cannot read ") && none.contains("tf3/bert_model.ckpt: "), "{none}");

    let (_folder, prefix) = copy(FULL);
    fs::remove_file(ending_of(&prefix, "data-00000-of-00001")).unwrap();
    let rule = "is missing: a TensorFlow checkpoint is an .index file and all the .data files beside it";
    assert!(
        message(&prefix).ends_with(&format!("copy.ckpt.data-00000-of-00001 {rule}")),
        "{}",
        message(&prefix)
    );
    let (_folder, prefix) = copy(FULL);
    fs::remove_file(ending_of(&prefix, "index")).unwrap();
    for given in [prefix.clone(), ending_of(&prefix, "data-00000-of-00001"), ending_of(&prefix, "index")] {
        assert!(message(&given).ends_with(&format!("copy.ckpt.index {rule}")), "{}", message(&given));
    }
    // Something else under a checkpoint's name.
    fs::write(ending_of(&prefix, "index"), "<html>not found</html>").unwrap();
    let told = "copy.ckpt.index cannot be read as the index of a TensorFlow checkpoint: its end is missing, or it is \
                another kind of file";
    assert!(message(&prefix).ends_with(told), "{}", message(&prefix));
}

#[test]
fn damage_anywhere_is_an_error_or_does_not_matter() {
    for (checkpoint, step) in [(TF1, 61), (FULL, 997)] {
        let whole = load(&data(checkpoint), &config()).unwrap();
        let (_folder, prefix) = copy(checkpoint);
        for (ending, told) in [
            ("index", "cannot be read as the index of a TensorFlow checkpoint: "),
            ("data-00000-of-00001", "is damaged: its checksum does not fit"),
        ] {
            let path = ending_of(&prefix, ending);
            let sound = fs::read(&path).unwrap();
            let mut told_of = 0;
            for at in (0..sound.len()).step_by(step) {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << (at % 8);
                fs::write(&path, bytes).unwrap();
                match load(&prefix, &config()) {
                    Ok(read) => assert!(read == whole, "{ending}, byte {at}"),
                    Err(error) => {
                        let error = error.to_string();
                        assert!(
                            error.contains(&*path.to_string_lossy()) && error.contains(told),
                            "{at}: {error}"
                        );
                        told_of += 1;
                    }
                }
            }
            // What only an optimizer needs is not read.
            assert!(told_of * step * 4 > sound.len(), "{told_of} of {ending}");
            for length in (0..sound.len()).step_by(step * 9).chain([sound.len() - 1]) {
                fs::write(&path, &sound[..length]).unwrap();
                let told = message(&prefix);
                assert!(told.contains(&*path.to_string_lossy()), "{told}");
                assert!(told.contains("cut off") || told.contains("its end is missing"), "{told}");
            }
            fs::write(&path, &sound).unwrap();
        }
        // Bytes behind the end are nobody's.
        let path = ending_of(&prefix, "data-00000-of-00001");
        fs::write(&path, [fs::read(&path).unwrap(), vec![0]].concat()).unwrap();
        assert!(load(&prefix, &config()).unwrap() == whole);
    }
}

#[test]
fn a_damaged_tensor_is_named_with_its_file() {
    let (_folder, prefix) = copy(TF1);
    let path = ending_of(&prefix, "data-00000-of-00001");
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    fs::write(&path, bytes).unwrap();
    let told =
        "data-00000-of-00001: tensor bert/embeddings/LayerNorm/beta is damaged: its checksum does not fit";
    assert!(message(&prefix).ends_with(told), "{}", message(&prefix));
    fs::write(&path, [0; 100]).unwrap();
    let told = message(&prefix);
    assert!(
        told.contains("data-00000-of-00001: tensor bert/embeddings/LayerNorm/gamma/adam_m ends at byte 120"),
        "{told}"
    );
    assert!(told.ends_with(" ends at byte 120, but the file has 100: it was cut off"), "{told}");
}

#[test]
fn floats_of_every_width_are_read_and_nothing_else() {
    let mut types = TensorBundle::open(&data("kinds/types")).unwrap();
    let keys: Vec<_> = types.tensors().map(|(key, shape)| (key.to_owned(), shape.to_vec())).collect();
    let keys: Vec<_> = keys.iter().map(|(key, shape)| (key.as_str(), shape.as_slice())).collect();
    let expected: [(&str, &[usize]); 7] = [
        ("bfloat16", &[1, 3]),
        ("float16", &[3]),
        ("float32", &[3]),
        ("float64", &[3]),
        ("int32", &[2]),
        ("nothing", &[0, 4]),
        ("text", &[2]),
    ];
    assert_eq!(keys, expected);
    for (key, shape) in &expected[..4] {
        let tensor = types.f32(key).unwrap();
        let expected =
            NamedTensor { name: (*key).into(), shape: shape.to_vec(), data: vec![1.5, -0.25, 3.0] };
        assert_eq!(tensor, expected);
    }
    assert!(types.f32("nothing").unwrap().data.is_empty());
    let needed = "but float32, float64, float16 or bfloat16 is needed";
    for (key, kind) in [("int32", "int32"), ("text", "strings")] {
        let told = types.f32(key).unwrap_err().to_string();
        assert!(told.ends_with(&format!("kinds/types: tensor {key} holds {kind}, {needed}")), "{told}");
    }
    assert!(types.f32("other").unwrap_err().to_string().ends_with("kinds/types has no tensor other"));
    assert!(types.object_graph().unwrap().is_none());

    let mut slices = TensorBundle::open(&data("kinds/slices")).unwrap();
    assert_eq!(slices.f32("whole").unwrap().data, [1.5, -0.25, 3.0]);
    let told = slices.f32("cut").unwrap_err().to_string();
    assert!(
        told.ends_with("tensor cut was saved in 2 slices: load it in TensorFlow and save it as one"),
        "{told}"
    );
}

#[test]
fn what_does_not_fit_the_model_is_an_error() {
    let told = |checkpoint: &str, change: fn(&mut BertConfig)| {
        let mut config = config();
        change(&mut config);
        load(&data(checkpoint), &config).unwrap_err().to_string()
    };
    for checkpoint in [TF1, FULL] {
        let deeper = told(checkpoint, |config| config.num_hidden_layers = 3);
        assert!(deeper.contains("missing bert.encoder.layer.2.attention.self.query.weight, "), "{deeper}");
        let shallower = told(checkpoint, |config| config.num_hidden_layers = 1);
        assert!(shallower.contains("unexpected bert.encoder.layer.1."), "{shallower}");
    }
    let smaller = told(TF1, |config| config.vocab_size = 29);
    let part =
        "tensor bert/embeddings/word_embeddings has shape [30, 6], but the configuration makes it [29, 6]";
    assert!(smaller.contains(part), "{smaller}");
    let wider = told(TF1, |config| config.intermediate_size = 11);
    let part = "intermediate/dense/kernel has shape [6, 10], but the configuration makes it [6, 11]";
    assert!(wider.contains(part), "{wider}");
    // A checkpoint of TensorFlow 2 knows its heads, which no other form does.
    let heads = told(FULL, |config| config.num_attention_heads = 2);
    let part = "_query_dense/kernel/.ATTRIBUTES/VARIABLE_VALUE has shape [6, 3, 2], but the configuration makes it [6, 2, 3]";
    assert!(heads.contains(part), "{heads}");
    // Checkpoints of something else, by objects and by names.
    let foreign = told("kinds/foreign", |_| {});
    assert!(foreign.contains("kinds/foreign holds no BERT: no object in it has the embeddings"), "{foreign}");
    let foreign = told("kinds/types", |_| {});
    assert!(foreign.contains("missing bert.embeddings.word_embeddings.weight, "), "{foreign}");
}
