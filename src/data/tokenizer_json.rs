//! `tokenizer.json` and `tokenizer_config.json`, as Hugging Face's `BertTokenizerFast` saves them.

use super::Tokenizer;
use super::vocabulary::{CONTINUATION, SPECIAL_TOKENS};
use serde_json::{Map, Value, json};

impl Tokenizer {
    /// The content of `tokenizer.json`.
    pub fn to_tokenizer_json(&self) -> String {
        let vocabulary = self.vocabulary();
        let ids: Map<String, Value> =
            (vocabulary.tokens().iter().zip(0u32..)).map(|(token, id)| (token.clone(), id.into())).collect();
        let mut special = SPECIAL_TOKENS.map(|token| (vocabulary.id(token), token));
        special.sort_unstable();
        let added_tokens = special.map(|(id, content)| {
            json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true })
        });
        let special_token =
            |token: &str, type_id: u32| json!({ "SpecialToken": { "id": token, "type_id": type_id } });
        let sequence = |id: &str, type_id: u32| json!({ "Sequence": { "id": id, "type_id": type_id } });
        let template = [special_token("[CLS]", 0), sequence("A", 0), special_token("[SEP]", 0)];
        let pair = [&template[..], &[sequence("B", 1), special_token("[SEP]", 1)]].concat();
        let template_token =
            |token: &str| json!({ "id": token, "ids": [vocabulary.id(token)], "tokens": [token] });
        let content = json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": added_tokens,
            "normalizer": {
                "type": "BertNormalizer",
                "clean_text": true,
                "handle_chinese_chars": true,
                "strip_accents": self.strip_accents(),
                "lowercase": self.do_lower_case(),
            },
            "pre_tokenizer": { "type": "BertPreTokenizer" },
            "post_processor": {
                "type": "TemplateProcessing",
                "single": template,
                "pair": pair,
                "special_tokens": { "[CLS]": template_token("[CLS]"), "[SEP]": template_token("[SEP]") },
            },
            "decoder": { "type": "WordPiece", "prefix": CONTINUATION, "cleanup": true },
            "model": {
                "type": "WordPiece",
                "unk_token": "[UNK]",
                "continuing_subword_prefix": CONTINUATION,
                // Hugging Face's own limit; the reference's is `MAX_CHARS_PER_WORD`.
                "max_input_chars_per_word": 100,
                "vocab": ids,
            },
        });
        format!("{content:#}")
    }
}
