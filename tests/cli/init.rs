//! Weights to start from.

use std::fs;
use std::path::Path;

use wgpu_bert::checkpoint::{NamedTensor, TensorFile, safetensors};

use super::workplace::Workplace;
use super::{Finished, run, wgpu_bert};

/// Steps that change nothing, so that the model of the end is the one of the start.
const AT_REST: [&str; 2] = ["--learning_rate=0", "--end_lr=0"];

struct Started {
    place: Workplace,
}

impl Started {
    /// With a trained model in the folder `first`.
    fn new() -> Self {
        let place = Workplace::new();
        let started = Self { place };
        let finished = started.place.pretrain(&[&started.dir("first")]);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        started
    }

    fn dir(&self, name: &str) -> String {
        format!("--model_dir={}", self.place.path(name))
    }

    fn file(&self, name: &str) -> String {
        self.place.path(&format!("first/{name}"))
    }

    /// A run from `init` into the folder `name`, its model from that alone unless `flags` say it.
    fn from(&self, init: &str, name: &str, flags: &[&str]) -> Finished {
        let mut all: Vec<String> = self.place.flags(&[]);
        all.retain(|flag| !flag.starts_with("--bert_config_file") && !flag.starts_with("--model_dir"));
        all.extend([format!("--init_checkpoint={init}"), self.dir(name)]);
        all.extend(AT_REST.iter().chain(flags).map(|flag| (*flag).to_owned()));
        run(&mut wgpu_bert(&all.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    fn tensors(&self, name: &str) -> Vec<NamedTensor> {
        let bytes = fs::read(Path::new(&self.place.path(name)).join("model.safetensors")).unwrap();
        let file = TensorFile::parse(&bytes, name).unwrap();
        file.names().into_iter().map(|tensor| file.f32(tensor).unwrap()).collect()
    }

    /// A file with what `change` makes of the tensors of the first model.
    fn changed(&self, name: &str, change: impl Fn(&NamedTensor) -> Option<NamedTensor>) -> String {
        let tensors: Vec<_> = self.tensors("first").iter().filter_map(change).collect();
        fs::write(self.place.path(name), safetensors::write(&tensors).unwrap()).unwrap();
        self.place.path(name)
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
}

#[test]
fn a_folder_says_everything_of_the_model() {
    let started = Started::new();
    let first = started.place.path("first");
    let finished = started.from(&first, "second", &[]);
    succeeds(&finished, &["first/model.safetensors:", "word_embeddings.weight [60, 8]", "[8, 8]"]);
    assert!(!finished.stderr.contains("start at random"), "{}", finished.stderr);
    assert!(started.tensors("second") == started.tensors("first"));
    for file in ["config.json", "vocab.txt"] {
        let second = fs::read(Path::new(&started.place.path("second")).join(file)).unwrap();
        assert!(second == fs::read(started.file(file)).unwrap(), "{file}");
    }
    // So does a checkpoint; and a run can be gone on with that began so.
    let checkpoint = started.file("checkpoint-6");
    succeeds(&started.from(&checkpoint, "third", &["--save_checkpoints_steps=2"]), &[]);
    assert!(started.tensors("third") == started.tensors("first"));
    succeeds(&started.from(&checkpoint, "third", &["--resume=4"]), &["Going on after step 4"]);
}

#[test]
fn a_file_without_prefix_and_heads_is_an_encoder() {
    let started = Started::new();
    let encoder = started.changed("encoder.safetensors", |tensor| {
        let name = tensor.name.strip_prefix("bert.")?;
        (!name.starts_with("pooler")).then(|| NamedTensor { name: name.into(), ..tensor.clone() })
    });
    let config = format!("--bert_config_file={}", started.file("config.json"));
    let vocabulary = format!("--vocab_file={}", started.file("vocab.txt"));
    let finished = started.from(&encoder, "second", &[&config, &vocabulary]);
    succeeds(&finished, &["start at random", "bert.pooler.dense.weight [8, 8]", "cls.predictions.bias [60]"]);
    let is_encoder = |t: &NamedTensor| t.name.starts_with("bert.e");
    for (first, second) in started.tensors("first").iter().zip(&started.tensors("second")) {
        assert_eq!(first.name, second.name);
        let is_head_weight = !is_encoder(first) && first.name.ends_with(".weight") && first.shape.len() == 2;
        if is_encoder(first) {
            assert!(first.data == second.data, "{}", first.name);
        } else if is_head_weight {
            assert!(first.data != second.data, "{}", first.name);
        }
    }
    refused(&started.from(&encoder, "third", &[&config]), &["encoder.safetensors", "--vocab_file"]);
    refused(&started.from(&encoder, "third", &[&vocabulary]), &["encoder.safetensors", "--bert_config_file"]);
    refused(
        &started.from(&encoder, "third", &[&vocabulary, "--model_size=tiny"]),
        &["missing bert.encoder.layer.1."],
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let started = Started::new();
    let config = fs::read_to_string(started.file("config.json")).unwrap();
    let wider = started
        .place
        .write("wider.json", &config.replace("\"intermediate_size\": 12", "\"intermediate_size\": 16"));
    let erf = started.place.write("erf.json", &config.replace("gelu_new", "gelu"));
    let first = started.place.path("first");
    for (file, parts) in [
        (&wider, ["intermediate.dense.weight has shape [12, 8]", "makes it [16, 8]"]),
        (&erf, ["activation gelu_new", "has gelu"]),
    ] {
        refused(&started.from(&first, "second", &[&format!("--bert_config_file={file}")]), &parts);
    }
    let vocabulary = format!("--vocab_file={}", started.file("vocab.txt"));
    let flags = [vocabulary.as_str(), &format!("--bert_config_file={}", started.file("config.json"))];
    let deeper = started.changed("deeper.safetensors", |tensor| {
        Some(NamedTensor { name: tensor.name.replace("layer.0", "layer.7"), ..tensor.clone() })
    });
    refused(
        &started.from(&deeper, "second", &flags),
        &["missing bert.encoder.layer.0.", "unexpected bert.encoder.layer.7."],
    );
    let foreign = started.place.write("foreign.safetensors", "<html>not found</html>");
    refused(&started.from(&foreign, "second", &[]), &["foreign.safetensors is not a whole safetensors file"]);
    refused(&started.from("/nonexistent/model", "second", &flags), &["/nonexistent/model"]);
    fs::create_dir(started.place.path("empty")).unwrap();
    refused(&started.from(&started.place.path("empty"), "second", &flags), &["config.json is missing"]);
    assert!(!Path::new(&started.place.path("second")).exists());
}

#[test]
fn a_model_for_one_segment_is_refused_by_its_name() {
    let started = Started::new();
    let path = started.file("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["type_vocab_size"] = 1.into();
    fs::write(&path, config.to_string()).unwrap();
    let first = started.place.path("first");
    let finished = started.from(&first, "second", &[]);
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains(&format!("{first}: \"type_vocab_size\" = 1")), "{}", finished.stderr);
}
