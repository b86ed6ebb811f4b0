//! Training a WordPiece vocabulary from text.

use super::Error;
use super::tokenization::{MAX_CHARS_PER_WORD, basic_tokens};
use super::vocabulary::{CONTINUATION, SPECIAL_TOKENS, Vocabulary};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokenizers::AddedToken;
use tokenizers::models::bpe::{BPE, BpeTrainer};

/// Characters beyond the most frequent ones are left to `[UNK]`, or a text in many scripts would fill the vocabulary.
const MAX_ALPHABET: usize = 1000;
/// Different words kept at most; the rarest go when there are more.
const MAX_WORDS: usize = 1 << 22;

/// What vocabulary is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct VocabularyOptions {
    /// The most tokens. Texts with fewer pieces make fewer.
    pub size: usize,
    /// Pieces that occur less often get no place.
    pub min_frequency: u64,
    /// Whether text is lower-cased.
    pub do_lower_case: bool,
    /// Whether accents are stripped; `None`: as `do_lower_case`.
    pub strip_accents: Option<bool>,
    /// Tokens that have a place in any case, behind the five of every vocabulary.
    pub special_tokens: Vec<String>,
    /// Places for tokens to be named later, `[unused0]` and so on, behind the special ones.
    pub unused_tokens: usize,
    /// Longer words are left to `[UNK]`.
    pub max_chars_per_word: usize,
}

impl Default for VocabularyOptions {
    /// As many tokens as the first BERT has.
    fn default() -> Self {
        Self {
            size: 30_522,
            min_frequency: 2,
            do_lower_case: true,
            strip_accents: None,
            special_tokens: Vec::new(),
            unused_tokens: 0,
            max_chars_per_word: MAX_CHARS_PER_WORD,
        }
    }
}

/// How often the words of a text occur, as blanks separate them.
///
/// ```
/// use wgpu_bert::data::{VocabularyOptions, WordCounts};
/// let mut words = WordCounts::default();
/// words.add("a rose is a rose is a rose");
/// let vocabulary = words.train(&VocabularyOptions { size: 100, ..Default::default() })?;
/// assert!(vocabulary.id("rose").is_some());
/// # Ok::<(), wgpu_bert::data::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WordCounts {
    counts: HashMap<Box<str>, u64>,
    /// Words that occurred no more often may have been left out.
    floor: u64,
}

