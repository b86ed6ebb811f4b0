//! Token ids of words seen before: most words of a text are repetitions.

use super::Tokenizer;
use std::collections::HashMap;
use std::ops::Range;

/// Words kept at most; then it starts anew.
const WORDS: usize = 1 << 17;
/// Longer words are rare, and not worth the memory.
const LONGEST: usize = 64;

/// A [`Tokenizer`] that remembers words.
pub(super) struct WordCache<'a> {
    tokenizer: &'a Tokenizer,
    /// Where in `ids` a word's ids are.
    words: HashMap<Box<str>, Range<u32>>,
    ids: Vec<u32>,
}

impl<'a> WordCache<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, words: HashMap::new(), ids: Vec::new() }
    }

    /// Appends what [`Tokenizer::encode`] gives.
    pub(super) fn encode(&mut self, text: &str, ids: &mut Vec<u32>) {
        // Words do not depend on what stands beyond these blanks.
        for word in text.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()) {
            if let Some(found) = self.words.get(word) {
                ids.extend_from_slice(&self.ids[found.start as usize..found.end as usize]);
                continue;
            }
            let word_ids = self.tokenizer.encode(word);
            ids.extend_from_slice(&word_ids);
            if word.len() > LONGEST {
                continue;
            }
            if self.words.len() == WORDS {
                self.words.clear();
                self.ids.clear();
            }
            let start = self.ids.len() as u32;
            self.ids.extend_from_slice(&word_ids);
            self.words.insert(word.into(), start..self.ids.len() as u32);
        }
    }
}
