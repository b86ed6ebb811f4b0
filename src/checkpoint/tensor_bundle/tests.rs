//! Indices that TensorFlow would not write.

use std::io::Cursor;

use prost::Message;
use prost::encoding::encode_varint;

use super::proto::{BundleEntry, BundleHeader, Dim, TensorShape, TensorSlice};
use super::*;

/// Appends a block of this content and gives its handle.
fn seal(table: &mut Vec<u8>, content: &[u8], compression: u8) -> Vec<u8> {
    let mut handle = Vec::new();
    encode_varint(table.len() as u64, &mut handle);
    encode_varint(content.len() as u64, &mut handle);
    let sealed = [content, &[compression]].concat();
    table.extend_from_slice(&sealed);
    table.extend_from_slice(&masked_crc(&sealed).to_le_bytes());
    handle
}

/// The content of a block: for each entry the bytes its key shares with the one before, the rest, and its value.
fn block(entries: &[(usize, &[u8], &[u8])]) -> Vec<u8> {
    let mut content = Vec::new();
    for (shared, key, value) in entries {
        for number in [*shared, key.len(), value.len()] {
            encode_varint(number as u64, &mut content);
        }
        content.extend_from_slice(key);
        content.extend_from_slice(value);
    }
    content.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]); // One restart, at the first entry.
    content
}

fn table_of(blocks: &[Vec<u8>], compression: u8) -> Vec<u8> {
    let mut table = Vec::new();
    let handles: Vec<_> = blocks.iter().map(|block| seal(&mut table, block, compression)).collect();
    finish(table, &handles)
}

/// Adds an index of the blocks and the footer.
fn finish(mut table: Vec<u8>, handles: &[Vec<u8>]) -> Vec<u8> {
    let keys: Vec<_> = (0..handles.len()).map(|number| (number as u32).to_be_bytes()).collect();
    let entries: Vec<_> =
        keys.iter().zip(handles).map(|(key, handle)| (0, &key[..], handle.as_slice())).collect();
    let meta = seal(&mut table, &block(&[]), 0);
    let index = seal(&mut table, &block(&entries), 0);
    let mut footer = [meta, index].concat();
    footer.resize(40, 0);
    footer.extend_from_slice(&0xdb47_7524_8b80_fb57_u64.to_le_bytes());
    [table, footer].concat()
}

fn bundle(index: &[u8], data: &[u8]) -> Result<TensorBundle<Cursor<Vec<u8>>>, CheckpointError> {
    TensorBundle::read(index, "m.ckpt", |_| Ok(Cursor::new(data.to_vec())))
}

#[track_caller]
fn refused(index: &[u8], told: &str) {
    let error = bundle(index, &[]).unwrap_err().to_string();
    assert_eq!(error, format!("m.ckpt.index cannot be read as the index of a TensorFlow checkpoint: {told}"));
}

fn header() -> Vec<u8> {
    BundleHeader { num_shards: 1, endianness: 0 }.encode_to_vec()
}

fn entry(dims: &[i64], size: i64, change: impl Fn(&mut BundleEntry)) -> Vec<u8> {
    let shape = TensorShape { dim: dims.iter().map(|size| Dim { size: *size }).collect() };
    let mut entry = BundleEntry { dtype: dtype::FLOAT, shape: Some(shape), size, ..BundleEntry::default() };
    change(&mut entry);
    entry.encode_to_vec()
}

#[test]
fn keys_that_share_their_start_are_whole_again() {
    let nothing = entry(&[0], 0, |_| {});
    let first = block(&[(0, b"", &header()), (0, b"layer_0/bias", &nothing), (6, b"1/bias", &nothing)]);
    let second = block(&[(0, b"layer_1/kernel", &nothing), (8, b"scale", &nothing)]);
    let read = bundle(&table_of(&[first, second], 0), &[]).unwrap();
    let keys: Vec<_> = read.tensors().map(|(key, _)| key).collect();
    assert_eq!(keys, ["layer_0/bias", "layer_1/bias", "layer_1/kernel", "layer_1/scale"]);
}

#[test]
fn what_cannot_be_read_here_is_told_by_name() {
    let sound = block(&[(0, b"", &header())]);
    bundle(&table_of(std::slice::from_ref(&sound), 0), &[]).unwrap();
    let unpack = "load it in TensorFlow and save it again, uncompressed";
    for (compression, by) in [(1, "Snappy"), (7, "an unknown method")] {
        let told = format!("the block at byte 0 is compressed by {by}: {unpack}");
        refused(&table_of(std::slice::from_ref(&sound), compression), &told);
    }
    let big = BundleHeader { num_shards: 1, endianness: 1 }.encode_to_vec();
    refused(
        &table_of(&[block(&[(0, b"", &big)])], 0),
        "its numbers are big-endian: load it in TensorFlow and save it again on a little-endian machine",
    );
}

