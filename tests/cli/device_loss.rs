//! Devices that are lost, refused, or out of memory, by a driver that fails when it is told to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::workplace::Workplace;
use super::{Finished, json_lines, run, wgpu_bert};

/// A driver file, and the library that the driver named in it passes everything on to.
struct FailingDriver {
    file: String,
    of: PathBuf,
}

impl FailingDriver {
    /// Of the driver that the tests use.
    fn new(place: &Workplace) -> Self {
        let chosen = std::env::var("VK_DRIVER_FILES");
        let real = PathBuf::from(chosen.unwrap_or_else(|_| "/usr/share/vulkan/icd.d/lvp_icd.json".into()));
        let text = fs::read_to_string(&real).expect("a driver file: set VK_DRIVER_FILES");
        let driver: serde_json::Value = serde_json::from_str(&text).expect("a driver file");
        let [of, version] = ["library_path", "api_version"].map(|key| driver["ICD"][key].as_str().unwrap());
        // A name without a folder is looked for where the system has its libraries.
        let of = if of.contains('/') { real.parent().unwrap().join(of) } else { of.into() };
        let examples = Path::new(env!("CARGO_BIN_EXE_wgpu-bert")).with_file_name("examples");
        let library = examples.join("libfailing_driver.so");
        assert!(library.exists(), "{}: make it by `cargo build --examples`", library.display());
        let icd = serde_json::json!({"library_path": library, "api_version": version});
        let file = serde_json::json!({"file_format_version": "1.0.0", "ICD": icd}).to_string();
        Self { file: place.write("failing_driver.json", &file), of }
    }

    /// Six steps with a checkpoint of each, on devices that become what `devices` says.
    fn pretrain(&self, place: &Workplace, devices: &str, flags: &[&str]) -> Finished {
        let every = ["--json", "--save_checkpoints_steps=1", "--keep_checkpoint_max=9"];
        let flags = place.flags(&[&every, flags].concat());
        let mut command = wgpu_bert(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        run(self.drives(&mut command).env("FAILING_DRIVER_DEVICES", devices))
    }

    fn drives<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        // The second is for older Vulkan loaders.
        command.env("VK_DRIVER_FILES", &self.file).env("VK_ICD_FILENAMES", &self.file);
        command.env("FAILING_DRIVER_OF", &self.of)
    }
}

fn model_dir(place: &Workplace, folder: &str) -> String {
    format!("--model_dir={}", place.path(folder))
}

/// The model of a run of six steps, and all that its last checkpoint adds to it.
fn end(place: &Workplace, folder: &str) -> [Vec<u8>; 2] {
    let files = ["model.safetensors", "checkpoint-6/training_state.safetensors"];
    files.map(|file| fs::read(Path::new(&place.path(folder)).join(file)).expect(file))
}

