//! Text → token ids, exactly as the reference's WordPiece tokenizer: clean, split into words and punctuation
//! (lower-cased and without accents if asked), then the longest vocabulary entry from the left, again and again.
//!
//! ```
//! use wgpu_bert::data::{Tokenizer, Vocabulary};
//! let vocabulary = Vocabulary::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nlet\nlight\n##s\n!\n", "example")?;
//! let tokenizer = Tokenizer::new(vocabulary, true);
//! assert_eq!(tokenizer.tokens("LET  lights!"), ["let", "light", "##s", "!"]);
//! # Ok::<(), wgpu_bert::data::Error>(())
//! ```

use super::vocabulary::{CONTINUATION, Vocabulary};
use std::borrow::Cow;
use std::collections::HashMap;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Longer words become `[UNK]` (characters). Hugging Face's limit is 100; the reference's is this.
pub const MAX_CHARS_PER_WORD: usize = 400;

/// A [`Vocabulary`] ready to turn text into ids.
#[derive(Clone)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    do_lower_case: bool,
    strip_accents: Option<bool>,
    /// Continuation pieces without their `##`.
    continuations: HashMap<String, u32>,
    max_chars_per_word: usize,
    /// Length of the longest entry in bytes: no longer match needs to be tried.
    longest: usize,
}

impl Tokenizer {
    /// `do_lower_case` must be what the vocabulary was made with; it also strips accents, unless
    /// [`Tokenizer::with_strip_accents`] says otherwise.
    pub fn new(vocabulary: Vocabulary, do_lower_case: bool) -> Self {
        let continuations = (vocabulary.tokens().iter().zip(0..))
            .filter_map(|(token, id)| Some((token.strip_prefix(CONTINUATION)?.to_owned(), id)))
            .collect();
        let longest = vocabulary.tokens().iter().map(String::len).max().unwrap_or(0);
        let (strip_accents, max_chars_per_word) = (None, MAX_CHARS_PER_WORD);
        Self { vocabulary, do_lower_case, strip_accents, continuations, max_chars_per_word, longest }
    }

    /// Whether accents are stripped, as the vocabulary was made; `None`: as `do_lower_case`.
    pub fn with_strip_accents(self, strip_accents: Option<bool>) -> Self {
        Self { strip_accents, ..self }
    }

    /// Words of more characters become `[UNK]`, instead of those beyond [`MAX_CHARS_PER_WORD`].
    pub fn with_max_chars_per_word(self, max_chars_per_word: usize) -> Self {
        Self { max_chars_per_word, ..self }
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Whether text is lower-cased.
    pub fn do_lower_case(&self) -> bool {
        self.do_lower_case
    }

    /// Whether accents are stripped; `None`: as `do_lower_case`.
    pub fn strip_accents(&self) -> Option<bool> {
        self.strip_accents
    }

    /// Running text to ids. Special tokens are not protected: `[MASK]` in the text is three words.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        for word in basic_tokens(text, self.do_lower_case, self.strip_accents) {
            self.word_pieces(&word, &mut ids);
        }
        ids
    }

    /// A prompt to ids: as [`Tokenizer::encode`], but the five special tokens, written out in the text, stand for
    /// themselves. Neither `[CLS]` nor `[SEP]` is added.
    pub fn encode_prompt(&self, text: &str) -> Vec<u32> {
        let special = self.vocabulary.special();
        let special = [special.pad, special.unk, special.cls, special.sep, special.mask];
        let next_special = |text: &str| {
            let found = special.iter().filter_map(|&id| {
                let token = self.vocabulary.token(id)?;
                Some((text.find(token)?, token.len(), id))
            });
            found.min()
        };
        let (mut ids, mut rest) = (Vec::new(), text);
        while let Some((at, len, id)) = next_special(rest) {
            ids.extend(self.encode(&rest[..at]));
            ids.push(id);
            rest = &rest[at + len..];
        }
        ids.extend(self.encode(rest));
        ids
    }

    /// Running text to tokens, for people to read.
    pub fn tokens(&self, text: &str) -> Vec<&str> {
        self.encode(text).into_iter().filter_map(|id| self.vocabulary.token(id)).collect()
    }

    /// Appends the pieces of one word: greedy, longest match first; `[UNK]` if the word cannot be covered.
    fn word_pieces(&self, word: &str, ids: &mut Vec<u32>) {
        let first = ids.len();
        let mut start = 0;
        let most = self.max_chars_per_word;
        let too_long = word.len() > most && word.chars().count() > most;
        while start < word.len() {
            let found = if too_long { None } else { self.longest_match(word, start) };
            let Some((end, id)) = found else {
                ids.truncate(first);
                ids.push(self.vocabulary.special().unk);
                return;
            };
            ids.push(id);
            start = end;
        }
    }

    /// The end and id of the longest entry that `word` has at byte `start`.
    fn longest_match(&self, word: &str, start: usize) -> Option<(usize, u32)> {
        let mut end = word.len().min(start + self.longest);
        while end > start {
            if let Some(piece) = word.get(start..end) {
                let id = if start == 0 {
                    self.vocabulary.id(piece)
                } else {
                    self.continuations.get(piece).copied()
                };
                if let Some(id) = id {
                    return Some((end, id));
                }
            }
            end -= 1;
        }
        None
    }
}

/// Running text to words and single punctuation characters; with `do_lower_case` lower-cased, and with `strip_accents`,
/// where that is `None` as well with `do_lower_case`, without accents.
pub fn basic_tokens(text: &str, do_lower_case: bool, strip_accents: Option<bool>) -> Vec<String> {
    let strip_accents = strip_accents.unwrap_or(do_lower_case);
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if is_blank(c) {
            clean.push(' ');
        } else if is_cjk_ideograph(c) {
            clean.extend([' ', c, ' ']);
        } else if !is_dropped(c) {
            clean.push(c);
        }
    }
    let mut words = Vec::new();
    for word in clean.split_whitespace() {
        let mut word = Cow::Borrowed(word);
        if do_lower_case {
            word = word.to_lowercase().into();
        }
        if strip_accents && !word.is_ascii() {
            let is_accent = |c: &char| c.general_category() == GeneralCategory::NonspacingMark;
            word = word.nfd().filter(|c| !is_accent(c)).collect();
        }
        split_punctuation(&word, &mut words);
    }
    words
}

fn split_punctuation(word: &str, words: &mut Vec<String>) {
    for part in word.split_inclusive(is_punctuation) {
        match part.char_indices().next_back() {
            Some((at, last)) if is_punctuation(last) => {
                words.extend((at > 0).then(|| part[..at].to_owned()));
                words.push(last.to_string());
            }
            _ => words.push(part.to_owned()),
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
        || !c.is_ascii() && c.general_category() == GeneralCategory::SpaceSeparator
}

fn is_dropped(c: char) -> bool {
    let is_control = || matches!(c.general_category(), GeneralCategory::Control | GeneralCategory::Format);
    if c.is_ascii() { c.is_ascii_control() } else { c == '\u{fffd}' || is_control() }
}

/// ASCII symbols such as `$` and `^` count as punctuation too, though Unicode says otherwise.
fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_punctuation()
    } else {
        c.general_category_group() == GeneralCategoryGroup::Punctuation
    }
}

/// Ideographs are words of their own. Hangul and kana are not: they are written with blanks or left to WordPiece.
fn is_cjk_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f
        | 0x2b820..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}
