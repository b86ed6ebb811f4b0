//! Which tokens of an instance are to be guessed, and what stands in their place: `[MASK]` for 80 % of them, the token
//! itself for 10 %, a random token for 10 % (Devlin et al. 2018, section 3.1).

use super::draw::Draw;
use super::vocabulary::SpecialIds;
use super::{InstanceOptions, Vocabulary};
use std::ops::Range;

pub(super) struct Masker {
    special: SpecialIds,
    vocab_size: usize,
    /// For each id, whether it belongs to the word before it: all `false` unless whole words are masked.
    joins: Vec<bool>,
    max_predictions: usize,
    masked_lm_prob: f64,
    /// The candidates of the instance at hand by their number of words, from one on; those chosen, and whether each
    /// token is in one of them. Kept to reuse their memory.
    candidates: Vec<Vec<Range<usize>>>,
    chosen: Vec<Range<usize>>,
    taken: Vec<bool>,
}

impl Masker {
    pub(super) fn new(vocabulary: &Vocabulary, options: &InstanceOptions) -> Self {
        let vocab_size = vocabulary.size();
        Self {
            special: vocabulary.special(),
            vocab_size,
            joins: if options.whole_word_mask { vocabulary.continuations() } else { vec![false; vocab_size] },
            max_predictions: options.max_predictions_per_seq,
            masked_lm_prob: options.masked_lm_prob,
            candidates: vec![Vec::new(); options.max_ngram_size.max(1)],
            chosen: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Appends the instance `[CLS] A [SEP] B [SEP]` to `tokens`, masked, and to `masked` the positions, ascending, with
    /// the tokens that were there.
    pub(super) fn assemble(
        &mut self,
        (a, b): (&[u32], &[u32]),
        rng: &mut impl Draw,
        tokens: &mut Vec<u32>,
        masked: &mut Vec<(u32, u32)>,
    ) {
        let start = tokens.len();
        tokens.push(self.special.cls);
        tokens.extend_from_slice(a);
        tokens.push(self.special.sep);
        tokens.extend_from_slice(b);
        tokens.push(self.special.sep);
        self.mask(&mut tokens[start..], rng, masked);
    }

    /// Masks the instance `tokens`; appends as [`Masker::assemble`].
    pub(super) fn mask(&mut self, tokens: &mut [u32], rng: &mut impl Draw, masked: &mut Vec<(u32, u32)>) {
        // `[CLS]` and `[SEP]` count here, though they are never masked. Python rounds halves to even.
        let share = (tokens.len() as f64 * self.masked_lm_prob).round_ties_even() as usize;
        let wanted = share.max(1).min(self.max_predictions);

        self.find_candidates(tokens);
        self.candidates.iter_mut().for_each(|candidates| rng.shuffle(candidates));
        // The reference chooses all words before it draws what replaces them, and the draws follow its order.
        self.choose(wanted, tokens.len(), rng);
        let first = masked.len();
        for words in &self.chosen {
            masked.extend(words.clone().map(|position| (position as u32, tokens[position])));
            if rng.random() < 0.8 {
                tokens[words.clone()].fill(self.special.mask);
            } else if rng.random() >= 0.5 {
                tokens[words.clone()].fill_with(|| rng.below(self.vocab_size) as u32);
            }
        }
        masked[first..].sort_unstable();
    }

    /// Chooses candidates that do not overlap, with `wanted` tokens together or fewer, of an instance of `length` tokens.
    fn choose(&mut self, wanted: usize, length: usize, rng: &mut impl Draw) {
        self.chosen.clear();
        self.taken.clear();
        self.taken.resize(length, false);
        let mut count = 0;
        while count < wanted {
            let words = draw_words(self.candidates.len(), rng);
            let candidates = &mut self.candidates[words - 1];
            if count + words > wanted {
                candidates.clear();
            }
            let Some(candidate) = rng.take(candidates) else {
                if self.candidates.iter().all(Vec::is_empty) {
                    break;
                }
                continue;
            };
            let taken = &mut self.taken[candidate.clone()];
            if count + taken.len() <= wanted && !taken.contains(&true) {
                taken.fill(true);
                count += candidate.len();
                self.chosen.push(candidate);
            }
        }
    }

    /// Lists the words (or single tokens) that may be masked, and the sequences of words.
    fn find_candidates(&mut self, tokens: &[u32]) {
        let [words, sequences @ ..] = &mut self.candidates[..] else { return };
        words.clear();
        for (i, &token) in tokens.iter().enumerate() {
            if token == self.special.cls || token == self.special.sep {
                continue;
            }
            match words.last_mut() {
                Some(word) if word.end == i && self.joins[token as usize] => word.end += 1,
                _ => words.push(i..i + 1),
            }
        }
        for (count, sequences) in (2..).zip(sequences) {
            sequences.clear();
            let touching =
                |words: &&[Range<usize>]| words.windows(2).all(|pair| pair[0].end == pair[1].start);
            let windows = words.windows(count).filter(touching);
            sequences.extend(windows.map(|words| words[0].start..words[count - 1].end));
        }
    }
}

/// How many words to mask together, of up to `most`: n of them with a weight of 1/n.
fn draw_words(most: usize, rng: &mut impl Draw) -> usize {
    if most == 1 {
        return 1;
    }
    let weight = |words: &usize| 1.0 / *words as f64;
    let mut rest = rng.random() * (1..=most).map(|words| weight(&words)).sum::<f64>();
    let drawn = (1..most).find(|words| {
        rest -= weight(words);
        rest < 0.0
    });
    drawn.unwrap_or(most)
}
