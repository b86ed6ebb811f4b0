//! The corpus of the fuzz targets, replayed. `cargo +nightly fuzz run records` and so on look for more.

#[path = "../fuzz/src/targets.rs"]
mod targets;

use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files: Vec<_> =
        std::fs::read_dir(&folder).expect("the corpus").map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 5, "the corpus of {target} has {} files", files.len());
    for file in files {
        println!("{}", file.display());
        check(&std::fs::read(&file).unwrap());
    }
}

#[test]
fn records() {
    replay("records", targets::records);
}

#[test]
fn vocabularies() {
    replay("vocabulary", targets::vocabulary);
}

#[test]
fn configurations() {
    replay("config", targets::config);
}

#[test]
fn tensors() {
    replay("safetensors", targets::safetensors);
}

#[test]
fn checkpoints() {
    replay("tensor_bundle", targets::tensor_bundle);
}
