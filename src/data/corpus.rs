//! Text → documents of sentences. A sentence is a line, a document ends at a blank line.
//!
//! ```
//! use wgpu_bert::data::Corpus;
//! let mut corpus = Corpus::default();
//! corpus.add("example", b"One line, one sentence.\nAnother.\n\nA new document.", false)?;
//! assert_eq!(corpus.documents().count(), 2);
//! # Ok::<(), wgpu_bert::data::Error>(())
//! ```

use super::word_cache::WordCache;
use super::{Error, Tokenizer, holds_records, no_text};
use flate2::read::MultiGzDecoder;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

/// The first five books of the King James Bible (1611): a verse a line, a chapter a document. The package for browsers
/// has it as a file of its own.
#[cfg(not(target_family = "wasm"))]
pub(super) const BUNDLED: &[u8] = include_bytes!("../../data/kjv-pentateuch.txt.gz");

/// As many bytes of a file tell whether it is text.
const FIRST: usize = 1 << 20;

/// Documents of sentences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Corpus {
    /// Names of the files.
    origins: Vec<String>,
    /// Documents may be empty: two blank lines in a row make one.
    documents: Vec<Vec<String>>,
    undecodable: usize,
}

/// A [`Corpus`] as token ids: documents of sentences of ids, none of them empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Documents {
    /// Where the text comes from, for errors.
    pub origin: String,
    /// The documents.
    pub documents: Vec<Vec<Vec<u32>>>,
}

impl Corpus {
    /// The corpus that comes with this crate: 187 documents, 5,852 sentences.
    ///
    /// # Errors
    /// None in a sound build.
    #[cfg(not(target_family = "wasm"))]
    pub fn bundled() -> Result<Self, Error> {
        let mut corpus = Self::default();
        corpus.add("bundled corpus", BUNDLED, false)?;
        Ok(corpus)
    }

    /// Reads files, plain or gzip, in this order.
    ///
    /// # Errors
    /// When a file cannot be read, and as [`Corpus::add`].
    pub fn read<P: AsRef<Path>>(paths: &[P], documents_run_on: bool) -> Result<Self, Error> {
        let mut corpus = Self::default();
        for path in paths.iter().map(AsRef::as_ref) {
            let bytes = std::fs::read(path).map_err(|error| Error::Read { path: path.to_owned(), error })?;
            corpus.add(&path.display().to_string(), &bytes, documents_run_on)?;
        }
        Ok(corpus)
    }

    /// Adds a file's content, plain or gzip; `origin` names it in errors. With `documents_run_on` its first line
    /// continues the last document of the file before, as in the reference; otherwise it starts a new one.
    ///
    /// Bytes that are not UTF-8 are left out, as in the reference, and counted in [`Corpus::undecodable`].
    ///
    /// # Errors
    /// When the content is empty, blank, no text, a damaged gzip file or a file of records.
    pub fn add(&mut self, origin: &str, bytes: &[u8], documents_run_on: bool) -> Result<(), Error> {
        let origin = origin.to_owned();
        let bytes = match unpack(bytes) {
            Ok(bytes) => bytes,
            Err(error) => return Err(Error::BadGzip { origin, error }),
        };
        if holds_records(&bytes) {
            return Err(Error::RecordsNotText { origin });
        }
        if bytes.is_empty() {
            return Err(Error::EmptyText { origin });
        }
        no_text::check(&origin, &bytes[..bytes.len().min(FIRST)])?;
        let text: String = bytes.utf8_chunks().map(|chunk| chunk.valid()).collect();
        if text.trim_matches(is_python_space).is_empty() {
            return Err(Error::BlankText { origin });
        }
        self.undecodable += bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum::<usize>();
        if self.documents.is_empty() || !documents_run_on {
            self.documents.push(Vec::new());
        }
        // A final line feed ends the last line; what follows is not a blank line.
        for line in text.strip_suffix('\n').unwrap_or(&text).split('\n') {
            let sentence = line.trim_matches(is_python_space);
            match self.documents.last_mut() {
                Some(document) if !sentence.is_empty() => document.push(sentence.to_owned()),
                _ => self.documents.push(Vec::new()),
            }
        }
        self.origins.push(origin);
        Ok(())
    }

    /// Bytes left out because they are not UTF-8. In a text of another encoding words lose letters by it.
    pub fn undecodable(&self) -> usize {
        self.undecodable
    }

    /// The documents, none of them empty.
    pub fn documents(&self) -> impl Iterator<Item = &[String]> + Clone + Send {
        self.documents.iter().map(Vec::as_slice).filter(|document| !document.is_empty())
    }

    /// The sentences of all documents.
    pub fn sentences(&self) -> impl Iterator<Item = &str> + Clone + Send {
        self.documents().flatten().map(String::as_str)
    }

    /// The corpus as token ids. Sentences without a token are dropped, and documents without a sentence.
    ///
    /// # Errors
    /// When no token is left.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Result<Documents, Error> {
        let origin = match &self.origins[..] {
            [] => "no text".to_owned(),
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        };
        let mut cache = WordCache::new(tokenizer);
        let mut encode = |sentence: &String| {
            let mut ids = Vec::new();
            cache.encode(sentence, &mut ids);
            ids
        };
        let mut encode = |document: &[String]| -> Vec<Vec<u32>> {
            document.iter().map(&mut encode).filter(|ids| !ids.is_empty()).collect()
        };
        let documents: Vec<_> =
            self.documents().map(&mut encode).filter(|document| !document.is_empty()).collect();
        if documents.is_empty() {
            return Err(Error::NoTokens { origin });
        }
        Ok(Documents { origin, documents })
    }
}

/// White space as Python's `strip` sees it: Rust's, and the four ASCII separators.
pub(super) fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Undoes gzip, which its first bytes give away.
fn unpack(bytes: &[u8]) -> std::io::Result<Cow<'_, [u8]>> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(bytes).read_to_end(&mut unpacked)?;
    Ok(Cow::Owned(unpacked))
}
