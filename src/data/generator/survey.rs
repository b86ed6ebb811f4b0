//! What a text of any size amounts to, before anything is made of it.

use super::disk::Disk;
use super::store::StoreReader;
use super::text::{Counters, TextSource};
use super::{GeneratorProgress, TextOptions, tell, tokenize};
use crate::data::library::Library;
use crate::data::{Documents, Error, Tokenizer};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// Tokens of the sample.
const SAMPLE: usize = 200_000;

/// Numbers of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct TextSurvey {
    /// Documents with at least one token.
    pub documents: u64,
    /// Sentences with at least one token.
    pub sentences: u64,
    /// Sentences of the longest document.
    pub longest_document: u64,
    /// Tokens.
    pub tokens: u64,
    /// Those of them that are `[UNK]`.
    pub unknown: u64,
    /// Bytes left out because they are not UTF-8.
    pub undecodable: u64,
    /// Files without a byte.
    pub empty_files: u64,
    /// The first documents, two at least if there are as many.
    pub sample: Documents,
}

/// Reads text and counts. `progress` is told how far it is, and may break it off.
///
/// # Errors
/// When the text cannot be read or has no token, or `progress` breaks it off ([`Error::Interrupted`]).
pub fn survey_text(
    sources: Vec<TextSource>,
    tokenizer: &Tokenizer,
    options: &TextOptions,
    progress: &mut dyn FnMut(GeneratorProgress) -> ControlFlow<()>,
) -> Result<TextSurvey, Error> {
    let origin = TextSource::name_all(&sources);
    let counters = Counters::default();
    let disk = Disk::at(&std::env::temp_dir());
    let mut tell = tell(progress);
    let tokenized = tokenize(sources, tokenizer, options, &disk, &counters, &mut tell);
    let store = pollster::block_on(tokenized)?;
    let mut reader = StoreReader::new(&store);
    let (mut longest_document, mut sampled) = (0, 0);
    let mut sample = Documents { origin, documents: Vec::new() };
    for document in 0..store.documents as usize {
        longest_document = longest_document.max(reader.sentences(document)? as u64);
        if sampled < SAMPLE || document < 2 {
            let document = reader.document(document, SAMPLE)?;
            sampled += document.iter().map(Vec::len).sum::<usize>();
            sample.documents.push(document);
        }
    }
    Ok(TextSurvey {
        documents: store.documents,
        sentences: store.sentences,
        longest_document,
        tokens: store.tokens,
        unknown: store.unknown,
        undecodable: store.undecodable,
        empty_files: counters.empty_files.load(Ordering::Relaxed),
        sample,
    })
}
