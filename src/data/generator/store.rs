//! All documents as ids, on disk where they are many: each token is made once and read as often as instances need it.

use super::disk::Disk;
use super::encode::Encoded;
use super::ids::IdWidth;
use super::spill::Spill;
use crate::data::library::Library;
use crate::data::{DataReport, Documents, Error, InstanceOptions};
#[cfg(not(target_family = "wasm"))]
use sha2::{Digest, Sha256};
use std::ops::Range;

/// Sentences and tokens that a reader keeps at hand.
const WINDOW_SENTENCES: u64 = 4096;
const WINDOW_TOKENS: u64 = 1 << 17;

/// Documents of sentences of ids.
pub(super) struct Store {
    width: IdWidth,
    ids: Spill,
    /// For each sentence, and the one after the last, its first token (u64).
    sentence_starts: Spill,
    /// For each document, and the one after the last, its first sentence (u64).
    document_starts: Spill,
    pub(super) tokens: u64,
    pub(super) sentences: u64,
    pub(super) documents: u64,
    pub(super) unknown: u64,
    pub(super) undecodable: u64,
    /// Whether the next sentence continues the last document.
    document_is_open: bool,
}

impl Store {
    /// An empty one; what does not stay in memory goes to `disk`.
    pub(super) fn new(disk: &Disk, width: IdWidth) -> Self {
        Self {
            width,
            ids: Spill::new(disk),
            sentence_starts: Spill::new(disk),
            document_starts: Spill::new(disk),
            tokens: 0,
            sentences: 0,
            documents: 0,
            unknown: 0,
            undecodable: 0,
            document_is_open: false,
        }
    }

    pub(super) fn append(&mut self, encoded: &Encoded) -> Result<(), Error> {
        let mut ends = encoded.document_ends.iter().peekable();
        for (number, &length) in (0..).zip(&encoded.lengths) {
            while ends.next_if(|end| **end <= number).is_some() {
                self.document_is_open = false;
            }
            if !self.document_is_open {
                self.document_starts.append(&self.sentences.to_le_bytes())?;
                self.documents += 1;
                self.document_is_open = true;
            }
            self.sentence_starts.append(&self.tokens.to_le_bytes())?;
            self.sentences += 1;
            self.tokens += u64::from(length);
        }
        self.document_is_open &= ends.next().is_none();
        self.unknown += encoded.unknown;
        self.undecodable += encoded.undecodable;
        self.ids.append(&encoded.ids)
    }

