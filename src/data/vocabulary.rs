//! The vocabulary: tokens and their ids, as `vocab.txt` holds them (one token a line, the line's number is the id).

use super::Error;
use std::collections::HashMap;
use std::path::Path;

/// Marks a piece that continues a word.
pub(super) const CONTINUATION: &str = "##";

/// Stands for a blank in vocabularies of SentencePiece.
const SENTENCE_PIECE_BLANK: &str = "\u{2581}";

/// The five tokens every BERT vocabulary has, in the order a trained vocabulary starts with.
pub const SPECIAL_TOKENS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Tokens in the order of their ids. Each token is there once, and the five [`SPECIAL_TOKENS`] are among them.
#[derive(Clone, Debug, PartialEq)]
pub struct Vocabulary {
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
    special: SpecialIds,
}

/// The ids of the five [`SPECIAL_TOKENS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpecialIds {
    /// `[PAD]`
    pub pad: u32,
    /// `[UNK]`
    pub unk: u32,
    /// `[CLS]`
    pub cls: u32,
    /// `[SEP]`
    pub sep: u32,
    /// `[MASK]`
    pub mask: u32,
}

impl Vocabulary {
    /// Reads a `vocab.txt`.
    ///
    /// # Errors
    /// As [`Vocabulary::parse`], and when the file cannot be read or is not UTF-8.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let origin = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Error::Read { path: path.to_owned(), error })?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Self::parse(text, &origin),
            Err(_) if bytes.windows(3).any(|bytes| bytes == SENTENCE_PIECE_BLANK.as_bytes()) => {
                Err(Error::SentencePiece { origin })
            }
            Err(error) => {
                let before = &bytes[..error.valid_up_to()];
                let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
                Err(Error::NotUtf8 { origin, line })
            }
        }
    }

    /// Reads the text of a `vocab.txt`; `origin` names it in errors.
    ///
    /// # Errors
    /// When it is empty, has a blank line before its end, has a token twice, lacks a special token, or is a vocabulary
    /// of SentencePiece.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Error> {
        // Some editors begin a file with it; it belongs to no token.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // Only `\n` ends a line: real vocabularies hold other separators as tokens, which `trim` would empty.
        let strip = |line: &str| match line.trim() {
            "" => line.trim_matches(|c: char| c.is_ascii_whitespace()).to_owned(),
            token => token.to_owned(),
        };
        let mut tokens: Vec<String> = text.split('\n').map(strip).collect();
        while tokens.last().is_some_and(String::is_empty) {
            tokens.pop();
        }
        let is_sentence_piece = |token: &String| token.starts_with(SENTENCE_PIECE_BLANK);
        if !tokens.iter().any(|token| token == "[MASK]") && tokens.iter().any(is_sentence_piece) {
            return Err(Error::SentencePiece { origin: origin.into() });
        }
        Self::from_tokens(tokens, origin)
    }

    /// Makes a vocabulary of tokens in the order of their ids; `origin` names it in errors.
    ///
    /// # Errors
    /// As [`Vocabulary::parse`].
    pub fn from_tokens(tokens: Vec<String>, origin: &str) -> Result<Self, Error> {
        let origin = || origin.to_owned();
        if tokens.is_empty() {
            return Err(Error::EmptyVocabulary { origin: origin() });
        }
        let mut ids = HashMap::with_capacity(tokens.len());
        for (token, id) in tokens.iter().zip(0u32..) {
            let line = id as usize + 1;
            if token.is_empty() {
                return Err(Error::BlankToken { origin: origin(), line });
            }
            if let Some(first) = ids.insert(token.clone(), id) {
                let (token, first_line) = (token.clone(), first as usize + 1);
                return Err(Error::DuplicateToken { origin: origin(), line, first_line, token });
            }
        }
        let [pad, unk, cls, sep, mask] = SPECIAL_TOKENS.map(|token| {
            ids.get(token).copied().ok_or_else(|| Error::MissingSpecialToken { origin: origin(), token })
        });
        let special = SpecialIds { pad: pad?, unk: unk?, cls: cls?, sep: sep?, mask: mask? };
        Ok(Self { tokens, ids, special })
    }

    /// Number of tokens: V.
    pub fn size(&self) -> usize {
        self.tokens.len()
    }

    /// All tokens, in the order of their ids.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// The token with this id.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize).map(String::as_str)
    }

    /// The id of this token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// The ids of the special tokens.
    pub fn special(&self) -> SpecialIds {
        self.special
    }

    /// For each id: does the token continue a word (`##…`)?
    pub fn continuations(&self) -> Vec<bool> {
        self.tokens.iter().map(|token| token.starts_with(CONTINUATION)).collect()
    }

    /// The content of `vocab.txt`.
    pub fn to_text(&self) -> String {
        self.tokens.iter().flat_map(|token| [token, "\n"]).collect()
    }
}
