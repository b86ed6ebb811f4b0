//! Instances as text, for people to read.

use super::vocabulary::CONTINUATION;
use super::{Features, Vocabulary};

/// Instance `n` as text: pieces put together to words, and every token to guess in brackets with the one that was
/// there: `[MASK|light]`, `[king|light]` where another stands in its place, `[light|light]` where it stands itself.
/// Numbers that the vocabulary does not have are written `<7>`; without a vocabulary all are.
///
/// ```
/// use wgpu_bert::data::{Features, Vocabulary, show_instance};
/// let vocabulary = Vocabulary::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nlet\nlight\n##s\nbe\n", "example")?;
/// let features = Features {
///     origin: "example".into(),
///     seq_length: 8,
///     predictions: 2,
///     input_ids: vec![2, 5, 6, 7, 3, 4, 3, 0],
///     input_mask: vec![1, 1, 1, 1, 1, 1, 1, 0],
///     segment_ids: vec![0, 0, 0, 0, 0, 1, 1, 0],
///     masked_lm_positions: vec![5, 0],
///     masked_lm_ids: vec![8, 0],
///     masked_lm_weights: vec![1.0, 0.0],
///     next_sentence_labels: vec![0],
/// };
/// assert_eq!(show_instance(&features, 0, Some(&vocabulary)), "[CLS] let lights [SEP] [MASK|be] [SEP]");
/// # Ok::<(), wgpu_bert::data::Error>(())
/// ```
pub fn show_instance(features: &Features, n: usize, vocabulary: Option<&Vocabulary>) -> String {
    let (tokens, slots) = (n * features.seq_length, n * features.predictions);
    let token = |id: u32| {
        let token = vocabulary.and_then(|vocabulary| vocabulary.token(id));
        token.map_or_else(|| format!("<{id}>"), str::to_owned)
    };
    let label = |position: usize| {
        let mut slots = slots..slots + features.predictions;
        slots.find(|&slot| {
            features.masked_lm_positions[slot] as usize == position && features.masked_lm_weights[slot] > 0.0
        })
    };
    // Padding is behind the last token that counts.
    let mask = &features.input_mask[tokens..][..features.seq_length];
    let length = mask.iter().rposition(|&mask| mask == 1).map_or(0, |last| last + 1);
    let mut text = String::new();
    let mut joins = false;
    for position in 0..length {
        let shown = token(features.input_ids[tokens + position]);
        let label = label(position).map(|slot| token(features.masked_lm_ids[slot]));
        match (shown.strip_prefix(CONTINUATION), &label) {
            (Some(rest), None) if joins => text += rest,
            _ => {
                text += if position > 0 { " " } else { "" };
                match &label {
                    // The brackets of [MASK] do for both.
                    Some(label) => text += &format!("[{}|{label}]", shown.trim_matches(['[', ']'])),
                    None => text += &shown,
                }
            }
        }
        joins = label.is_none();
    }
    text
}
