//! The other way to cut segments: windows that are full whatever the sentences' lengths. With whole sentences, short
//! instances would mostly be padding or torn pairs.

use super::draw::Draw;
use super::library::Library;
use super::{Error, InstanceOptions};

/// Takes a window of S − 3 tokens at the start of each sentence of a document, running on into the next sentences; what
/// of a sentence is longer is left out, and at the document's end windows slide back. Starts of sentences are alike, so
/// a small model learns from them soonest. Of each window, A is the first `low` to `high` tokens; B is the rest, or, for
/// half of them if next-sentence labels are wanted, as many tokens from anywhere in another document. A document shorter
/// than a window is one short window. Each pair goes to `emit` with whether B is random.
pub(super) fn from_document<R: Draw>(
    library: &mut impl Library,
    this: usize,
    (low, high): (usize, usize),
    options: &InstanceOptions,
    rng: &mut R,
    mut emit: impl FnMut((&[u32], &[u32]), bool, &mut R) -> Result<(), Error>,
) -> Result<(), Error> {
    let all = library.tokens(this)?;
    let size = options.capacity().min(all);
    // Two segments of a token each are the least.
    if size < 2 {
        return Ok(());
    }
    let last = all - size;
    let (mut window, mut elsewhere) = (Vec::new(), Vec::new());
    let mut start = 0;
    for sentence in 0..library.sentences(this)? {
        window.clear();
        library.append_tokens(this, start..start + size, &mut window)?;
        let (a, rest) = window.split_at(rng.randint(low, high).min(size - 1));
        let is_random_next = options.use_next_sentence_label && rng.random() < 0.5;
        if is_random_next {
            elsewhere.clear();
            append_from_another(library, this, rest.len(), rng, &mut elsewhere)?;
        }
        emit((a, if is_random_next { &elsewhere } else { rest }), is_random_next, rng)?;
        if start == last {
            break;
        }
        start = last.min(start + library.length(this, sentence)?);
    }
    Ok(())
}

/// Appends `length` tokens from anywhere in another document, or all of it if it has no more.
fn append_from_another(
    library: &mut impl Library,
    this: usize,
    length: usize,
    rng: &mut impl Draw,
    tokens: &mut Vec<u32>,
) -> Result<(), Error> {
    let other = rng.below(library.documents() - 1);
    let other = other + usize::from(other >= this);
    let all = library.tokens(other)?;
    let length = length.min(all);
    let start = rng.below(all - length + 1);
    library.append_tokens(other, start..start + length, tokens)
}

#[cfg(test)]
mod tests {
    use super::super::PythonRandom;
    use super::super::library::InMemory;
    use super::*;

    /// First tokens of the windows of a document with sentences of these lengths, whose tokens are numbered.
    fn starts(lengths: &[u32], size: usize) -> Vec<u32> {
        let mut next = 0;
        let mut sentence = |length: &u32| {
            next += length;
            (next - length..next).collect()
        };
        let document: Vec<Vec<u32>> = lengths.iter().map(&mut sentence).collect();
        let options = InstanceOptions {
            max_seq_length: size + 3,
            use_next_sentence_label: false,
            ..InstanceOptions::default()
        };
        let mut library = InMemory::new(vec![&document]);
        let mut starts = Vec::new();
        from_document(&mut library, 0, (1, 1), &options, &mut PythonRandom::new(1), |(a, b), _, _| {
            assert_eq!(a.len() + b.len(), size.min(next as usize));
            assert!(a.iter().chain(b).copied().eq(a[0]..a[0] + (a.len() + b.len()) as u32));
            starts.push(a[0]);
            Ok(())
        })
        .unwrap();
        starts
    }

    #[test]
    fn windows_start_with_sentences() {
        assert_eq!(starts(&[3, 9, 2], 4), [0, 3, 10]);
        assert_eq!(starts(&[8, 4], 4), [0, 8]);
        assert_eq!(starts(&[5], 5), [0]);
        assert_eq!(starts(&[1, 1, 1], 3), [0]);
        assert_eq!(starts(&[1, 1], 5), [0]);
        assert!(starts(&[1], 5).is_empty());
    }
}
