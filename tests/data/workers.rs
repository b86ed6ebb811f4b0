//! The data of several workers.

use crate::instances::{documents, options};
use std::ops::ControlFlow;
use wgpu_bert::data::{
    Batch, BatchLimits, Batcher, Disk, FeatureNames, Features, InstanceOptions, RecordFile, RecordSet,
    TrainingData, create_instances, write_records,
};

const LIMITS: BatchLimits = BatchLimits { vocab_size: 997, type_vocab_size: 2, max_position_embeddings: 64 };

/// The batches of workers one behind the other.
fn joined(batches: &[Batch]) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let rows = batches.iter().flat_map(|batch| batch.input_ids.clone()).collect();
    let labels = batches.iter().flat_map(|batch| batch.mlm_ids.clone()).collect();
    (rows, labels, batches.iter().flat_map(|batch| batch.nsp_labels.clone()).collect())
}

#[test]
fn workers_share_what_one_would_have() {
    let (tokenizer, corpus) = documents(&["corpus.txt.gz"]);
    let vocabulary = tokenizer.vocabulary();
    let options = InstanceOptions { dupe_factor: 1, ..options(12345) };
    let features = create_instances(&corpus, vocabulary, &options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.tfrecord");
    std::fs::write(&file, write_records(&features, FeatureNames::V1)).unwrap();
    let in_memory = || TrainingData::from(features.clone());
    let in_files = || {
        let (disk, files) = (Disk::at(folder.path()), vec![RecordFile::from(&file)]);
        let mut progress = |_| ControlFlow::Continue(());
        let records = RecordSet::open(files, true, false, &disk, &mut progress);
        TrainingData::from(pollster::block_on(records).unwrap())
    };
    let masked_anew = || in_memory().with_dynamic_masking(vocabulary, &options).unwrap();
    let sources: [&dyn Fn() -> TrainingData; 3] = [&in_memory, &in_files, &masked_anew];
    for data in sources {
        for workers in [1, 2, 3] {
            let part =
                |worker| Batcher::new(data().for_worker(worker, workers).unwrap(), 5, 7, LIMITS).unwrap();
            let mut parts: Vec<Batcher> = (0..workers).map(part).collect();
            let mut one = Batcher::new(data(), 5 * workers, 7, LIMITS).unwrap();
            let per_epoch = features.count() / (5 * workers);
            assert!(parts.iter().all(|part| part.batches_per_epoch() == per_epoch), "equal lengths");
            for step in 0..per_epoch as u64 + 3 {
                let batches: Vec<Batch> = parts.iter_mut().map(|part| part.batch(step).unwrap()).collect();
                assert_eq!(joined(&batches), joined(&[one.batch(step).unwrap()]), "step {step}");
            }
            // A step's number is all that a worker goes on from.
            let step = per_epoch as u64 + 1;
            assert_eq!(part(workers - 1).batch(step).unwrap(), parts[workers - 1].batch(step).unwrap());
        }
    }
    let told = in_memory().for_worker(3, 3).err().expect("there are 0, 1 and 2").to_string();
    assert!(told.contains("worker is 3") && told.contains("number of workers, 3"), "{told}");
}

#[test]
fn an_epoch_of_all_workers_is_everything_once() {
    // Instance n has n as its first token.
    let count = 101;
    let numbered = Features {
        seq_length: 5,
        predictions: 1,
        input_ids: (0..count).flat_map(|n| [n, 1, 1, 1, 1]).collect(),
        input_mask: vec![1; 5 * count as usize],
        segment_ids: vec![0; 5 * count as usize],
        masked_lm_positions: vec![1; count as usize],
        masked_lm_ids: vec![1; count as usize],
        masked_lm_weights: vec![1.0; count as usize],
        next_sentence_labels: vec![0; count as usize],
        ..Features::default()
    };
    let mut seen = Vec::<u32>::new();
    for worker in 0..4 {
        let data = TrainingData::from(numbered.clone()).for_worker(worker, 4).unwrap();
        assert_eq!(data.count(), 25);
        let mut batcher = Batcher::new(data, 5, 1, LIMITS).unwrap();
        for step in 0..5 {
            seen.extend(batcher.batch(step).unwrap().input_ids.iter().step_by(5));
        }
    }
    seen.sort_unstable();
    let repeated = seen.windows(2).any(|pair| pair[0] == pair[1]);
    assert!(seen.len() == 100 && !repeated, "all but the rest of one, and none twice: {seen:?}");
}
