//! The whole model against golden numbers, through the self-test that users have.

use std::path::Path;

use wgpu_bert::checkpoint::import::{ImportSource, import};
use wgpu_bert::checkpoint::safetensors::write;
use wgpu_bert::checkpoint::{NamedTensor, TensorFile};
use wgpu_bert::gpu::KernelFamily;
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::train::TrainError;
use wgpu_bert::train::self_test::{GoldenFiles, Quantity, SelfTestReport, bundled, check_device, self_test};

use crate::harness::{device, families};

fn folder(name: &str) -> GoldenFiles {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden").join(name);
    let entries = std::fs::read_dir(&path).expect("golden folder");
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("entry").path();
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        (name, std::fs::read(path).expect("file"))
    };
    entries.map(file).collect()
}

/// Runs every case of the folder with every kernel family.
fn run(files: &GoldenFiles) -> SelfTestReport {
    let mut all = SelfTestReport::default();
    for family in families() {
        let device = device(family);
        let report = pollster::block_on(self_test(&device.gpu, files)).expect("self-test");
        for worst in report.worst() {
            println!("{family:?} {worst:?}");
        }
        assert!(report.ok(), "{family:?}: {:?}", report.worst());
        all.comparisons.extend(report.comparisons);
    }
    all
}

fn count(report: &SelfTestReport, kind: Quantity) -> usize {
    report.comparisons.iter().filter(|c| c.kind == kind).count() / families().len()
}

#[test]
fn bundled_case() {
    let report = run(&bundled());
    assert_eq!(count(&report, Quantity::Gradient), 2 * 46);
}

#[test]
fn tiny() {
    let report = run(&folder("tiny"));
    assert_eq!(count(&report, Quantity::Gradient), 2 * (46 + 9));
    assert_eq!(count(&report, Quantity::Loss), 4 * 3);
    assert_eq!(count(&report, Quantity::Logits), 4 + 2);
    assert_eq!(count(&report, Quantity::Output), 2 * 2);
}

#[test]
fn odd() {
    assert_eq!(count(&run(&folder("odd")), Quantity::Gradient), 2 * (46 + 9));
}

/// Sizes that are multiples of nothing, so that query, key and value are computed apart.
#[test]
fn prime() {
    assert_eq!(count(&run(&folder("prime")), Quantity::Gradient), 2 * (46 + 9));
}

#[test]
fn optimizer_steps() {
    let report = run(&folder("steps"));
    assert_eq!(count(&report, Quantity::GradientNorm), 5 * 10);
    assert_eq!(count(&report, Quantity::Parameter), 5 * 3 * 44);
    assert_eq!(count(&report, Quantity::Moment), 5 * 2 * 44);
}

/// What Google's and TensorFlow's own programs computed with the weights that they saved.
#[test]
fn checkpoints_of_tensorflow() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tensorflow");
    let file = |name: &str| std::fs::read(data.join(name)).expect(name);
    let config = String::from_utf8(file("tf1/bert_config.json")).expect("UTF-8");
    let config = BertConfig::from_json(&config, "bert_config.json").expect("config");
    for (checkpoint, expected) in [
        ("tf1/bert_model.ckpt", "tf1/expected_gelu_new.safetensors"),
        ("tf2/run/ctl_step_12.ckpt-2", "tf2/expected_gelu_new.safetensors"),
    ] {
        let mut source = ImportSource::open(&data.join(checkpoint)).expect("checkpoint");
        let weights = import(&config, &mut source).expect("weights").matched;
        let files = [
            ("config_gelu_new.json", config.to_hugging_face_json().into_bytes()),
            ("model.safetensors", write(&weights).expect("written")),
            ("batch.safetensors", file("tf1/batch.safetensors")),
            ("expected_gelu_new.safetensors", file(expected)),
        ];
        let report = run(&files.map(|(name, bytes)| (name.to_owned(), bytes)).into());
        assert!(count(&report, Quantity::Loss) >= 2, "{checkpoint}");
        assert_eq!(count(&report, Quantity::Logits), 2, "{checkpoint}");
        assert_eq!(count(&report, Quantity::Output), 2, "{checkpoint}");
    }
}

/// What a run would say of a device that computes `files` wrong.
fn verdict(files: &GoldenFiles) -> Result<(), TrainError> {
    let device = device(KernelFamily::Register);
    pollster::block_on(check_device(&device.gpu, files))
}

#[test]
fn a_device_that_computes_wrong_numbers_is_refused() {
    verdict(&bundled()).expect("this device computes right");
    let gradient = "grad.bert.encoder.layer.1.output.dense.weight";
    let spoilt = |file: &str, name: &str, value: f32| {
        let mut files = bundled();
        let bytes = files.get_mut(file).expect("file");
        let mut tensors: Vec<NamedTensor> = {
            let file = TensorFile::parse(bytes, file).expect("tensors");
            file.names().into_iter().map(|name| file.f32(name).expect("tensor")).collect()
        };
        tensors.iter_mut().find(|tensor| tensor.name == name).expect("tensor").data.fill(value);
        *bytes = write(&tensors).expect("written");
        verdict(&files).expect_err("wrong numbers")
    };
    // Expecting zeros where there are none is the same as computing zeros where there should be none; weights close to
    // the largest number make it compute what is none.
    let zeros = spoilt("expected.safetensors", gradient, 0.0);
    let no_numbers = spoilt("model.safetensors", "bert.encoder.layer.1.output.dense.weight", 3e38);
    for (error, part) in [(zeros, gradient), (no_numbers, "NaN")] {
        assert!(matches!(error, TrainError::WrongNumbers { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    // That a file holds none is not the device's fault.
    let error = spoilt("expected.safetensors", gradient, f32::NAN);
    assert!(matches!(error, TrainError::SelfTest(_)) && error.to_string().contains(gradient), "{error}");
}

#[test]
fn a_run_without_its_start_is_left_out_and_said_so() {
    let mut files = folder("steps");
    files.remove("start_wild.safetensors");
    files.retain(|name, _| !name.contains("lamb"));
    let device = device(KernelFamily::Register);
    let report = pollster::block_on(self_test(&device.gpu, &files)).expect("self-test");
    assert!(report.ok(), "{:?}", report.worst());
    assert_eq!(report.left_out.len(), 3, "{:?}", report.left_out);
    assert!(report.left_out.contains(&"adamw: start_wild.safetensors is missing".to_string()));
    assert_eq!(report.comparisons.iter().filter(|c| c.kind == Quantity::GradientNorm).count(), 2 * 10);
}
