//! Epochs of files, and what is wrong with files.

use super::*;
use crate::data::{FeatureNames, write_records};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::PathBuf;
use tempfile::TempDir;

fn open(files: &[PathBuf], skip_bad: bool) -> Result<RecordSet, Error> {
    let disk = Disk::at(&std::env::temp_dir());
    let files = files.iter().map(RecordFile::from).collect();
    let mut progress = |_| ControlFlow::Continue(());
    pollster::block_on(RecordSet::open(files, true, skip_bad, &disk, &mut progress))
}

/// Instances of two tokens, the first of which is their number.
fn numbered(numbers: Range<u32>) -> Features {
    let count = numbers.len();
    Features {
        origin: "numbers".into(),
        seq_length: 2,
        predictions: 1,
        input_ids: numbers.clone().flat_map(|n| [n, 1]).collect(),
        input_mask: vec![1; 2 * count],
        segment_ids: vec![0; 2 * count],
        masked_lm_positions: vec![1; count],
        masked_lm_ids: numbers.map(|n| n % 3).collect(),
        masked_lm_weights: vec![1.0; count],
        next_sentence_labels: vec![1; count],
    }
}

fn limits(vocab_size: usize) -> BatchLimits {
    BatchLimits { vocab_size, type_vocab_size: 1, max_position_embeddings: 2 }
}

fn write(folder: &TempDir, name: &str, features: &Features) -> PathBuf {
    let path = folder.path().join(name);
    let mut bytes = write_records(features, FeatureNames::V1);
    if name.ends_with(".gz") {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&bytes).unwrap();
        bytes = gzip.finish().unwrap();
    }
    std::fs::write(&path, bytes).unwrap();
    path
}

fn numbers(features: &Features) -> Vec<u32> {
    features.input_ids.iter().step_by(2).copied().collect()
}

#[test]
fn an_epoch_has_every_instance_once_wherever_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        write(&folder, "a.tfrecord", &numbered(0..1000)),
        write(&folder, "b.tfrecord.gz", &numbered(1000..1700)),
        write(&folder, "c.tfrecord", &numbered(1700..1701)),
        write(&folder, "d.tfrecord.gz", &numbered(1701..2001)),
    ];
    let small = || {
        let mut set = open(&files, false).unwrap();
        // Four blocks: eight windows and a rest.
        set.window_bytes = 0;
        set
    };
    let mut set = small();
    assert_eq!((set.count(), set.seq_length(), set.predictions(), set.random_next()), (2001, 2, 1, 2001));
    assert_eq!(numbers(set.examples()), [0, 1, 2]);
    assert_eq!(set.unigram_baseline(3).log_frequencies()[1], (668.0f64 / 2004.0).ln() as f32);

    let epoch = numbers(&set.take(0..2001, Some(7)).unwrap());
    let mut sorted = epoch.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..2001));
    // Any part of it is the same, asked for in any order.
    for range in [1500..1600, 0..10, 240..275, 2000..2001, 3..2001] {
        assert_eq!(numbers(&small().take(range.clone(), Some(7)).unwrap()), epoch[range.clone()]);
        assert_eq!(numbers(&set.take(range.clone(), Some(7)).unwrap()), epoch[range]);
    }
    // Without a seed it is as in the files.
    assert!(numbers(&set.take(0..2001, None).unwrap()).into_iter().eq(0..2001));
    assert_eq!(numbers(&small().take(1690..1710, None).unwrap()), (1690..1710).collect::<Vec<_>>());
    let other = numbers(&set.take(0..2001, Some(8)).unwrap());
    assert_ne!(other, epoch);
    // A window has instances of several places of several files, mixed.
    let first: Vec<u32> = epoch[..200].iter().map(|n| n / 64).collect();
    assert!(first.chunk_by(|a, b| a == b).count() > 100, "{first:?}");

    let other_files = open(&files[..3], false).unwrap();
    assert_ne!(other_files.checksum(), set.checksum());
    assert_eq!(small().checksum(), set.checksum());
}

fn error(files: &[PathBuf], skip_bad: bool) -> String {
    open(files, skip_bad).err().expect("a bad file").to_string()
}

#[test]
fn what_is_wrong_is_told_by_file_and_record() {
    let folder = tempfile::tempdir().unwrap();
    let good = write(&folder, "good.tfrecord", &numbered(0..100));
    let other = write(&folder, "other.tfrecord", &Features { ..wide() });
    let told = error(&[good.clone(), other], false);
    assert!(told.contains("good.tfrecord") && told.contains("other.tfrecord"), "{told}");
    assert!(told.contains("2 tokens with 1") && told.contains("3 with 1"), "{told}");

    let empty = folder.path().join("empty.tfrecord");
    std::fs::write(&empty, []).unwrap();
    assert!(error(&[good.clone(), empty], false).contains("empty.tfrecord: the file holds no records"));
    assert!(error(&["/nonexistent/file".into()], false).contains("/nonexistent/file"));

    let damaged = folder.path().join("damaged.tfrecord");
    let mut bytes = std::fs::read(&good).unwrap();
    let frame = bytes.len() / 100;
    // Records differ in length by a byte or so.
    bytes[50 * frame] ^= 1;
    std::fs::write(&damaged, &bytes).unwrap();
    let told = error(&[good.clone(), damaged.clone()], false);
    assert!(told.contains("damaged.tfrecord: record 5"), "{told}");
    let mut set = open(&[good.clone(), damaged], true).unwrap();
    assert_eq!((set.count(), set.skipped().count), (199, 1));
    assert_eq!(numbers(&set.take(0..199, Some(1)).unwrap()).len(), 199);

    // Record 107 is number 7 of its file.
    let mut strange = numbered(100..200);
    strange.input_ids[2 * 7 + 1] = 4000;
    let strange = write(&folder, "strange.tfrecord", &strange);
    let set = open(&[good.clone(), strange], false).unwrap();
    assert!(set.check(&limits(4001)).is_ok());
    let told = set.check(&limits(4000)).unwrap_err().to_string();
    assert!(told.contains("strange.tfrecord, record 7 (from 0): input_ids[1] is 4000"), "{told}");
    let few = BatchLimits { max_position_embeddings: 1, ..limits(4001) };
    assert!(set.check(&few).unwrap_err().to_string().contains("2 tokens"));
    let mut heavy = numbered(0..3);
    heavy.masked_lm_weights[2] = f32::NAN;
    let told = error(&[write(&folder, "heavy.tfrecord", &heavy)], false);
    assert!(told.contains("heavy.tfrecord, record 2 (from 0): masked_lm_weights[0] is NaN"), "{told}");

    // Changed behind its back.
    let mut set = open(std::slice::from_ref(&good), false).unwrap();
    std::fs::write(&good, b"other content").unwrap();
    let told = set.take(0..1, Some(1)).unwrap_err().to_string();
    assert!(told.contains("good.tfrecord: the file was changed since training started"), "{told}");
}

/// An instance of three tokens.
fn wide() -> Features {
    Features {
        seq_length: 3,
        input_ids: vec![0; 3],
        input_mask: vec![1; 3],
        segment_ids: vec![0; 3],
        ..numbered(0..1)
    }
}
