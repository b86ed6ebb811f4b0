//! Training instances as a person reads them.

use super::{Batch, Vocabulary};

/// One instance: its tokens as they were before some were hidden, without padding.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The tokens.
    pub tokens: Vec<ExampleToken>,
}

/// A token of an [`Example`].
#[derive(Clone, Debug, PartialEq)]
pub struct ExampleToken {
    /// The true token.
    pub token: String,
    /// Is it to be guessed? Most of those are masked; the others are replaced, or left for the model not to know.
    pub hidden: bool,
    /// What a model guesses for it, where one was asked.
    pub guess: Option<String>,
}

impl Batch {
    /// The instances of the batch. `guesses`, token ids `[B·M]`, are a model's for the prediction slots.
    pub fn examples(&self, vocabulary: &Vocabulary, guesses: Option<&[u32]>) -> Vec<Example> {
        let token = |id: u32| vocabulary.token(id).unwrap_or("[unused]").to_owned();
        let shown = |id: &u32| ExampleToken { token: token(*id), hidden: false, guess: None };
        let mut tokens: Vec<ExampleToken> = self.input_ids.iter().map(shown).collect();
        for slot in (0..self.mlm_ids.len()).filter(|slot| self.mlm_weights[*slot] > 0.0) {
            tokens[self.mlm_rows[slot] as usize] = ExampleToken {
                token: token(self.mlm_ids[slot]),
                hidden: true,
                guess: guesses.map(|guesses| token(guesses[slot])),
            };
        }
        let mut rows = tokens.into_iter().zip(&self.attention_mask);
        let example = |_| Example {
            tokens: rows
                .by_ref()
                .take(self.seq_length)
                .filter(|(_, mask)| **mask == 1)
                .map(|(t, _)| t)
                .collect(),
        };
        (0..self.batch_size).map(example).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BatchLimits, Features};
    use super::*;

    #[test]
    fn hidden_tokens_are_told_with_their_guesses_and_padding_is_not() {
        let tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"].map(String::from);
        let vocabulary = Vocabulary::from_tokens(tokens.into(), "test").unwrap();
        let features = Features {
            origin: "test".into(),
            seq_length: 4,
            predictions: 2,
            input_ids: vec![2, 4, 5, 3, 2, 6, 3, 0],
            input_mask: vec![1, 1, 1, 1, 1, 1, 1, 0],
            segment_ids: vec![0; 8],
            masked_lm_positions: vec![1, 2, 1, 0],
            masked_lm_ids: vec![6, 7, 5, 0],
            masked_lm_weights: vec![1.0, 1.0, 1.0, 0.0],
            next_sentence_labels: vec![0, 1],
        };
        let limits = BatchLimits { vocab_size: 8, type_vocab_size: 2, max_position_embeddings: 4 };
        let batch = Batch::new(&features, &[0, 1], &limits).unwrap();
        let show = |guesses| -> Vec<String> {
            let word = |t: &ExampleToken| match (&t.guess, t.hidden) {
                (Some(guess), true) => format!("({}:{guess})", t.token),
                (None, true) => format!("({})", t.token),
                (guess, false) => t.token.clone() + guess.as_deref().unwrap_or_default(),
            };
            let line = |e: &Example| e.tokens.iter().map(word).collect::<Vec<_>>().join(" ");
            batch.examples(&vocabulary, guesses).iter().map(line).collect()
        };
        assert_eq!(show(None), ["[CLS] (b) (c) [SEP]", "[CLS] (a) [SEP]"]);
        assert_eq!(show(Some(&[5, 6, 7, 1])), ["[CLS] (b:a) (c:b) [SEP]", "[CLS] (a:c) [SEP]"]);
    }
}
