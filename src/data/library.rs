//! Where instances take their sentences from: documents in memory, or on disk.

use super::Error;
use std::ops::Range;

/// Documents of sentences of token ids; none of them is empty.
pub(super) trait Library {
    /// Number of documents.
    fn documents(&self) -> usize;

    /// Sentences of a document.
    fn sentences(&mut self, document: usize) -> Result<usize, Error>;

    /// Tokens of a sentence.
    fn length(&mut self, document: usize, sentence: usize) -> Result<usize, Error>;

    /// Appends the tokens of sentences of a document.
    fn append(
        &mut self,
        document: usize,
        sentences: Range<usize>,
        tokens: &mut Vec<u32>,
    ) -> Result<(), Error>;

    /// Appends whole sentences, the first one in any case, until there are `needed` tokens or the document ends.
    fn append_until(
        &mut self,
        document: usize,
        first: usize,
        needed: usize,
        tokens: &mut Vec<u32>,
    ) -> Result<(), Error>;

    /// Tokens of a document.
    fn tokens(&mut self, document: usize) -> Result<usize, Error>;

    /// Appends tokens of a document, wherever its sentences end.
    fn append_tokens(
        &mut self,
        document: usize,
        range: Range<usize>,
        tokens: &mut Vec<u32>,
    ) -> Result<(), Error>;
}

/// Documents in memory.
pub(super) struct InMemory<'a> {
    documents: Vec<&'a [Vec<u32>]>,
    /// The documents' tokens without ends of sentences, once they were asked for.
    streams: Vec<Vec<u32>>,
}

impl<'a> InMemory<'a> {
    pub(super) fn new(documents: Vec<&'a [Vec<u32>]>) -> Self {
        Self { documents, streams: Vec::new() }
    }

    fn stream(&mut self, document: usize) -> &[u32] {
        if self.streams.is_empty() {
            self.streams = self.documents.iter().map(|document| document.concat()).collect();
        }
        &self.streams[document]
    }
}

impl Library for InMemory<'_> {
    fn documents(&self) -> usize {
        self.documents.len()
    }

    fn sentences(&mut self, document: usize) -> Result<usize, Error> {
        Ok(self.documents[document].len())
    }

    fn length(&mut self, document: usize, sentence: usize) -> Result<usize, Error> {
        Ok(self.documents[document][sentence].len())
    }

    fn tokens(&mut self, document: usize) -> Result<usize, Error> {
        Ok(self.stream(document).len())
    }

    fn append_tokens(
        &mut self,
        document: usize,
        range: Range<usize>,
        tokens: &mut Vec<u32>,
    ) -> Result<(), Error> {
        tokens.extend_from_slice(&self.stream(document)[range]);
        Ok(())
    }

    fn append(
        &mut self,
        document: usize,
        sentences: Range<usize>,
        tokens: &mut Vec<u32>,
    ) -> Result<(), Error> {
        self.documents[document][sentences].iter().for_each(|sentence| tokens.extend_from_slice(sentence));
        Ok(())
    }

    fn append_until(
        &mut self,
        document: usize,
        first: usize,
        needed: usize,
        tokens: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let enough = tokens.len() + needed;
        for sentence in &self.documents[document][first..] {
            tokens.extend_from_slice(sentence);
            if tokens.len() >= enough {
                break;
            }
        }
        Ok(())
    }
}
