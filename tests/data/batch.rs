//! Batches against a plain recount, and every way a number can be wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use wgpu_bert::data::{
    Batch, BatchLimits, Batcher, Corpus, Error, Features, InstanceOptions, InstanceSet, Instances,
    PythonRandom, Segments, Tokenizer, create_instances, train_vocabulary,
};
use wgpu_bert::model::MAX_SEGMENT_ROWS;

const LIMITS: BatchLimits = BatchLimits { vocab_size: 7, type_vocab_size: 2, max_position_embeddings: 300 };

/// Random instances; the first is masked altogether, the second has its first token masked and no weight.
fn random_features(rng: &mut PythonRandom, count: usize, seq_length: usize, predictions: usize) -> Features {
    let mut features = Features { origin: "test".into(), seq_length, predictions, ..Features::default() };
    for record in 0..count {
        let length = if record == 0 { 0 } else { rng.randint(1, seq_length) };
        for s in 0..seq_length {
            features.input_ids.push(rng.below(LIMITS.vocab_size) as u32);
            features.input_mask.push(u32::from(s < length && (record, s) != (1, 0)));
            features.segment_ids.push(rng.below(2) as u32);
        }
        for _ in 0..predictions {
            features.masked_lm_positions.push(rng.below(seq_length) as u32);
            features.masked_lm_ids.push(rng.below(LIMITS.vocab_size) as u32);
            features.masked_lm_weights.push(if record == 1 { 0.0 } else { [0.0, 0.5, 1.0][rng.below(3)] });
        }
        features.next_sentence_labels.push(rng.below(2) as u32);
    }
    features
}

/// Rows by id, each segment checked on the way.
fn rows_by_id(segments: &Segments) -> BTreeMap<u32, Vec<u32>> {
    assert_eq!(segments.segment_offsets.len(), segments.segment_count() + 1);
    assert_eq!(segments.unique_offsets.len(), segments.unique_count() + 1);
    assert!(segments.unique_ids.is_sorted_by(|a, b| a < b));
    let mut groups = BTreeMap::new();
    for (u, &id) in segments.unique_ids.iter().enumerate() {
        let mine = segments.unique_offsets[u] as usize..segments.unique_offsets[u + 1] as usize;
        let bounds = &segments.segment_offsets[mine.start..=mine.end];
        for pair in bounds.windows(2) {
            assert!(pair[0] < pair[1] && (pair[1] - pair[0]) as usize <= MAX_SEGMENT_ROWS);
        }
        groups.insert(id, segments.rows[bounds[0] as usize..bounds[mine.len()] as usize].to_vec());
    }
    let end = |offsets: &[u32]| *offsets.last().unwrap() as usize;
    assert_eq!(end(&segments.segment_offsets), segments.rows.len());
    assert_eq!(end(&segments.unique_offsets), segments.segment_count());
    groups
}

fn expect_segments(segments: &Segments, live: &[usize], id: impl Fn(usize) -> u32) {
    let mut expected = BTreeMap::<u32, Vec<u32>>::new();
    for &row in live {
        expected.entry(id(row)).or_default().push(row as u32);
    }
    assert_eq!(rows_by_id(segments), expected);
}

#[test]
fn a_trimmed_batch_is_that_of_shorter_records() {
    let mut rng = PythonRandom::new(8);
    for (count, s, m, shorter) in [(3, 40, 6, (32, 4)), (5, 129, 20, (33, 7)), (2, 8, 0, (4, 0))] {
        let (tokens, slots) = shorter;
        let mut features = random_features(&mut rng, count, s, m);
        for record in 0..count {
            features.input_mask[record * s] = 1;
            features.input_mask[record * s + tokens..(record + 1) * s].fill(0);
            // Those that do not count may be anywhere.
            features.masked_lm_weights[record * m + slots..(record + 1) * m].fill(0.0);
            for slot in record * m..record * m + slots {
                let position = &mut features.masked_lm_positions[slot];
                if features.masked_lm_weights[slot] > 0.0 {
                    *position %= tokens as u32;
                }
            }
        }
        let records: Vec<usize> = (0..count).rev().collect();
        let batch = Batch::new(&features, &records, &LIMITS).unwrap();
        let used = batch.used();
        assert!(used.0 <= tokens && used.1 <= slots, "{used:?}");

        fn cut<T: Copy>(x: &mut Vec<T>, from: usize, to: usize) {
            *x = x.chunks(from.max(1)).flat_map(|row| &row[..to]).copied().collect();
        }
        let mut short = Features { seq_length: tokens, predictions: slots, ..features.clone() };
        for x in [&mut short.input_ids, &mut short.input_mask, &mut short.segment_ids] {
            cut(x, s, tokens);
        }
        for x in [&mut short.masked_lm_positions, &mut short.masked_lm_ids] {
            cut(x, m, slots);
        }
        cut(&mut short.masked_lm_weights, m, slots);
        for position in &mut short.masked_lm_positions {
            if *position >= tokens as u32 {
                *position = 0;
            }
        }
        assert_eq!(batch.trimmed(tokens, slots), Batch::new(&short, &records, &LIMITS).unwrap());
        assert_eq!(batch.trimmed(s, m), batch);
    }
}

