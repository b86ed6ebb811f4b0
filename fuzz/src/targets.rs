//! What is asked of every reader, whatever the bytes: no panic, and of what it accepts that it means the same when it is
//! written again. Fuzzing runs these with bytes of its own, the tests with those in `fuzz/corpus`.

#![allow(dead_code, reason = "every fuzz target takes one")]

use std::io::Cursor;

use wgpu_bert::checkpoint::TensorFile;
use wgpu_bert::checkpoint::tensor_bundle::{ObjectGraph, TensorBundle};
use wgpu_bert::data::{
    FeatureNames, Features, Tokenizer, Vocabulary, holds_records, read_records, read_sound_records,
    write_records,
};
use wgpu_bert::model::config::BertConfig;

/// TFRecord files.
pub fn records(bytes: &[u8]) {
    let strict = read_records("fuzz", bytes, true);
    let lenient = read_sound_records("fuzz", bytes, false);
    if let Ok(features) = &strict {
        assert!(holds_records(bytes));
        assert!(lenient.is_ok_and(|(lenient, skipped)| same(&lenient, features) && skipped.count == 0));
        let written = write_records(features, FeatureNames::V2);
        assert!(read_records("written", &written, true).is_ok_and(|read| same(&read, features)));
    }
}

/// Weights may be no numbers, which equal nothing.
fn same(a: &Features, b: &Features) -> bool {
    let bits = |features: &Features| -> Vec<u32> {
        features.masked_lm_weights.iter().map(|weight| weight.to_bits()).collect()
    };
    let without = |features: &Features| Features {
        origin: String::new(),
        masked_lm_weights: Vec::new(),
        ..features.clone()
    };
    bits(a) == bits(b) && without(a) == without(b)
}

/// Vocabularies, and text in their words.
pub fn vocabulary(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(vocabulary) = Vocabulary::parse(&text, "fuzz") else { return };
    assert!(vocabulary.tokens().iter().zip(0..).all(|(token, id)| vocabulary.id(token) == Some(id)));
    assert_eq!(Vocabulary::parse(&vocabulary.to_text(), "written").as_ref().ok(), Some(&vocabulary));
    for do_lower_case in [true, false] {
        let tokenizer = Tokenizer::new(vocabulary.clone(), do_lower_case);
        let ids = tokenizer.encode(&text);
        assert!(ids.iter().all(|id| (*id as usize) < vocabulary.size()));
        assert_eq!(tokenizer.tokens(&text).len(), ids.len());
    }
}

/// Configurations of models.
pub fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(config) = BertConfig::from_json(&text, "fuzz") else { return };
    let written = config.to_hugging_face_json();
    assert_eq!(BertConfig::from_json(&written, "written").ok(), Some(config), "{written}");
}

/// Files of tensors.
pub fn safetensors(bytes: &[u8]) {
    let Ok(file) = TensorFile::parse(bytes, "fuzz") else { return };
    for name in file.names() {
        let shape = file.shape(name).expect("a tensor of the list is there");
        if let Ok(tensor) = file.f32(name) {
            assert_eq!(tensor.data.len(), shape.iter().product::<usize>());
        }
        // Another type is an error, not a panic.
        let _ = file.i32(name);
    }
}

/// Checkpoints of TensorFlow: as an index with itself for values, as the content of an index whose checksums are good, and
/// as a list of objects.
pub fn tensor_bundle(bytes: &[u8]) {
    for index in [bytes.to_vec(), table(bytes)] {
        let Ok(mut bundle) = TensorBundle::read(&index, "fuzz", |_| Ok(Cursor::new(bytes))) else { continue };
        let tensors: Vec<_> =
            bundle.tensors().map(|(key, shape)| (key.to_owned(), shape.iter().product::<usize>())).collect();
        for (key, elements) in tensors {
            if let Ok(tensor) = bundle.f32(&key) {
                assert_eq!(tensor.data.len(), elements);
            }
        }
        // Damage is an error, not a panic.
        let _ = bundle.object_graph();
    }
    let Some(graph) = ObjectGraph::parse(bytes) else { return };
    for node in graph.nodes() {
        assert!(node.variable("model/layer_with_weights-0").is_none_or(|_| node.at("model").is_some()));
    }
}

/// A table with one block of this content.
fn table(content: &[u8]) -> Vec<u8> {
    let mut table = Vec::new();
    let mut seal = |content: &[u8]| {
        let handle = [varint(table.len()), varint(content.len())].concat();
        let sealed = [content, &[0]].concat();
        let checksum = crc32c::crc32c(&sealed).rotate_right(15).wrapping_add(0xa282_ead8);
        table.extend([sealed, checksum.to_le_bytes().into()].concat());
        handle
    };
    let restart = [0, 0, 0, 0, 1, 0, 0, 0];
    let handle = seal(content);
    let entry = [&[0, 1, handle.len() as u8, b'k'], &handle[..], &restart].concat();
    let mut footer = [seal(&restart), seal(&entry)].concat();
    footer.resize(40, 0);
    [table, footer, 0xdb47_7524_8b80_fb57_u64.to_le_bytes().into()].concat()
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
