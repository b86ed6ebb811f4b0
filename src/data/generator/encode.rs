//! Batches of lines → token ids.

use super::ids::IdWidth;
use super::lines::Line;
use super::text::Batch;
use crate::data::word_cache::WordCache;
use crate::data::{Error, Tokenizer};

/// The sentences of a batch that have tokens, as ids.
#[derive(Default)]
pub(super) struct Encoded {
    /// All ids, one after another.
    pub(super) ids: Vec<u8>,
    /// Tokens of each sentence.
    pub(super) lengths: Vec<u32>,
    /// Numbers of sentences before which a document ends, ascending; the number of all of them is after the last.
    pub(super) document_ends: Vec<u32>,
    /// `[UNK]` among the ids.
    pub(super) unknown: u64,
    /// Bytes left out because they are not UTF-8.
    pub(super) undecodable: u64,
}

pub(super) struct BatchEncoder<'a> {
    words: WordCache<'a>,
    unk: u32,
    width: IdWidth,
    /// The field of JSON lines that has the text; without it lines are the text.
    json_field: Option<&'a str>,
    sentence: Vec<u32>,
}

impl<'a> BatchEncoder<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, width: IdWidth, json_field: Option<&'a str>) -> Self {
        let unk = tokenizer.vocabulary().special().unk;
        Self { words: WordCache::new(tokenizer), unk, width, json_field, sentence: Vec::new() }
    }

    pub(super) fn encode(&mut self, batch: &Batch) -> Result<Encoded, Error> {
        let mut encoded = Encoded::default();
        if batch.starts_document {
            encoded.document_ends.push(0);
        }
        encoded.undecodable = batch.for_each_line(self.json_field, |line| match line {
            Line::Sentence(sentence) => self.sentence(sentence, &mut encoded),
            Line::DocumentEnd => encoded.document_ends.push(encoded.lengths.len() as u32),
        })?;
        Ok(encoded)
    }

    fn sentence(&mut self, sentence: &str, encoded: &mut Encoded) {
        self.sentence.clear();
        self.words.encode(sentence, &mut self.sentence);
        if !self.sentence.is_empty() {
            encoded.lengths.push(self.sentence.len() as u32);
            encoded.unknown += self.sentence.iter().filter(|&&id| id == self.unk).count() as u64;
            self.width.write(&self.sentence, &mut encoded.ids);
        }
    }
}
