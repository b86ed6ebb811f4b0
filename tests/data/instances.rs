//! Instances against the records the reference's own script wrote, and the second way to cut segments.

use crate::{json, path, text};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use wgpu_bert::data::{
    Corpus, Documents, Error, Features, InstanceOptions, SPECIAL_TOKENS, Tokenizer, Vocabulary,
    create_instances,
};

/// The small vocabulary and three documents of a worked example.
fn example() -> (Vocabulary, Documents) {
    let words = (0..20).map(|i| format!("w{i}"));
    let tokens =
        SPECIAL_TOKENS.map(String::from).into_iter().chain(words).chain(["##x".into(), "##y".into()]);
    let vocabulary = Vocabulary::from_tokens(tokens.collect(), "example").unwrap();
    let documents = [
        &["w0 w1 w2", "w3 ##x w4 w5", "w6 w7"][..],
        &["w8 w9 ##y ##x w10", "w11"],
        &["w12 w13 w14 w15 w16 w17", "w18 w19 w0 w2", "w4", "w6 w8 w10"],
    ];
    let ids = |sentence: &&str| sentence.split(' ').map(|token| vocabulary.id(token).unwrap()).collect();
    let documents = documents.map(|document| document.iter().map(ids).collect()).to_vec();
    (vocabulary.clone(), Documents { origin: "example".into(), documents })
}

/// Instance `n`: its tokens, `position label` of what is masked, and its next-sentence label.
fn show(features: &Features, n: usize, vocabulary: &Vocabulary) -> (String, String, u32) {
    let (s, m) = (features.seq_length, features.predictions);
    let length = features.input_mask[n * s..][..s].iter().sum::<u32>() as usize;
    let token = |id: &u32| vocabulary.token(*id).unwrap();
    let tokens: Vec<&str> = features.input_ids[n * s..][..length].iter().map(token).collect();
    let masked = (n * m..(n + 1) * m).filter(|&slot| features.masked_lm_weights[slot] == 1.0);
    let masked: Vec<String> = masked
        .map(|slot| {
            format!("{} {}", features.masked_lm_positions[slot], token(&features.masked_lm_ids[slot]))
        })
        .collect();
    (tokens.join(" "), masked.join(", "), features.next_sentence_labels[n])
}

#[test]
fn worked_example() {
    let (vocabulary, documents) = example();
    let options = InstanceOptions {
        max_seq_length: 16,
        max_predictions_per_seq: 4,
        dupe_factor: 2,
        ..InstanceOptions::default()
    };
    let plain = create_instances(&documents, &vocabulary, &options).unwrap();
    assert_eq!(plain.count(), 9);
    let expected = [
        ("[CLS] w18 [MASK] w0 w2 [SEP] w4 [MASK] w8 w10 [SEP]", "2 w19, 7 w6", 0),
        ("[CLS] w11 [SEP] w0 [MASK] w2 w3 ##x w4 w5 [MASK] w7 [SEP]", "4 w1, 10 w6", 1),
        ("[CLS] w12 w13 w14 w15 [MASK] w17 w18 w19 w0 [SEP] w4 w6 w8 w10 [SEP]", "5 w16, 11 w4", 0),
        ("[CLS] w0 w1 w2 w3 ##x w4 w5 [SEP] w6 [MASK] [SEP]", "4 w3, 10 w7", 0),
    ];
    for (n, (tokens, masked, label)) in expected.into_iter().enumerate() {
        assert_eq!(show(&plain, n, &vocabulary), (tokens.into(), masked.into(), label));
    }
    let options = InstanceOptions { whole_word_mask: true, ..options };
    let whole_words = create_instances(&documents, &vocabulary, &options).unwrap();
    assert_eq!(whole_words.count(), 9);
    let expected = [
        ("[CLS] w12 [MASK] w14 w15 w16 [MASK] [SEP] w6 w7 [SEP]", "2 w13, 6 w17", 1),
        ("[CLS] w0 w1 w2 [MASK] [MASK] w4 w5 [SEP] w6 w7 [SEP]", "4 w3, 5 ##x", 0),
    ];
    for (n, (tokens, masked, label)) in expected.into_iter().enumerate() {
        assert_eq!(show(&whole_words, n, &vocabulary), (tokens.into(), masked.into(), label));
    }
}

