//! TFRecord files: TensorFlow's own read by us, ours equal to them, and damaged ones.

use wgpu_bert::data::{
    Error, FeatureNames, Features, InstanceOptions, RecordProblem, create_instances, read_records,
    read_sound_records, write_records,
};

use crate::instances::{documents, options};

fn golden(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/text").join(name);
    std::fs::read(path).expect(name)
}

fn unzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut plain).expect("gzip");
    plain
}

/// Our instances of the corpus that the reference's script made its files of.
fn ours(whole_word_mask: bool, random_seed: u64) -> Features {
    let (tokenizer, documents) = documents(&["corpus.txt.gz"]);
    let options = InstanceOptions { whole_word_mask, ..options(random_seed) };
    create_instances(&documents, tokenizer.vocabulary(), &options).expect("instances")
}

fn same(got: &Features, want: &Features) {
    assert_eq!(Features { origin: want.origin.clone(), ..got.clone() }, *want);
}

#[test]
fn files_of_the_reference_hold_our_instances() {
    for (name, whole_word, seed) in [
        ("plain.tfrecord.gz", false, 12345),
        ("v2names.tfrecord.gz", false, 12345),
        ("wwm.tfrecord.gz", true, 777),
    ] {
        let zipped = golden(name);
        let features = read_records(name, &zipped, true).expect(name);
        same(&features, &ours(whole_word, seed));
        // Plain and gzip are told apart by content.
        same(&read_records(name, &unzip(&zipped), true).expect(name), &features);
    }
}

/// The number at the start of some bytes, and what follows it.
fn varint(bytes: &[u8]) -> (usize, &[u8]) {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).expect("a number") + 1;
    let number = bytes[..end].iter().rev().fold(0, |number, byte| number << 7 | usize::from(byte & 0x7f));
    (number, &bytes[end..])
}

/// The messages one after another, each a first field.
fn messages(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some(rest) = bytes.strip_prefix(&[0x0a]) {
        let (length, rest) = varint(rest);
        let (message, rest) = rest.split_at(length);
        all.push(message);
        bytes = rest;
    }
    assert!(bytes.is_empty());
    all
}

/// For each record of a file the checksummed length, and the entries of its map in the order of their names.
fn sorted_entries(file: &[u8]) -> Vec<(&[u8], Vec<&[u8]>)> {
    let (mut rest, mut records) = (file, Vec::new());
    while !rest.is_empty() {
        let (header, content) = rest.split_at(12);
        let length = u64::from_le_bytes(header[..8].try_into().expect("a length")) as usize;
        let [features] = messages(&content[..length])[..] else { panic!("one map a record") };
        let mut entries = messages(features);
        entries.sort_by_key(name_of);
        records.push((header, entries));
        rest = &content[length + 4..];
    }
    records
}

/// An entry's name.
fn name_of<'a>(entry: &&'a [u8]) -> &'a [u8] {
    let (length, rest) = varint(entry.strip_prefix(&[0x0a]).expect("a name"));
    &rest[..length]
}

/// What TensorFlow's own writer wrote, so that it reads what we write: the order of a map's entries alone is another one,
/// and is not defined.
#[test]
fn what_is_written_has_tensorflows_bytes() {
    for (name, names, whole_word, seed) in [
        ("plain.tfrecord.gz", FeatureNames::V1, false, 12345),
        ("v2names.tfrecord.gz", FeatureNames::V2, false, 12345),
        ("wwm.tfrecord.gz", FeatureNames::V1, true, 777),
    ] {
        let (theirs, ours) = (unzip(&golden(name)), write_records(&ours(whole_word, seed), names));
        assert_eq!(theirs.len(), ours.len(), "{name}");
        let (theirs, ours) = (sorted_entries(&theirs), sorted_entries(&ours));
        assert!(ours.len() > 200 && ours == theirs, "{name}");
    }
}

#[test]
fn what_is_written_is_read_again_under_both_names() {
    let features = ours(false, 12345);
    for names in [FeatureNames::V1, FeatureNames::V2] {
        let file = write_records(&features, names);
        same(&read_records("ours", &file, true).expect("records"), &features);
    }
}

fn problem(bytes: &[u8]) -> (usize, u64, RecordProblem) {
    match read_records("file", bytes, true).expect_err("a bad file") {
        Error::Record { record, offset, problem, .. } => (record, offset, problem),
        other => panic!("{other}"),
    }
}