    /// To be called once, after everything was appended.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.sentence_starts.append(&self.tokens.to_le_bytes())?;
        self.document_starts.append(&self.sentences.to_le_bytes())
    }

    /// What there is, and instances made of it.
    pub(super) fn report(&self, instances: u64, random_next: u64) -> DataReport {
        DataReport {
            documents: self.documents as usize,
            sentences: self.sentences as usize,
            tokens: self.tokens as usize,
            unknown: self.unknown as usize,
            instances: instances as usize,
            random_next: random_next as usize,
        }
    }

    /// SHA-256 of everything.
    #[cfg(not(target_family = "wasm"))]
    pub(super) fn checksum(&self) -> Result<String, Error> {
        let mut hash = Sha256::new();
        let mut piece = vec![0; 1 << 16];
        for spill in [&self.ids, &self.sentence_starts, &self.document_starts] {
            hash.update(spill.len().to_le_bytes());
            for at in (0..spill.len()).step_by(piece.len()) {
                let length = (piece.len() as u64).min(spill.len() - at) as usize;
                spill.read_at(at, &mut piece[..length])?;
                hash.update(&piece[..length]);
            }
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// About how many tokens the instances have: of a sentence no more than fit in one.
    pub(super) fn kept_tokens(&self, options: &InstanceOptions) -> u64 {
        let most = self.sentences.saturating_mul(options.capacity() as u64);
        let once = if options.first_segment_tokens.is_some() { most } else { self.tokens.min(most) };
        once.saturating_mul(options.dupe_factor as u64)
    }

    /// The first sentences of document `document` and of the one after it.
    fn bounds(&self, document: u64) -> Result<Range<u64>, Error> {
        let mut bytes = [0; 16];
        self.document_starts.read_at(8 * document, &mut bytes)?;
        let [start, end] = [0, 8].map(|at| number(&bytes[at..]));
        Ok(start..end)
    }

    fn first_token(&self, sentence: u64) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.sentence_starts.read_at(8 * sentence, &mut bytes)?;
        Ok(number(&bytes))
    }

    fn read_ids(&self, tokens: Range<u64>, scratch: &mut Vec<u8>, ids: &mut Vec<u32>) -> Result<(), Error> {
        let width = self.width.bytes();
        scratch.resize((tokens.end - tokens.start) as usize * width, 0);
        self.ids.read_at(tokens.start * width as u64, scratch)?;
        self.width.read(scratch, ids);
        Ok(())
    }

    /// Ranges of neighbouring documents that have about `sentences` sentences, or are one document.
    pub(super) fn shares(&self, sentences: u64) -> impl Iterator<Item = Result<Range<usize>, Error>> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = next;
            let mut have = 0;
            while next < self.documents && have < sentences {
                match self.bounds(next) {
                    Ok(bounds) => have += bounds.end - bounds.start,
                    Err(error) => return Some(Err(error)),
                }
                next += 1;
            }
            (first < next).then_some(Ok(first as usize..next as usize))
        })
    }

    /// Everything, in memory.
    pub(super) fn load(&self, origin: String) -> Result<Documents, Error> {
        let mut reader = StoreReader::new(self);
        let documents = (0..self.documents as usize).map(|document| reader.document(document, usize::MAX));
        Ok(Documents { origin, documents: documents.collect::<Result<_, _>>()? })
    }
}

fn number(bytes: &[u8]) -> u64 {
    (0..8).rev().fold(0, |number, byte| number << 8 | u64::from(bytes[byte]))
}

/// Reads a [`Store`]; one for each thread.
pub(super) struct StoreReader<'a> {
    store: &'a Store,
    /// The document last asked for, and its sentences.
    bounds: (usize, Range<u64>),
    /// Neighbouring sentences: number of the first, first tokens of all and of the one after the last, ids.
    first: u64,
    starts: Vec<u64>,
    ids: Vec<u32>,
    scratch: Vec<u8>,
}

impl<'a> StoreReader<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        let (starts, ids, scratch) = (vec![0], Vec::new(), Vec::new());
        Self { store, bounds: (usize::MAX, 0..0), first: 0, starts, ids, scratch }
    }

    fn bounds(&mut self, document: usize) -> Result<Range<u64>, Error> {
        if self.bounds.0 != document {
            self.bounds = (document, self.store.bounds(document as u64)?);
        }
        Ok(self.bounds.1.clone())
    }

    /// A document, in memory; if it has more tokens than `most`, those sentences that are within.
    pub(super) fn document(&mut self, document: usize, most: usize) -> Result<Vec<Vec<u32>>, Error> {
        let (mut sentences, mut tokens) = (Vec::new(), 0);
        for sentence in 0..self.sentences(document)? {
            let mut ids = Vec::with_capacity(self.length(document, sentence)?);
            self.append(document, sentence..sentence + 1, &mut ids)?;
            tokens += ids.len();
            if tokens > most && sentence > 0 {
                break;
            }
            sentences.push(ids);
        }
        Ok(sentences)
    }

    /// How many sentences these documents have.
    pub(super) fn sentences_of(&self, documents: Range<usize>) -> Result<u64, Error> {
        let end = self.store.bounds(documents.end as u64 - 1)?.end;
        Ok(end - self.store.bounds(documents.start as u64)?.start)
    }

    /// First tokens of `sentences` and of the one after them.
    fn read_starts(&mut self, sentences: Range<u64>, starts: &mut Vec<u64>) -> Result<(), Error> {
        self.scratch.resize((sentences.end - sentences.start + 1) as usize * 8, 0);
        self.store.sentence_starts.read_at(8 * sentences.start, &mut self.scratch)?;
        starts.clear();
        starts.extend(self.scratch.chunks_exact(8).map(number));
        Ok(())
    }

    /// Has the sentence `sentence` at hand, and those after it up to `end` as far as they fit.
    fn load(&mut self, sentence: u64, end: u64) -> Result<(), Error> {
        let mut starts = std::mem::take(&mut self.starts);
        self.read_starts(sentence..end.min(sentence + WINDOW_SENTENCES), &mut starts)?;
        let fitting = starts.partition_point(|start| start - starts[0] <= WINDOW_TOKENS);
        starts.truncate(fitting.max(2));
        self.ids.clear();
        let tokens = starts[0]..starts[starts.len() - 1];
        self.store.read_ids(tokens, &mut self.scratch, &mut self.ids)?;
        (self.first, self.starts) = (sentence, starts);
        Ok(())
    }

    fn holds(&self, sentences: &Range<u64>) -> bool {
        sentences.start >= self.first && sentences.end < self.first + self.starts.len() as u64
    }
}