pub fn documents(files: &[&str]) -> (Tokenizer, Documents) {
    let tokenizer = Tokenizer::new(Vocabulary::load(&path("vocab.txt")).unwrap(), true);
    let paths: Vec<_> = files.iter().map(|file| path(file)).collect();
    // The reference lets documents run on from file to file.
    let documents = Corpus::read(&paths, true).unwrap().encode(&tokenizer).unwrap();
    (tokenizer, documents)
}

pub fn options(random_seed: u64) -> InstanceOptions {
    InstanceOptions {
        max_seq_length: 64,
        max_predictions_per_seq: 10,
        dupe_factor: 2,
        random_seed,
        ..InstanceOptions::default()
    }
}

/// One record as the JSON line that was hashed: features by name, floats with a decimal point.
fn record(features: &Features, n: usize) -> String {
    let (s, m) = (features.seq_length, features.predictions);
    let (tokens, slots) = (n * s..(n + 1) * s, n * m..(n + 1) * m);
    let ints = |values: &[u32]| serde_json::to_string(values).unwrap();
    format!(
        r#"{{"input_ids":{},"input_mask":{},"masked_lm_ids":{},"masked_lm_positions":{},"masked_lm_weights":{},"next_sentence_labels":{},"segment_ids":{}}}"#,
        ints(&features.input_ids[tokens.clone()]),
        ints(&features.input_mask[tokens.clone()]),
        ints(&features.masked_lm_ids[slots.clone()]),
        ints(&features.masked_lm_positions[slots.clone()]),
        serde_json::to_string(&features.masked_lm_weights[slots]).unwrap(),
        ints(&features.next_sentence_labels[n..][..1]),
        ints(&features.segment_ids[tokens]),
    )
}

/// Every feature of every record of a file; records are dealt out to the files in turn.
pub fn expect_file(features: &Features, file: &str, (index, files): (usize, usize)) {
    let golden = &json("records.json.gz")[file];
    let records: Vec<String> =
        (index..features.count()).step_by(files).map(|n| record(features, n)).collect();
    for (n, expected) in golden["first"].as_array().unwrap().iter().enumerate() {
        let ours: serde_json::Value = serde_json::from_str(&records[n]).unwrap();
        assert_eq!(&ours, expected, "{file}, record {n}");
    }
    assert_eq!(records.len() as u64, golden["records"].as_u64().unwrap(), "{file}");
    let digest = Sha256::digest(records.iter().flat_map(|record| [record, "\n"]).collect::<String>());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, golden["features_sha256"].as_str().unwrap(), "{file}");
}

#[test]
fn whole_files_of_the_reference() {
    let (tokenizer, corpus) = documents(&["corpus.txt.gz"]);
    let plain = create_instances(&corpus, tokenizer.vocabulary(), &options(12345)).unwrap();
    expect_file(&plain, "plain.tfrecord", (0, 1));
    let whole_words = InstanceOptions { whole_word_mask: true, ..options(777) };
    let whole_words = create_instances(&corpus, tokenizer.vocabulary(), &whole_words).unwrap();
    expect_file(&whole_words, "wwm.tfrecord", (0, 1));

    let (tokenizer, both) = documents(&["corpus.txt.gz", "corpus_unicode.txt"]);
    let sharded = create_instances(&both, tokenizer.vocabulary(), &options(31)).unwrap();
    for index in 0..3 {
        expect_file(&sharded, &format!("shard-{index}.tfrecord"), (index, 3));
    }
}