#[test]
fn damage_is_told_by_record_and_byte() {
    let file = unzip(&golden("plain.tfrecord.gz"));
    let frame = |at: usize| 16 + u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let second = frame(0);
    let third = second + frame(second);
    let spoilt = |at: usize| {
        let mut bytes = file.clone();
        bytes[at] ^= 1;
        problem(&bytes)
    };
    assert_eq!(spoilt(second + 3), (2, second as u64, RecordProblem::CorruptLength));
    assert_eq!(spoilt(second + 9), (2, second as u64, RecordProblem::CorruptLength));
    assert_eq!(spoilt(second + 40), (2, second as u64, RecordProblem::CorruptData));
    assert_eq!(spoilt(third - 1), (2, second as u64, RecordProblem::CorruptData));
    for end in [second + 1, second + 11, second + 12, third - 1] {
        assert_eq!(problem(&file[..end]), (2, second as u64, RecordProblem::Truncated));
    }
    assert_eq!(read_records("file", &file[..third], true).expect("two whole records").count(), 2);
    let error = read_records("empty", &[], true).expect_err("no records");
    assert!(matches!(error, Error::NoRecords { .. }), "{error}");
    let error =
        read_records("cut.gz", &golden("plain.tfrecord.gz")[..1000], true).expect_err("a cut gzip file");
    assert!(matches!(error, Error::BadRecordsGzip { .. }), "{error}");
    let error = read_records("text", b"In the beginning God created the heaven", true).expect_err("text");
    assert_eq!(
        error.to_string(),
        "text: record 1, which starts at byte 0: no record starts here: the file is no TFRecord file, or its start is damaged"
    );
}

#[test]
fn bad_records_are_left_out_and_counted() {
    let file = unzip(&golden("plain.tfrecord.gz"));
    let all = read_records("file", &file, true).unwrap();
    let mut starts = vec![0];
    while let Some(&start) = starts.last().filter(|&&start| start < file.len()) {
        starts.push(start + 16 + u64::from_le_bytes(file[start..start + 8].try_into().unwrap()) as usize);
    }
    let without = |bytes: &[u8], lost: &[usize], count: usize| {
        let (sound, skipped) = read_sound_records("file", bytes, true).unwrap();
        let mut left = Features::default();
        for n in (0..all.count()).filter(|n| !lost.contains(n)) {
            let record = &file[starts[n]..starts[n + 1]];
            left.append(read_records("file", record, true).unwrap()).unwrap();
        }
        same(&sound, &Features { origin: sound.origin.clone(), ..left });
        assert_eq!(skipped.count, count);
        skipped.first.map(|first| first.to_string()).unwrap_or_default()
    };
    assert_eq!(without(&file, &[], 0), "");
    let spoilt = |places: &[usize]| {
        let mut bytes = file.clone();
        places.iter().for_each(|&at| bytes[at] ^= 1);
        bytes
    };
    // Contents, the last of them; then a length, after which the next record is found by its own.
    let first = without(&spoilt(&[starts[3] + 20, starts[809] - 20]), &[3, 808], 2);
    assert!(first.contains(&format!("record 4, which starts at byte {}: ", starts[3])), "{first}");
    let first = without(&spoilt(&[starts[5] + 1, starts[9] + 30]), &[5, 9], 2);
    assert!(first.contains("record 6") && first.contains("length is corrupt"), "{first}");
    let first = without(&spoilt(&[1]), &[0], 1);
    assert!(first.contains("record 1") && first.contains("its start is damaged"), "{first}");
    let first = without(&file[..starts[800] + 50], &(800..809).collect::<Vec<_>>(), 1);
    assert!(first.contains("record 801") && first.contains("ends inside"), "{first}");
    let first = without(&[&file[..starts[808]], b"not a frame"].concat(), &[808], 1);
    assert!(first.contains("record 809") && first.contains("ends inside"), "{first}");

    // With nothing left there is nothing to train on.
    let error = read_sound_records("file", b"neither text nor records", true).unwrap_err();
    assert!(matches!(error, Error::Record { record: 1, offset: 0, .. }), "{error}");
    let error = read_sound_records("file", &[], true).unwrap_err();
    assert!(matches!(error, Error::NoRecords { .. }), "{error}");
}

/// A frame with its checksums around any content.
fn framed(content: &[u8]) -> Vec<u8> {
    let crc = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let length = (content.len() as u64).to_le_bytes();
    [&length[..], &crc(&length), content, &crc(content)].concat()
}

