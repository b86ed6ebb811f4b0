//! The data room against what the reference made of the same text. `text/` holds what it made, and from what.

mod batch;
mod corpus;
mod generator;
mod instances;
mod masking;
mod python_random;
mod records;
mod tokenization;
mod vocabulary;
mod workers;

use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/text").join(name)
}

fn text(name: &str) -> String {
    let file = std::fs::File::open(path(name)).unwrap();
    let mut text = String::new();
    if name.ends_with(".gz") {
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    } else {
        std::io::BufReader::new(file).read_to_string(&mut text).unwrap();
    }
    text
}

fn json(name: &str) -> Value {
    serde_json::from_str(&text(name)).unwrap()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|x| x.as_str().unwrap()).collect()
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect()
}