/// Windows of the second way: full, with A and B as promised, and unmasked again a part of the text.
#[test]
fn windows_are_full_and_true_to_the_text() {
    let (tokenizer, corpus) = documents(&["corpus.txt.gz"]);
    let vocabulary = tokenizer.vocabulary();
    let windows = InstanceOptions {
        max_seq_length: 16,
        max_predictions_per_seq: 5,
        masked_lm_prob: 0.3,
        first_segment_tokens: Some((3, 12)),
        ..options(5)
    };
    let features = create_instances(&corpus, vocabulary, &windows).unwrap();
    assert_eq!(create_instances(&corpus, vocabulary, &windows).unwrap(), features);
    assert_ne!(
        create_instances(&corpus, vocabulary, &InstanceOptions { random_seed: 6, ..windows.clone() })
            .unwrap(),
        features
    );

    let streams: Vec<Vec<u32>> = corpus.documents.iter().map(|document| document.concat()).collect();
    // Where each run of tokens occurs: document and position.
    let mut occurrences = HashMap::<&[u32], Vec<(usize, usize)>>::new();
    for (d, stream) in streams.iter().enumerate() {
        for length in 1..=12 {
            for (at, run) in stream.windows(length).enumerate() {
                occurrences.entry(run).or_default().push((d, at));
            }
        }
    }
    let special = vocabulary.special();
    let mut first_lengths = [0; 17];
    for n in 0..features.count() {
        assert!(features.input_mask[n * 16..][..16].iter().all(|&x| x == 1), "a window is full");
        let mut tokens = features.input_ids[n * 16..][..16].to_vec();
        let slots = n * 5..(n + 1) * 5;
        assert_eq!(features.masked_lm_weights[slots.clone()].iter().sum::<f32>(), 5.0, "30 % of 16");
        for slot in slots {
            tokens[features.masked_lm_positions[slot] as usize] = features.masked_lm_ids[slot];
        }
        let second = features.segment_ids[n * 16..][..16].iter().position(|&x| x == 1).unwrap();
        let (a, b) = (&tokens[1..second - 1], &tokens[second..15]);
        assert_eq!((tokens[0], tokens[second - 1], tokens[15]), (special.cls, special.sep, special.sep));
        first_lengths[a.len()] += 1;
        let (a_places, b_places) = (&occurrences[a], &occurrences[b]);
        if features.next_sentence_labels[n] == 0 {
            assert!(a_places.iter().any(|&(d, at)| b_places.contains(&(d, at + a.len()))), "B follows A");
        } else {
            assert!(
                a_places.iter().any(|a| b_places.iter().any(|b| a.0 != b.0)),
                "B is from another document"
            );
        }
    }
    assert!(
        first_lengths[..3].iter().chain(&first_lengths[13..]).all(|&count| count == 0),
        "{first_lengths:?}"
    );
    let tenth = features.count() / 10;
    assert!(
        first_lengths[3..13].iter().all(|count| (tenth / 2..tenth * 2).contains(count)),
        "{first_lengths:?}"
    );
    let random = features.next_sentence_labels.iter().sum::<u32>() as f64 / features.count() as f64;
    assert!((0.45..0.55).contains(&random), "{random}");

    let no_labels = InstanceOptions { use_next_sentence_label: false, ..windows };
    let features = create_instances(&corpus, vocabulary, &no_labels).unwrap();
    assert!(features.next_sentence_labels.iter().all(|&label| label == 0), "B always follows");
}

/// Documents shorter than a window, down to a single token.
#[test]
fn short_documents_make_short_windows() {
    let (vocabulary, _) = example();
    let documents = |documents: Vec<Vec<u32>>| Documents {
        origin: "short".into(),
        documents: documents.into_iter().map(|document| vec![document]).collect(),
    };
    let options = InstanceOptions {
        dupe_factor: 1,
        first_segment_tokens: Some((3, 12)),
        max_seq_length: 16,
        ..options(1)
    };
    let short = create_instances(&documents(vec![vec![7], vec![8, 9]]), &vocabulary, &options).unwrap();
    assert_eq!(short.count(), 1, "one token makes no pair, two make one");
    assert_eq!(short.input_mask.iter().sum::<u32>(), 5);
    let error = create_instances(&documents(vec![vec![7], vec![8]]), &vocabulary, &options).unwrap_err();
    assert!(matches!(error, Error::NoInstances { .. }), "{error}");
}

#[test]
fn a_single_document_has_no_random_next() {
    let (vocabulary, mut documents) = example();
    documents.documents.truncate(1);
    for first_segment_tokens in [None, Some((1, 2))] {
        let options =
            InstanceOptions { first_segment_tokens, max_seq_length: 8, ..InstanceOptions::default() };
        let message = create_instances(&documents, &vocabulary, &options).unwrap_err().to_string();
        assert!(
            message.contains("example") && message.contains("use_next_sentence_label=false"),
            "{message}"
        );
        let options = InstanceOptions { use_next_sentence_label: false, ..options };
        assert!(create_instances(&documents, &vocabulary, &options).unwrap().count() > 0);
    }
}

