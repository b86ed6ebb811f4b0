use super::*;
use crate::data::{
    Batcher, Corpus, FeatureNames, GeneratorOptions, create_instances, create_pretraining_data, read_records,
    train_vocabulary,
};
use std::path::Path;

fn tokenizer() -> Tokenizer {
    let corpus = Corpus::bundled().unwrap();
    Tokenizer::new(train_vocabulary(corpus.sentences().take(300), 300, true).unwrap(), true)
}

fn options(first_segment_tokens: Option<(usize, usize)>) -> InstanceOptions {
    InstanceOptions {
        max_seq_length: 24,
        max_predictions_per_seq: 4,
        dupe_factor: 3,
        first_segment_tokens,
        ..InstanceOptions::default()
    }
}

/// Forty chapters of five verses each.
fn text(folder: &Path) -> Vec<TextSource> {
    let corpus = Corpus::bundled().unwrap();
    let chapters = corpus.documents().take(40).map(|chapter| chapter[..5].join("\n"));
    let path = folder.join("text.txt");
    std::fs::write(&path, chapters.collect::<Vec<_>>().join("\n\n")).unwrap();
    vec![TextSource::File(path)]
}

fn made(
    folder: &Path,
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
    threads: usize,
    most: u64,
) -> TextData {
    let text_options = TextOptions { documents_run_on: false, json_field: None, threads };
    let go_on = &mut |_| ControlFlow::Continue(());
    let disk = Disk::at(folder);
    pollster::block_on(training_data(text(folder), tokenizer, options, &text_options, &disk, most, go_on))
        .unwrap()
}

/// Each instance as one list of numbers.
fn rows(features: &Features) -> Vec<Vec<u32>> {
    let (s, m) = (features.seq_length, features.predictions);
    let row = |n: usize| {
        let tokens = n * s..(n + 1) * s;
        let slots = n * m..(n + 1) * m;
        let label = features.next_sentence_labels[n];
        [
            &features.input_ids[tokens.clone()],
            &features.segment_ids[tokens],
            &features.masked_lm_positions[slots.clone()],
            &features.masked_lm_ids[slots],
            &[label],
        ]
        .concat()
    };
    (0..features.count()).map(row).collect()
}

fn sorted_rows(features: &Features) -> Vec<Vec<u32>> {
    let mut rows = rows(features);
    rows.sort_unstable();
    rows
}

/// Both ways of cutting segments: whole sentences, and windows.
#[test]
fn an_epoch_on_disk_has_every_instance_once_wherever_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = tokenizer();
    for first_segment in [None, Some((3, 9))] {
        let options = options(first_segment);
        let mut made_once = made(folder.path(), &tokenizer, &options, 2, 0);
        let mut whole = TrainingData::from(made_once.instances.clone());
        let (count, batch_size) = (whole.count(), 7);
        let steps = (count / batch_size) as u64;
        // The instances are those of the generator's files.
        let output = folder.path().join("out.tfrecord");
        let generator_options = GeneratorOptions {
            instances: options.clone(),
            reference_order: false,
            text: TextOptions { documents_run_on: false, json_field: None, threads: 1 },
            outputs: vec![output.clone()],
            gzip: false,
            names: FeatureNames::V1,
        };
        let go_on = &mut |_| ControlFlow::Continue(());
        let generated =
            create_pretraining_data(text(folder.path()), &tokenizer, &generator_options, go_on).unwrap();
        let records = read_records("out", &std::fs::read(output).unwrap(), true).unwrap();
        assert_eq!((count, &made_once.report), (records.count(), &generated.report));
        // In their order, too.
        assert_eq!(rows(&made_once.instances.features(0..count).unwrap()), rows(&records));
        assert_eq!(rows(&made_once.instances.features(5..9).unwrap()), rows(&records)[5..9]);
        assert_eq!(rows(&whole.in_order(0..count).unwrap()), rows(&records));
        assert_eq!(sorted_rows(&whole.batch(0, count, 5).unwrap()), sorted_rows(&records));
        let vocab_size = tokenizer.vocabulary().size();
        assert_eq!(whole.unigram_baseline(vocab_size), UnigramBaseline::new(&records, vocab_size));

        let batches: Vec<_> =
            (0..3 * steps).map(|step| rows(&whole.batch(step, batch_size, 9).unwrap())).collect();
        assert_ne!(batches[0], batches[steps as usize], "epochs differ");
        for threads in [1, 3] {
            let again = made(folder.path(), &tokenizer, &options, threads, 0);
            assert_eq!(again.checksum, made_once.checksum);
            let mut again = TrainingData::from(again.instances);
            for step in [steps + 3, 2, 3 * steps - 1, 0] {
                assert_eq!(rows(&again.batch(step, batch_size, 9).unwrap()), batches[step as usize]);
            }
        }
        // Masked anew, and taken by workers.
        let dynamic = whole.with_dynamic_masking(tokenizer.vocabulary(), &options).unwrap();
        let limits = BatchLimits { vocab_size, type_vocab_size: 2, max_position_embeddings: 24 };
        assert!(Batcher::new(dynamic, batch_size, 9, limits).unwrap().batch(1).is_ok());
    }
}

#[test]
fn little_text_makes_the_instances_of_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = tokenizer();
    let mut corpus = Corpus::default();
    text(folder.path());
    corpus.add("text", &std::fs::read(folder.path().join("text.txt")).unwrap(), false).unwrap();
    let documents = corpus.encode(&tokenizer).unwrap();
    for first_segment in [None, Some((3, 9))] {
        let options = options(first_segment);
        let features = create_instances(&documents, tokenizer.vocabulary(), &options).unwrap();
        let mut made = made(folder.path(), &tokenizer, &options, 2, TextInstances::IN_MEMORY);
        assert_eq!(made.report, DataReport::new(&documents, tokenizer.vocabulary(), &features));
        assert_eq!(rows(&made.instances.features(0..3).unwrap()), rows(&features)[..3]);
        let mut data = TrainingData::from(made.instances);
        let mut same = TrainingData::from(features);
        for step in [0, 5, 1000] {
            let batch = data.batch(step, 8, 3).unwrap();
            assert_eq!(rows(&batch), rows(&same.batch(step, 8, 3).unwrap()));
        }
    }
}

#[test]
fn a_dupe_factor_beyond_all_disks_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = tokenizer();
    let options = InstanceOptions { dupe_factor: usize::MAX >> 1, ..options(None) };
    let text_options = TextOptions { documents_run_on: false, json_field: None, threads: 1 };
    let go_on = &mut |_| ControlFlow::Continue(());
    let (text, disk, most) = (text(folder.path()), Disk::at(folder.path()), TextInstances::IN_MEMORY);
    let made = training_data(text, &tokenizer, &options, &text_options, &disk, most, go_on);
    let told = pollster::block_on(made).err().expect("there is no such disk").to_string();
    assert!(told.contains("dupe_factor is") && told.contains("GB, which the disk of"), "{told}");
}