#[test]
fn sound_checksums_do_not_make_sense_of_nonsense() {
    let header = header();
    let nothing = entry(&[0], 0, |_| {});
    refused(&table_of(&[], 0), "it has no header");
    refused(&table_of(&[block(&[(0, b"a", &nothing)])], 0), "it has no header");
    refused(&table_of(&[block(&[(0, b"", b"\xff")])], 0), "it has no header");
    let in_block = "the block at byte 0 is no list of keys in order";
    // Keys that shrink, come twice or share what is not there; sizes beyond the block; no restarts.
    for entries in [
        &[(0, &b""[..], &header[..]), (0, b"b", &nothing), (0, b"a", &nothing)][..],
        &[(0, b"", &header), (0, b"a", &nothing), (1, b"", &nothing)],
        &[(0, b"", &header), (3, b"a", &nothing)],
        &[(1, b"", &header)],
    ] {
        refused(&table_of(&[block(entries)], 0), in_block);
    }
    refused(&table_of(&[vec![0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0]], 0), in_block);
    refused(&table_of(&[vec![]], 0), in_block);
    refused(&table_of(&[vec![0xff; 4]], 0), in_block);
    // Blocks in another order than their keys, and one block listed over and over.
    let first = block(&[(0, b"", &header), (0, b"b", &nothing)]);
    let length = first.len() as u64 + 5;
    refused(
        &table_of(&[first.clone(), block(&[(0, b"a", &nothing)])], 0),
        &format!("the block at byte {length} is no list of keys in order"),
    );
    let mut table = Vec::new();
    let handle = seal(&mut table, &first, 0);
    let index = table.len() as u64 + block(&[]).len() as u64 + 5;
    refused(
        &finish(table.clone(), &[handle.clone(), handle]),
        &format!("the block at byte {index} is no list of keys in order"),
    );
    let outside = [0xff, 0xff, 0xff, 0xff, 0x0f, 3];
    let bytes = finish(table, &[outside.to_vec()]);
    let told = format!("3 bytes are expected from byte 4294967295 on, but the file has {}", bytes.len());
    refused(&bytes, &told);
    let mut footer = bytes.clone();
    let at = footer.len() - 48;
    footer[at..at + 40].fill(0xff);
    refused(&footer, "its last 48 bytes are damaged");
}

#[test]
fn entries_must_fit_together() {
    let of = |entry: &[u8]| table_of(&[block(&[(0, b"", &header()), (0, b"x", entry)])], 0);
    for entry in [
        entry(&[-1], 4, |_| {}),
        entry(&[2], 4, |_| {}),
        entry(&[i64::MAX, i64::MAX, 4], 16, |_| {}),
        entry(&[1 << 62], 0, |_| {}),
        entry(&[1], 4, |entry| entry.offset = -1),
        entry(&[], -4, |_| {}),
        entry(&[1], 4, |entry| entry.shard_id = 1),
        entry(&[1], 4, |entry| entry.shard_id = -1),
        b"\xff".to_vec(),
    ] {
        refused(&of(&entry), "what it says of tensor x makes no sense");
    }
    // Where a file should be as long as can be told, it is not.
    let far = entry(&[1], 4, |entry| entry.offset = i64::MAX);
    let error = bundle(&of(&far), &[0; 8]).unwrap_err().to_string();
    let told = "tensor x ends at byte 9223372036854775811, but the file has 8: it was cut off";
    assert_eq!(error, format!("m.ckpt.data-00000-of-00001: {told}"));
    // A tensor in pieces needs no bytes of its own.
    let pieces = entry(&[9], 0, |entry| entry.slices = vec![TensorSlice {}; 3]);
    let mut pieces = bundle(&of(&pieces), &[]).unwrap();
    assert!(pieces.f32("x").unwrap_err().to_string().contains("was saved in 3 slices"));
}

#[test]
fn keys_cannot_grow_beyond_the_file() {
    // Each key is the one before and a letter more: n entries of five bytes would make n²/2 bytes of keys.
    let nothing: &[u8] = &[];
    let entries: Vec<_> = (0..4000).map(|number| (number, &b"a"[..], nothing)).collect();
    refused(&table_of(&[block(&entries)], 0), "the block at byte 0 is no list of keys in order");
}

#[test]
fn lists_of_objects_have_checksums_too() {
    let text = b"\x0a\x00"; // A single object.
    let length = 2_u32.to_le_bytes();
    let checksum = masked_crc(&length).to_le_bytes();
    let data = [&[2], &checksum[..], text].concat();
    let crc = masked_crc(&[&length, &checksum[..], text].concat());
    let index = |change: &dyn Fn(&mut BundleEntry)| {
        let entry = entry(&[], data.len() as i64, |entry| {
            (entry.dtype, entry.crc32c) = (dtype::STRING, crc);
            change(entry);
        });
        table_of(&[block(&[(0, b"", &header()), (0, OBJECT_GRAPH.as_bytes(), &entry)])], 0)
    };
    let graph = |index: &[u8], data: &[u8]| bundle(index, data).and_then(|mut bundle| bundle.object_graph());
    assert_eq!(graph(&index(&|_| {}), &data).unwrap().unwrap().nodes().count(), 1);
    for at in 0..data.len() {
        let mut data = data.clone();
        data[at] ^= 1;
        assert!(graph(&index(&|_| {}), &data).is_err(), "byte {at}");
    }
    let changes: [fn(&mut BundleEntry); 4] = [
        |entry| entry.crc32c ^= 1,
        |entry| entry.dtype = 3,
        |entry| entry.size -= 1,
        |entry| entry.shape = Some(TensorShape { dim: vec![Dim { size: 1 }] }),
    ];
    for change in changes {
        assert!(graph(&index(&change), &data).is_err());
    }
}