#[test]
fn batches_of_random_shapes() {
    let mut rng = PythonRandom::new(7);
    for (count, s, m) in
        [(2, 1, 1), (3, 37, 6), (2, 129, 5), (5, 257, 20), (4, 16, 0), (1, 128, 3), (9, 100, 31)]
    {
        let features = random_features(&mut rng, count, s, m);
        let mut records: Vec<usize> = (0..count).rev().collect();
        records.push(0);
        let batch = Batch::new(&features, &records, &LIMITS).unwrap();
        let b = records.len();
        assert_eq!((batch.batch_size, batch.seq_length, batch.predictions), (b, s, m));
        assert_eq!((batch.input_ids.len(), batch.mlm_rows.len(), batch.nsp_labels.len()), (b * s, b * m, b));

        let mut live = Vec::new();
        for (i, &record) in records.iter().enumerate() {
            let mask = &features.input_mask[record * s..][..s];
            let slots = record * m..(record + 1) * m;
            assert_eq!(batch.input_ids[i * s..][..s], features.input_ids[record * s..][..s]);
            assert_eq!(batch.token_type_ids[i * s..][..s], features.segment_ids[record * s..][..s]);
            assert_eq!(batch.attention_mask[i * s..][..s], *mask);
            assert_eq!(batch.mlm_ids[i * m..][..m], features.masked_lm_ids[slots.clone()]);
            assert_eq!(batch.mlm_weights[i * m..][..m], features.masked_lm_weights[slots.clone()]);
            assert_eq!(batch.nsp_labels[i], features.next_sentence_labels[record]);
            for (slot, x) in slots.clone().enumerate() {
                assert_eq!(
                    batch.mlm_rows[i * m + slot] as usize,
                    i * s + features.masked_lm_positions[x] as usize
                );
            }
            for (position, &unmasked) in mask.iter().enumerate() {
                let read = slots.clone().any(|x| {
                    features.masked_lm_weights[x] > 0.0
                        && features.masked_lm_positions[x] as usize == position
                });
                if unmasked == 1 || position == 0 || read || mask.iter().all(|&x| x == 0) {
                    live.push(i * s + position);
                }
            }
        }
        expect_segments(&batch.word_segments, &live, |row| batch.input_ids[row]);
        expect_segments(&batch.type_segments, &live, |row| batch.token_type_ids[row]);
        expect_segments(&batch.position_segments, &live, |row| (row % s) as u32);

        assert_eq!(batch.prediction_offsets.len(), b * s + 1);
        assert_eq!(*batch.prediction_offsets.last().unwrap() as usize, batch.prediction_slots.len());
        for row in 0..b * s {
            let range = batch.prediction_offsets[row] as usize..batch.prediction_offsets[row + 1] as usize;
            let reads = |slot: &u32| {
                batch.mlm_rows[*slot as usize] as usize == row && batch.mlm_weights[*slot as usize] > 0.0
            };
            let expected: Vec<u32> = (0..(b * m) as u32).filter(reads).collect();
            assert_eq!(batch.prediction_slots[range], expected);
        }
    }
}

#[test]
fn every_number_is_checked() {
    let features = random_features(&mut PythonRandom::new(1), 4, 8, 3);
    let message = |change: &dyn Fn(&mut Features)| {
        let mut features = features.clone();
        change(&mut features);
        Batch::new(&features, &[3, 2], &LIMITS).unwrap_err().to_string()
    };
    let starts = |message: String, start: &str| assert!(message.starts_with(start), "{message}");
    starts(
        message(&|f| f.input_ids[16 + 5] = 7),
        "test, record 2 (from 0): input_ids[5] is 7, but must be below 7",
    );
    starts(
        message(&|f| f.input_mask[24] = 2),
        "test, record 3 (from 0): input_mask[0] is 2, but must be below 2",
    );
    starts(
        message(&|f| f.segment_ids[31] = 2),
        "test, record 3 (from 0): segment_ids[7] is 2, but must be below 2",
    );
    starts(
        message(&|f| f.masked_lm_positions[8] = 8),
        "test, record 2 (from 0): masked_lm_positions[2] is 8, but must be below 8",
    );
    starts(
        message(&|f| f.masked_lm_ids[9] = u32::MAX),
        "test, record 3 (from 0): masked_lm_ids[0] is 4294967295, but must be below 7",
    );
    starts(
        message(&|f| f.next_sentence_labels[2] = 2),
        "test, record 2 (from 0): next_sentence_labels[0] is 2",
    );
    for weight in [f32::NAN, f32::INFINITY, -1.0] {
        starts(
            message(&|f| f.masked_lm_weights[7] = weight),
            &format!("test, record 2 (from 0): masked_lm_weights[1] is {weight}"),
        );
    }
    starts(
        message(&|f| _ = f.masked_lm_ids.pop()),
        "test: masked_lm_ids has 11 numbers, but the shapes ask for 12",
    );
    // A record that is not asked for is not looked at.
    let mut other = features.clone();
    other.input_ids[0] = 99;
    assert!(Batch::new(&other, &[3, 2], &LIMITS).is_ok());

    let error = Batch::new(&features, &[4], &LIMITS).unwrap_err();
    assert!(matches!(error, Error::NoSuchRecord { record: 4, count: 4, .. }), "{error}");
    let few = BatchLimits { max_position_embeddings: 7, ..LIMITS };
    let error = Batch::new(&features, &[0], &few).unwrap_err();
    assert!(
        matches!(error, Error::SequenceTooLong { seq_length: 8, max_position_embeddings: 7, .. }),
        "{error}"
    );
}