/// The frame's content of the only record of one written instance.
fn content(features: &Features) -> Vec<u8> {
    let file = write_records(features, FeatureNames::V1);
    file[12..file.len() - 4].to_vec()
}

fn small() -> Features {
    Features {
        origin: "small".into(),
        seq_length: 4,
        predictions: 1,
        input_ids: vec![2, 300, 7, 3],
        input_mask: vec![1; 4],
        segment_ids: vec![0, 0, 1, 1],
        masked_lm_positions: vec![1],
        masked_lm_ids: vec![9],
        masked_lm_weights: vec![0.5],
        next_sentence_labels: vec![1],
    }
}

#[test]
fn records_that_do_not_fit_are_told() {
    same(&read_records("small", &framed(&content(&small())), true).expect("a record"), &small());

    let longer = Features { seq_length: 5, input_ids: vec![2, 1, 7, 7, 3], ..small() };
    let longer = Features { input_mask: vec![1; 5], segment_ids: vec![0; 5], ..longer };
    let both = [framed(&content(&small())), framed(&content(&longer))].concat();
    let expected = RecordProblem::WrongLength { feature: "input_ids", found: 5, expected: 4 };
    assert_eq!(problem(&both), (2, framed(&content(&small())).len() as u64, expected));

    let many =
        Features { predictions: 5, masked_lm_positions: vec![1; 5], masked_lm_ids: vec![9; 5], ..small() };
    let many = problem(&framed(&content(&Features { masked_lm_weights: vec![1.0; 5], ..many }))).2;
    assert_eq!(many.to_string(), "the sequence has 4 tokens, which is less than its 5 predictions");

    assert!(matches!(problem(&framed(b"no message")).2, RecordProblem::NotAnExample(_)));
    assert_eq!(problem(&framed(b"")).2, RecordProblem::MissingFeature("input_ids"));

    // The same message with other names, wherever they stand in it.
    let renamed = |from: &str, to: &str| {
        let mut bytes = content(&small());
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect(from);
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    let unlabelled = framed(&renamed("next_sentence_labels", "next_sentence_lobels"));
    assert_eq!(problem(&unlabelled).2, RecordProblem::MissingFeature("next_sentence_labels"));
    let features = read_records("file", &unlabelled, false).expect("labels are not needed");
    assert_eq!(features.next_sentence_labels, [0]);
    let without = framed(&renamed("masked_lm_weights", "masked_lm_weighty"));
    assert_eq!(problem(&without).2, RecordProblem::MissingFeature("masked_lm_weights"));
}

/// Lists of numbers may also come one by one, each with its own key.
#[test]
fn unpacked_lists_are_read() {
    let packed = content(&small());
    // input_mask's list: key 10, length 4, four ones; unpacked: four times key 8, one.
    let list = [0x1a, 0x06, 0x0a, 0x04, 1, 1, 1, 1];
    let at = packed.windows(list.len()).position(|window| window == list).expect("the packed mask");
    let unpacked_list = [0x1a, 0x08, 8, 1, 8, 1, 8, 1, 8, 1];
    let mut bytes = [&packed[..at], &unpacked_list, &packed[at + list.len()..]].concat();
    // The lengths around it: of the feature, of the map's entry, of the message.
    for (offset, grown) in [(at - 1, 2), (at - 15, 2), (1, 2)] {
        bytes[offset] += grown;
    }
    same(&read_records("unpacked", &framed(&bytes), true).expect("a record"), &small());
}

/// Features are a map, whose order is not defined.
#[test]
fn features_come_in_any_order() {
    let content = content(&small());
    // A message's key and length, both below 128 here but for the outer length of two bytes; then an entry's each.
    assert!(content[0] == 0x0a && content[1] >= 0x80 && content[2] < 0x80);
    let (head, mut rest) = content.split_at(3);
    let mut entries = Vec::new();
    while let [0x0a, length, ..] = rest {
        let (entry, others) = rest.split_at(2 + usize::from(*length));
        entries.push(entry);
        rest = others;
    }
    assert!(entries.len() == 7 && rest.is_empty());
    for turn in 0..7 {
        entries.rotate_left(1);
        entries.swap(turn, 6 - turn);
        let bytes = [head, &entries.concat()].concat();
        same(&read_records("turned", &framed(&bytes), true).expect("a record"), &small());
    }
}