impl Library for StoreReader<'_> {
    fn documents(&self) -> usize {
        self.store.documents as usize
    }

    fn sentences(&mut self, document: usize) -> Result<usize, Error> {
        self.bounds(document).map(|bounds| (bounds.end - bounds.start) as usize)
    }

    fn length(&mut self, document: usize, sentence: usize) -> Result<usize, Error> {
        let bounds = self.bounds(document)?;
        let sentence = bounds.start + sentence as u64;
        if !self.holds(&(sentence..sentence + 1)) {
            self.load(sentence, bounds.end)?;
        }
        let at = (sentence - self.first) as usize;
        Ok((self.starts[at + 1] - self.starts[at]) as usize)
    }

    fn append(
        &mut self,
        document: usize,
        sentences: Range<usize>,
        tokens: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let start = self.bounds(document)?.start;
        let sentences = start + sentences.start as u64..start + sentences.end as u64;
        if self.holds(&sentences) {
            let at =
                |sentence: u64| (self.starts[(sentence - self.first) as usize] - self.starts[0]) as usize;
            tokens.extend_from_slice(&self.ids[at(sentences.start)..at(sentences.end)]);
            return Ok(());
        }
        let mut starts = Vec::new();
        self.read_starts(sentences, &mut starts)?;
        self.store.read_ids(starts[0]..starts[starts.len() - 1], &mut self.scratch, tokens)
    }

    fn append_until(
        &mut self,
        document: usize,
        first: usize,
        needed: usize,
        tokens: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let bounds = self.bounds(document)?;
        let start = bounds.start + first as u64;
        // A sentence has at least a token, so there need not be more of them than tokens.
        let end = bounds.end.min(start + needed.max(1) as u64);
        let mut starts = Vec::new();
        self.read_starts(start..end, &mut starts)?;
        let enough = starts[1..].partition_point(|start| start - starts[0] < needed as u64) + 1;
        let last = enough.min(starts.len() - 1);
        self.store.read_ids(starts[0]..starts[last], &mut self.scratch, tokens)
    }

    fn tokens(&mut self, document: usize) -> Result<usize, Error> {
        let bounds = self.bounds(document)?;
        Ok((self.store.first_token(bounds.end)? - self.store.first_token(bounds.start)?) as usize)
    }

    fn append_tokens(
        &mut self,
        document: usize,
        range: Range<usize>,
        tokens: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let start = self.bounds(document)?.start;
        let first = self.store.first_token(start)?;
        let range = first + range.start as u64..first + range.end as u64;
        let held = self.starts[0]..self.starts[self.starts.len() - 1];
        if held.start <= range.start && range.end <= held.end {
            let at = |token: u64| (token - held.start) as usize;
            tokens.extend_from_slice(&self.ids[at(range.start)..at(range.end)]);
            return Ok(());
        }
        self.store.read_ids(range, &mut self.scratch, tokens)
    }
}
