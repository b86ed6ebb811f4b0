//! Masks that are new whenever an instance is used.

use crate::instances::{documents, options};
use std::collections::HashMap;
use wgpu_bert::data::{
    Batch, BatchLimits, Batcher, Features, InstanceOptions, TrainingData, Vocabulary, create_instances,
};

const LIMITS: BatchLimits = BatchLimits { vocab_size: 997, type_vocab_size: 2, max_position_embeddings: 64 };

fn instances() -> (Vocabulary, Features) {
    let (tokenizer, corpus) = documents(&["corpus.txt.gz"]);
    let options = InstanceOptions { dupe_factor: 1, ..options(12345) };
    let features = create_instances(&corpus, tokenizer.vocabulary(), &options).unwrap();
    (tokenizer.vocabulary().clone(), features)
}

/// Tokens as they were, and of those masked position, what stands there, and what was there.
type Row = (Vec<u32>, Vec<(usize, u32, u32)>);

/// Each row of a batch as it was before it was masked, with what is masked.
fn rows(batch: &Batch) -> Vec<Row> {
    let (s, m) = (batch.seq_length, batch.predictions);
    (0..batch.batch_size)
        .map(|row| {
            let mut tokens = batch.input_ids[row * s..][..s].to_vec();
            let slots = (row * m..(row + 1) * m).filter(|&slot| batch.mlm_weights[slot] > 0.0);
            let masked = slots.map(|slot| {
                let (position, id) = (batch.mlm_rows[slot] as usize % s, batch.mlm_ids[slot]);
                (position, std::mem::replace(&mut tokens[position], id), id)
            });
            let masked = masked.collect();
            (tokens, masked)
        })
        .collect()
}

#[test]
fn dynamic_masks_are_new_in_every_epoch_and_leave_the_text_alone() {
    let (vocabulary, features) = instances();
    let special = vocabulary.special();
    let batcher = |dynamic: bool, whole_word_mask: bool| {
        let data = TrainingData::from(features.clone());
        let options = InstanceOptions { whole_word_mask, max_predictions_per_seq: 99, ..options(5) };
        let data = match dynamic {
            true => data.with_dynamic_masking(&vocabulary, &options).unwrap(),
            false => data,
        };
        Batcher::new(data, 16, 3, LIMITS).unwrap()
    };
    let (mut fixed, mut dynamic, mut again) =
        (batcher(false, false), batcher(true, false), batcher(true, false));
    let epochs = 10;
    let steps = (epochs * fixed.batches_per_epoch()) as u64;
    let mut seen = HashMap::<Vec<u32>, Vec<Vec<usize>>>::new();
    let (mut masked, mut kept, mut guesses) = (0, 0, 0);
    for step in 0..steps {
        let (as_made, batch) = (fixed.batch(step).unwrap(), dynamic.batch(step).unwrap());
        assert_eq!(batch, again.batch(step).unwrap(), "the step's number decides it");
        assert_eq!(
            (&batch.attention_mask, &batch.nsp_labels),
            (&as_made.attention_mask, &as_made.nsp_labels)
        );
        for ((tokens, places), (text, _)) in rows(&batch).into_iter().zip(rows(&as_made)) {
            assert_eq!(tokens, text);
            let length = batch.seq_length - tokens.iter().rev().take_while(|&&id| id == special.pad).count();
            let wanted = (length as f64 * 0.15).round_ties_even().max(1.0) as usize;
            // There is no room for more than the instances have.
            assert_eq!(places.len(), wanted.min(10).min(length - 3));
            for &(_, shown, label) in &places {
                assert!(label != special.cls && label != special.sep && label != special.pad);
                (masked, kept) =
                    (masked + usize::from(shown == special.mask), kept + usize::from(shown == label));
            }
            guesses += places.len();
            seen.entry(text).or_default().push(places.iter().map(|place| place.0).collect());
        }
    }
    // Of ten times an instance hardly two are masked alike.
    for places in seen.values().filter(|places| places.len() == epochs && places[0].len() > 4) {
        let mut different = places.clone();
        different.sort();
        different.dedup();
        assert!(different.len() >= 9, "{places:?}");
    }
    let share = |count: usize| count as f64 / guesses as f64;
    // Five standard deviations.
    let spread = 5.0 * (0.16 / guesses as f64).sqrt();
    assert!((share(masked) - 0.8).abs() < spread, "{masked} of {guesses}");
    assert!((share(kept) - 0.1).abs() < spread + 0.001, "{kept} of {guesses}");
    // Going on anywhere gives what it would have been.
    assert_eq!(batcher(true, false).batch(steps - 3).unwrap(), dynamic.batch(steps - 3).unwrap());
    assert_eq!(batcher(true, false).first(3).unwrap().batch_size, 0);

    // Whole words: a piece with `##` is masked if and only if the one before it is.
    let joins = vocabulary.continuations();
    let mut whole = batcher(true, true);
    for step in 0..20 {
        for (tokens, places) in rows(&whole.batch(step).unwrap()) {
            let is_masked = |at: usize| places.iter().any(|place| place.0 == at);
            for at in 1..tokens.len() {
                if joins[tokens[at] as usize]
                    && tokens[at - 1] != special.cls
                    && tokens[at - 1] != special.sep
                {
                    assert_eq!(is_masked(at), is_masked(at - 1));
                }
            }
        }
    }
    let bad = InstanceOptions { max_ngram_size: 2, ..options(1) };
    assert!(TrainingData::from(features.clone()).with_dynamic_masking(&vocabulary, &bad).is_err());
}

#[test]
fn numbers_out_of_range_are_found_before_the_first_batch() {
    let (_, mut features) = instances();
    let last = features.count() - 1;
    features.input_ids[last * 64 + 2] = 997;
    let error = Batcher::new(features, 4, 1, LIMITS).err().expect("an id beyond the vocabulary").to_string();
    assert!(error.contains(&format!("record {last} (from 0): input_ids[2] is 997")), "{error}");
}