#[test]
fn options_out_of_range_are_named() {
    let (vocabulary, documents) = example();
    let message = |options: InstanceOptions| {
        create_instances(&documents, &vocabulary, &options).unwrap_err().to_string()
    };
    let base = InstanceOptions { max_seq_length: 16, ..InstanceOptions::default() };
    assert_eq!(
        message(InstanceOptions { max_seq_length: 4, ..base.clone() }),
        "max_seq_length is 4, but must be at least 5"
    );
    assert!(
        message(InstanceOptions { max_predictions_per_seq: 0, ..base.clone() })
            .contains("max_predictions_per_seq is 0")
    );
    assert!(message(InstanceOptions { dupe_factor: 0, ..base.clone() }).contains("dupe_factor is 0"));
    assert!(
        message(InstanceOptions { masked_lm_prob: f64::NAN, ..base.clone() })
            .contains("masked_lm_prob is NaN")
    );
    assert!(
        message(InstanceOptions { short_seq_prob: 1.5, ..base.clone() }).contains("short_seq_prob is 1.5")
    );
    for range in [(0, 3), (4, 3), (3, 13)] {
        let message = message(InstanceOptions { first_segment_tokens: Some(range), ..base.clone() });
        assert!(message.contains("a range within 1 to 12 for max_seq_length 16"), "{message}");
    }
    assert!(
        create_instances(
            &documents,
            &vocabulary,
            &InstanceOptions { first_segment_tokens: Some((1, 12)), ..base }
        )
        .is_ok()
    );
}

/// The shortest sequences the algorithm allows, with every target length drawn.
#[test]
fn shortest_sequences() {
    let (tokenizer, corpus) = documents(&["corpus.txt.gz"]);
    let options =
        InstanceOptions { max_seq_length: 5, max_predictions_per_seq: 1, short_seq_prob: 1.0, ..options(3) };
    let features = create_instances(&corpus, tokenizer.vocabulary(), &options).unwrap();
    assert!(features.input_mask.iter().all(|&x| x == 1));
    assert!(text("corpus.txt.gz").lines().count() < features.count());
}

#[test]
fn several_words_are_masked_together() {
    // Every word has two pieces.
    let letters = (0..26).map(|n| char::from(b'a' + n));
    let tokens = SPECIAL_TOKENS.map(String::from).into_iter();
    let tokens = tokens.chain(letters.clone().map(String::from)).chain(letters.map(|c| format!("##{c}")));
    let vocabulary = Vocabulary::from_tokens(tokens.collect(), "letters").unwrap();
    let sentence: Vec<u32> = (0..30).flat_map(|n| [5 + n % 26, 31 + n % 26]).collect();
    let documents = Documents { origin: "letters".into(), documents: vec![vec![sentence; 4]; 50] };
    let options = |max_ngram_size| InstanceOptions {
        max_seq_length: 66,
        max_predictions_per_seq: 20,
        whole_word_mask: true,
        masked_lm_prob: 0.15,
        max_ngram_size,
        ..InstanceOptions::default()
    };
    let make = |max| create_instances(&documents, &vocabulary, &options(max)).unwrap();
    // Words in a row that were masked, by how many they are.
    let runs = |features: &Features| {
        let mut runs = [0; 12];
        for n in 0..features.count() {
            let slots = (n * 20..(n + 1) * 20).filter(|&slot| features.masked_lm_weights[slot] > 0.0);
            let positions: Vec<u32> = slots.map(|slot| features.masked_lm_positions[slot]).collect();
            let length = features.input_mask[n * 66..][..66].iter().sum::<u32>();
            assert!(positions.len() as f64 <= (f64::from(length) * 0.15).round_ties_even().max(1.0));
            // Pieces with a `##` are masked with the piece before them, unless that was cut off.
            for run in positions.chunk_by(|a, b| a + 1 == *b) {
                let next = features.input_ids[n * 66 + run[run.len() - 1] as usize + 1];
                assert!(next < 31, "a word is cut: {positions:?}");
                runs[run.len().div_ceil(2)] += 1;
            }
        }
        runs
    };
    let (one, three) = (runs(&make(1)), runs(&make(3)));
    // Single words seldom meet by chance; several at a time are drawn in five of eleven cases.
    let longer =
        |runs: [usize; 12]| runs[2..].iter().sum::<usize>() as f64 / runs.iter().sum::<usize>() as f64;
    assert!(longer(one) < 0.2 && longer(three) > 0.3, "{one:?} {three:?}");
    assert_eq!(make(3), make(3), "the seed decides it");

    let pieces = InstanceOptions { whole_word_mask: false, ..options(3) };
    for (options, part) in [(pieces, "3, but must be 1 unless whole words"), (options(0), "at least 1")] {
        let error = create_instances(&documents, &vocabulary, &options).unwrap_err().to_string();
        assert!(error.contains("max_ngram_size is ") && error.contains(part), "{error}");
    }
}