fn told(finished: &Finished, kind: &str) -> Vec<serde_json::Value> {
    let lines = json_lines(&finished.stdout);
    lines.into_iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
fn whenever_a_device_is_lost_the_run_ends_as_if_it_were_not() {
    let place = Workplace::new();
    let driver = FailingDriver::new(&place);
    let whole = driver.pretrain(&place, "lives", &[&model_dir(&place, "whole")]);
    assert_eq!((whole.code, told(&whole, "device-lost").len()), (Some(0), 0), "{}", whole.stderr);
    // In the check of the device, in steps, and in what reads a checkpoint.
    let mut went_on_from = Vec::new();
    for work in (0..).step_by(6) {
        let folder = format!("lost at {work}");
        let finished = driver.pretrain(&place, &format!("{work},lives"), &[&model_dir(&place, &folder)]);
        assert_eq!(finished.code, Some(0), "{work}: {}", finished.stderr);
        assert!(end(&place, &folder) == end(&place, "whole"), "{work}");
        let [saved, measured] = ["checkpoint", "progress"].map(|kind| -> Vec<_> {
            told(&finished, kind).iter().map(|line| line["step"].as_u64().unwrap()).collect()
        });
        assert_eq!((saved, measured), ((1..=6).collect(), vec![2, 3, 5, 6]), "{work}");
        match &told(&finished, "device-lost")[..] {
            [] => break,
            [lost] => went_on_from.push(lost["step"].as_u64().unwrap()),
            several => panic!("{several:?}"),
        }
    }
    let in_set_up = went_on_from.iter().filter(|step| **step == 0).count();
    assert!(in_set_up > 1 && went_on_from.len() - in_set_up > 1, "{went_on_from:?}");

    // With no other device to be had, what was saved is there to go on from.
    let last = 6 * (went_on_from.len() - 1);
    let dir = model_dir(&place, "stopped");
    let stopped = driver.pretrain(&place, &format!("{last},refused"), &[&dir]);
    assert_eq!(stopped.code, Some(4), "{}", stopped.stderr);
    for part in ["no other could be opened", "To go on from", "--resume=auto"] {
        assert!(stopped.stderr.contains(part), "{} should contain {part}", stopped.stderr);
    }
    assert_eq!(told(&stopped, "notice").len(), 4);
    let finished = driver.pretrain(&place, "lives", &[&dir, "--resume=auto"]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(end(&place, "stopped") == end(&place, "whole"));
}

#[test]
fn a_device_that_does_not_come_back_ends_the_run_with_code_4() {
    let place = Workplace::new();
    let driver = FailingDriver::new(&place);
    let lost = driver.pretrain(&place, "0", &[]);
    assert_eq!((lost.code, told(&lost, "device-lost").len()), (Some(4), 2), "{}", lost.stderr);
    assert!(lost.stderr.contains("the device was lost 3 times in a row, after step 0"), "{}", lost.stderr);
    assert_eq!(told(&lost, "error")[0]["exit_code"], 4);
    assert!(!place.model_dir().exists());
    // One that is refused for a while is waited for.
    let late = driver.pretrain(&place, "0,refused,refused,lives", &[]);
    assert_eq!(late.code, Some(0), "{}", late.stderr);
    let [first, second] = &told(&late, "notice")[..] else { panic!("{}", late.stdout) };
    for (notice, seconds) in [(first, "again in 0.5 s"), (second, "again in 1 s")] {
        let message = notice["message"].as_str().unwrap();
        assert!(message.contains("refused a device") && message.contains(seconds), "{message}");
    }
}

#[test]
fn a_device_that_one_of_several_replicas_is_refused_is_told_before_a_step() {
    let place = Workplace::new();
    let replicas = ["--ds=mirrored", "--replicas_per_adapter=2"];
    let refused = FailingDriver::new(&place).pretrain(&place, "lives,refused", &replicas);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let error = &told(&refused, "error")[0];
    assert_eq!(error["reason"], "device_refused", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("its driver opened no device") && message.contains("--adapter"), "{message}");
    assert!(!place.model_dir().exists() && told(&refused, "progress").is_empty(), "{}", refused.stdout);
}

#[test]
fn memory_that_runs_out_is_told_with_the_numbers_of_the_plan() {
    let place = Workplace::new();
    let driver = FailingDriver::new(&place);
    let model = r#"{"vocab_size": 60, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
        "intermediate_size": 1536, "max_position_embeddings": 16, "type_vocab_size": 2}"#;
    let config = format!("--bert_config_file={}", place.write("wide.json", model));
    let flags = place.flags(&[&config]);
    let mut command = wgpu_bert(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    // It has room for the check of the device.
    let finished = run(driver.drives(&mut command).env("FAILING_DRIVER_MEMORY", "80000000"));
    assert_eq!(finished.code, Some(4), "{}", finished.stderr);
    let told = finished.stderr.lines().last().unwrap();
    assert!(told.starts_with("out of device memory: ") && told.contains(" has no room for "), "{told}");
    assert!(told.contains(" bytes in ") && told.contains("the largest of them "), "{told}");
    assert!(!place.model_dir().exists());
}
