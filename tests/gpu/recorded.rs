//! What TensorFlow's own program recorded: files of `tests/data/golden`.

use std::path::Path;

use wgpu_bert::checkpoint::TensorFile;
use wgpu_bert::data::{BatchLimits, Features};
use wgpu_bert::model::config::BertConfig;

/// A folder of recordings.
pub struct Recorded(pub &'static str);

impl Recorded {
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden").join(self.0).join(name);
        std::fs::read(path).expect(name)
    }

    pub fn config(&self) -> BertConfig {
        let text = String::from_utf8(self.bytes("config.json")).expect("UTF-8");
        BertConfig::from_json(&text, "config.json").expect("config")
    }

    /// Its inputs, of 64 tokens and 10 predictions each.
    pub fn features(&self, name: &str) -> Features {
        let bytes = self.bytes(name);
        let file = TensorFile::parse(&bytes, name).expect(name);
        let unsigned =
            |name: &str| file.i32(name).expect(name).data.into_iter().map(|id| id as u32).collect();
        Features {
            origin: name.into(),
            seq_length: 64,
            predictions: 10,
            input_ids: unsigned("input_word_ids"),
            input_mask: unsigned("input_mask"),
            segment_ids: unsigned("input_type_ids"),
            masked_lm_positions: unsigned("masked_lm_positions"),
            masked_lm_ids: unsigned("masked_lm_ids"),
            masked_lm_weights: file.f32("masked_lm_weights").expect("weights").data,
            next_sentence_labels: unsigned("next_sentence_labels"),
        }
    }
}

pub fn limits(config: &BertConfig) -> BatchLimits {
    BatchLimits {
        vocab_size: config.vocab_size,
        type_vocab_size: config.type_vocab_size,
        max_position_embeddings: config.max_position_embeddings,
    }
}
