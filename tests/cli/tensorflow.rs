//! Checkpoints of TensorFlow to start from.

use std::fs;
use std::path::Path;

use wgpu_bert::checkpoint::{NamedTensor, TensorFile};

use super::workplace::Workplace;
use super::{Finished, run, wgpu_bert};

fn data(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tensorflow").join(path);
    path.display().to_string()
}

/// A run that changes nothing, from `init`.
fn at_rest(place: &Workplace, init: &str, flags: &[&str]) -> Finished {
    let mut all = place.flags(&["--learning_rate=0", "--end_lr=0"]);
    all.retain(|flag| !flag.starts_with("--bert_config_file") && !flag.starts_with("--max_seq_length"));
    all.extend([format!("--init_checkpoint={init}"), "--max_seq_length=14".into()]);
    all.extend(flags.iter().map(|flag| (*flag).to_owned()));
    run(&mut wgpu_bert(&all.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn tensors(file: &Path) -> Vec<NamedTensor> {
    let bytes = fs::read(file).unwrap();
    let file = TensorFile::parse(&bytes, "weights").unwrap();
    file.names().into_iter().map(|name| file.f32(name).unwrap()).collect()
}

#[test]
fn an_archive_of_google_says_everything_of_the_model() {
    let place = Workplace::new();
    let finished = at_rest(&place, &data("tf1/bert_model.ckpt"), &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for part in [
        "tf1/bert_model.ckpt:\n",
        "  bert.encoder.layer.*.intermediate.dense.weight [10, 6], 2 times\n",
        "  cls.seq_relationship.weight [2, 6]\n",
        "Its activation is gelu_new, the tanh form, which TensorFlow's BERT calls gelu.\n",
    ] {
        assert!(finished.stderr.contains(part), "{} should contain {part}", finished.stderr);
    }
    for part in ["start at random", "no part of the model", "adam"] {
        assert!(!finished.stderr.contains(part), "{}", finished.stderr);
    }
    let weights = place.model_dir().join("model.safetensors");
    assert!(tensors(&weights) == tensors(Path::new(&data("tf1/weights.safetensors"))));
    let vocabulary = fs::read(place.model_dir().join("vocab.txt")).unwrap();
    assert!(vocabulary == fs::read(data("tf1/vocab.txt")).unwrap());
    let config = fs::read_to_string(place.model_dir().join("config.json")).unwrap();
    assert!(config.contains("\"hidden_act\": \"gelu_new\""), "{config}");
}

#[test]
fn the_folder_of_a_run_of_tensorflow_needs_configuration_and_vocabulary() {
    let place = Workplace::new();
    let config = format!("--bert_config_file={}", data("tf1/bert_config.json"));
    let vocabulary = format!("--vocab_file={}", data("tf1/vocab.txt"));
    let finished = at_rest(&place, &data("tf2/run/pretrained"), &[&config, &vocabulary]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for part in [
        "tf2/run/pretrained/bert_model.ckpt-3:\n",
        "Not in it, so they start at random:\n  cls.seq_relationship.weight [2, 6]\n",
        "  cls.predictions.bias [30]\n",
    ] {
        assert!(finished.stderr.contains(part), "{} should contain {part}", finished.stderr);
    }
    let expected = tensors(Path::new(&data("tf2/weights.safetensors")));
    for (tensor, expected) in tensors(&place.model_dir().join("model.safetensors")).iter().zip(&expected) {
        assert!(tensor.name.starts_with("cls.") || tensor == expected, "{}", tensor.name);
    }

    let place = Workplace::new();
    for (init, flags, told) in [
        ("tf2/run", &[config.as_str()][..], "ctl_step_12.ckpt-2 holds no vocabulary"),
        (
            "tf2/run",
            &[&vocabulary],
            "ctl_step_12.ckpt-2 does not say what model it is of: give its configuration with",
        ),
        ("tf2/run/ctl_step_12", &[&config, &vocabulary], "beside it there are: ctl_step_12.ckpt-2"),
        (
            "tf2/run",
            &[&vocabulary, "--model_size=tiny"],
            "ctl_step_12.ckpt-2: tensor model/layer_with_weights-0/",
        ),
    ] {
        let finished = at_rest(&place, &data(init), flags);
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        assert!(finished.stderr.contains(told), "{} should contain {told}", finished.stderr);
        assert!(!place.model_dir().exists());
    }
}
