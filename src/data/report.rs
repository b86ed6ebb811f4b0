//! What a text amounts to, said before training starts.

use super::{Documents, InstanceSet, Vocabulary};
use std::fmt;

/// Shares of instances with a random next sentence, and of unknown tokens, from which on something must be wrong.
const MOST_RANDOM: f64 = 0.9;
const MOST_UNKNOWN: f64 = 0.05;

/// Numbers of a corpus and the instances made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DataReport {
    /// Documents with at least one token.
    pub documents: usize,
    /// Sentences with at least one token.
    pub sentences: usize,
    /// Tokens.
    pub tokens: usize,
    /// Those of them that are `[UNK]`.
    pub unknown: usize,
    /// Training instances.
    pub instances: usize,
    /// Those of them whose second segment is random.
    pub random_next: usize,
}

impl DataReport {
    /// Counts.
    pub fn new(documents: &Documents, vocabulary: &Vocabulary, instances: &impl InstanceSet) -> Self {
        let unk = vocabulary.special().unk;
        let tokens = || documents.documents.iter().flatten().flatten();
        Self {
            documents: documents.documents.len(),
            sentences: documents.documents.iter().map(Vec::len).sum(),
            tokens: tokens().count(),
            unknown: tokens().filter(|&&id| id == unk).count(),
            instances: instances.count(),
            random_next: instances.random_next(),
        }
    }

    /// What the user should know before training on this, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.documents == 1 {
            warnings.push(
                "The text is one document, so next sentences cannot be learned; put a blank line between documents."
                    .into(),
            );
        } else if self.sentences == self.documents {
            warnings.push(
                "Every document has one sentence only, so next sentences cannot be learned; put each sentence on a line of \
                 its own, and blank lines between documents only."
                    .into(),
            );
        } else if self.random_next as f64 > MOST_RANDOM * self.instances as f64 {
            // A sentence alone has no next one: it is its whole document, or fills an instance.
            let cause = match self.sentences < 2 * self.documents {
                true => {
                    "most documents have one sentence only; put each sentence on a line of its own, and blank lines \
                     between documents only"
                }
                false => {
                    "most lines fill an instance alone; put each sentence on a line of its own, or make longer instances \
                     (max_seq_length)"
                }
            };
            warnings.push(format!(
                "{:.1} % of the instances have a random next sentence, so there is little to learn of next sentences: \
                 {cause}.",
                percent(self.random_next, self.instances)
            ));
        }
        if self.unknown as f64 > MOST_UNKNOWN * self.tokens as f64 {
            warnings.push(format!(
                "{:.1} % of the tokens are [UNK]: is the vocabulary made for this language, and for text with this \
                 do_lower_case?",
                percent(self.unknown, self.tokens)
            ));
        }
        warnings
    }
}

impl fmt::Display for DataReport {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{} documents, {} sentences ({:.1} a document), {} tokens ({:.2} % [UNK]), {} instances ({:.1} % with a random \
             next sentence)",
            self.documents,
            self.sentences,
            self.sentences as f64 / self.documents.max(1) as f64,
            self.tokens,
            percent(self.unknown, self.tokens),
            self.instances,
            percent(self.random_next, self.instances),
        )
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}