#[test]
fn epochs_are_permutations_and_steps_are_numbers() {
    // The first id of each instance is its number.
    let count = 23;
    let features = Features {
        seq_length: 1,
        input_ids: (0..count).collect(),
        input_mask: vec![1; count as usize],
        segment_ids: vec![0; count as usize],
        next_sentence_labels: vec![0; count as usize],
        ..Features::default()
    };
    let limits = BatchLimits { vocab_size: count as usize, ..LIMITS };
    let batcher = |seed| Batcher::new(features.clone(), 5, seed, limits).unwrap();
    let ids = |batcher: &mut Batcher, steps: std::ops::Range<u64>| -> Vec<u32> {
        steps.flat_map(|step| batcher.batch(step).unwrap().input_ids).collect()
    };
    let mut one = batcher(1);
    assert_eq!(one.batches_per_epoch(), 4);
    let (first, second) = (ids(&mut one, 0..4), ids(&mut one, 4..8));
    for epoch in [&first, &second] {
        let mut sorted = (*epoch).clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 20, "no instance twice in an epoch");
    }
    assert_ne!(first, second);
    // Anew, in another order, with another seed.
    assert_eq!(ids(&mut batcher(1), 4..8), second);
    assert_eq!(ids(&mut one, 0..4), first);
    assert_ne!(ids(&mut batcher(2), 0..4), first);

    let message = Batcher::new(features.clone(), 24, 1, limits).err().unwrap().to_string();
    assert!(
        message
            .contains("23 training instances do not fill a batch of 24; use a batch size between 1 and 23")
    );
    assert!(Batcher::new(features.clone(), 0, 1, limits).is_err());
    assert!(Batcher::new(Features::default(), 1, 1, limits).is_err());
}

#[test]
fn instances_make_the_same_batches_in_either_form() {
    let mut corpus = Corpus::default();
    let text = "the dog sees the cat\na cat sees the dog\nthe bird sings\n\n".repeat(12);
    corpus.add("text", text.as_bytes(), false).unwrap();
    let tokenizer = Tokenizer::new(train_vocabulary(corpus.sentences(), 60, true).unwrap(), true);
    let (documents, vocabulary) = (corpus.encode(&tokenizer).unwrap(), tokenizer.vocabulary());
    for first_segment_tokens in [None, Some((2, 5))] {
        let options = InstanceOptions {
            max_seq_length: 14,
            max_predictions_per_seq: 3,
            first_segment_tokens,
            ..InstanceOptions::default()
        };
        let features = create_instances(&documents, vocabulary, &options).unwrap();
        let instances = Arc::new(Instances::make(&documents, vocabulary, &options).unwrap());
        let limits = BatchLimits { vocab_size: vocabulary.size(), ..LIMITS };
        let facts = |set: &dyn InstanceSet| {
            let mut labels: Vec<u32> =
                set.labels().filter(|(_, weight)| *weight > 0.0).map(|(id, _)| id).collect();
            labels.sort();
            (
                set.count(),
                set.seq_length(),
                set.predictions(),
                set.random_next(),
                set.origin().to_owned(),
                labels,
            )
        };
        assert_eq!(facts(&instances), facts(&features));
        let mut batcher = Batcher::new(instances.clone(), 7, 3, limits).unwrap();
        let mut expected = Batcher::new(features, 7, 3, limits).unwrap();
        for step in 0..5 {
            assert_eq!(batcher.batch(step).unwrap(), expected.batch(step).unwrap());
        }
        assert_eq!(batcher.first(2).unwrap(), expected.first(2).unwrap());
        let missing = instances.batch(&[0, instances.count()], &limits).unwrap_err();
        assert!(matches!(missing, Error::NoSuchRecord { .. }), "{missing}");
    }
}