impl WordCounts {
    /// Counts the words of a text.
    pub fn add(&mut self, text: &str) {
        for word in text.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()) {
            self.count(word, 1);
        }
    }

    /// Adds the counts of another text. Of very many words the rarest are left out, so that memory is bounded.
    pub fn merge(&mut self, other: Self) {
        other.counts.into_iter().for_each(|(word, count)| self.count(&word, count));
        while self.counts.len() > MAX_WORDS {
            self.floor += 1;
            self.counts.retain(|_, count| *count > self.floor);
        }
    }

    fn count(&mut self, word: &str, count: u64) {
        match self.counts.get_mut(word) {
            Some(sum) => *sum += count,
            None => drop(self.counts.insert(word.into(), count)),
        }
    }

    /// Different words.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Trains a vocabulary: the special tokens, the text's characters, then merged pieces, the most frequent first. The
    /// same words give the same vocabulary.
    ///
    /// # Errors
    /// When the size is too small for the special tokens and the characters, or a token of the options is there twice.
    pub fn train(&self, options: &VocabularyOptions) -> Result<Vocabulary, Error> {
        let mut words = BTreeMap::<String, u64>::new();
        for (text, count) in &self.counts {
            for word in basic_tokens(text, options.do_lower_case, options.strip_accents) {
                *words.entry(word).or_default() += count;
            }
        }
        // They become `[UNK]` anyway, and must not earn pieces a place.
        words.retain(|word, _| word.chars().count() <= options.max_chars_per_word);
        let alphabet = Alphabet::of(&words);
        words.retain(|word, _| word.chars().all(|c| alphabet.letters.contains(&c)));

        let special = SPECIAL_TOKENS.len() + options.special_tokens.len();
        let needed = special.saturating_add(options.unused_tokens);
        // Before there is a place for each of them.
        if options.size < needed {
            return Err(Error::VocabularyTooSmall { size: options.size, needed });
        }
        let unused = (0..options.unused_tokens).map(|n| format!("[unused{n}]"));
        let special = SPECIAL_TOKENS.iter().map(|token| token.to_string());
        let special: Vec<_> = special.chain(options.special_tokens.iter().cloned()).chain(unused).collect();
        // The library numbers `##` characters in the order of a hash map, and numbers break ties between merges. Given
        // as special tokens they are numbered first, in order.
        let pieces = alphabet.pieces().filter(|piece| !special.contains(piece));
        let first: Vec<String> = special.iter().cloned().chain(pieces).collect();
        // Merges start from the characters, so the library must know these too.
        Vocabulary::from_tokens(first.clone(), "special tokens and characters")?;
        if options.size < first.len() {
            return Err(Error::VocabularyTooSmall { size: options.size, needed: first.len() });
        }
        // The library sets memory aside for all it is asked for, but every merge joins two letters or more of a word.
        let most = first.len() + words.keys().map(String::len).sum::<usize>();
        let trainer = BpeTrainer::builder()
            .vocab_size(options.size.min(most))
            .min_frequency(options.min_frequency)
            .continuing_subword_prefix(CONTINUATION.into())
            .special_tokens(first.into_iter().map(|token| AddedToken::from(token, true)).collect())
            .show_progress(false)
            .build();
        let mut model = BPE::default();
        let words = words.iter().map(|(word, count)| (word.into(), *count)).collect();
        trainer.do_train(&words, &mut model).map_err(Error::VocabularyTraining)?;
        let tokens: BTreeMap<u32, String> =
            model.get_vocab().into_iter().map(|(token, id)| (id, token)).collect();
        Vocabulary::from_tokens(tokens.into_values().collect(), "trained vocabulary")
    }
}

/// Trains a vocabulary of at most `size` tokens on sentences, as [`WordCounts::train`].
///
/// # Errors
/// When `size` is too small for the special tokens and the characters.
pub fn train_vocabulary<'a>(
    sentences: impl Iterator<Item = &'a str>,
    size: usize,
    do_lower_case: bool,
) -> Result<Vocabulary, Error> {
    let mut words = WordCounts::default();
    sentences.for_each(|sentence| words.add(sentence));
    words.train(&VocabularyOptions { size, do_lower_case, ..VocabularyOptions::default() })
}

/// The characters that get a place in the vocabulary.
struct Alphabet {
    letters: BTreeSet<char>,
    /// Those of them that continue a word somewhere.
    continuing: BTreeSet<char>,
}

impl Alphabet {
    fn of(words: &BTreeMap<String, u64>) -> Self {
        let mut counts = BTreeMap::<char, (u64, bool)>::new();
        for (word, word_count) in words {
            for (i, c) in word.chars().enumerate() {
                let (count, continues) = counts.entry(c).or_default();
                *count += word_count;
                *continues |= i > 0;
            }
        }
        let mut kept: Vec<_> = counts.into_iter().collect();
        kept.sort_by_key(|&(_, (count, _))| std::cmp::Reverse(count));
        kept.truncate(MAX_ALPHABET);
        let continuing = kept.iter().filter(|(_, (_, continues))| *continues);
        Self {
            continuing: continuing.map(|&(c, _)| c).collect(),
            letters: kept.iter().map(|&(c, _)| c).collect(),
        }
    }

    fn pieces(&self) -> impl Iterator<Item = String> {
        let continuing = self.continuing.iter().map(|c| format!("{CONTINUATION}{c}"));
        self.letters.iter().map(char::to_string).chain(continuing)
    }
}
