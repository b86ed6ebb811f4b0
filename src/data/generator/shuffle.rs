//! Instances in random order, however many: each has a random key, by whose first bits it goes into a bucket that fits
//! in memory; the buckets, sorted one by one, are all instances in the order of their keys. So the order depends on
//! neither the number of buckets nor the order in which instances arrive.

use super::disk::Disk;
use super::ids::IdWidth;
use super::spill::Spill;
use crate::data::Error;
use crate::data::instances::InstanceView;

/// Bytes a bucket aims at.
const BUCKET: u64 = 1 << 20;
/// A bucket's bytes go to disk in pieces, each with the address of the piece before it in front. Those in memory, one of
/// each bucket, are together no more than this, and the more buckets there are the smaller.
const PIECES: usize = 16 << 20;
const SMALLEST_PIECE: usize = 1 << 10;
const LARGEST_PIECE: usize = 8 << 10;
/// Bytes of an address.
const ADDRESS: usize = 8;
const NO_PIECE: u64 = u64::MAX;

pub(super) struct Shuffler {
    spill: Spill,
    buckets: Vec<Bucket>,
    /// The pieces at hand, one after another, each with room for an address in front.
    pieces: Vec<u8>,
    piece: usize,
}

#[derive(Clone)]
struct Bucket {
    instances: u64,
    /// Bytes in pieces on disk, and the last of these.
    written: u64,
    last_piece: u64,
    /// Bytes of the piece at hand.
    filled: usize,
}

impl Shuffler {
    /// For about `bytes` bytes of instances; what does not stay in memory goes to `disk`.
    pub(super) fn new(disk: &Disk, bytes: u64) -> Self {
        let buckets = bytes.div_ceil(BUCKET).clamp(1, (PIECES / SMALLEST_PIECE) as u64) as usize;
        let piece = (PIECES / buckets).clamp(SMALLEST_PIECE, LARGEST_PIECE);
        let bucket = Bucket { instances: 0, written: 0, last_piece: NO_PIECE, filled: ADDRESS };
        let (buckets, pieces) = (vec![bucket; buckets], vec![0; buckets * piece]);
        Self { spill: Spill::new(disk), buckets, pieces, piece }
    }

    /// Number of buckets.
    pub(super) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Adds the entries in `bytes`.
    pub(super) fn append(&mut self, bytes: &[u8], width: IdWidth) -> Result<(), Error> {
        for entry in entries(bytes, width) {
            let number = ((u128::from(entry.key) * self.buckets.len() as u128) >> 64) as usize;
            let bucket = &mut self.buckets[number];
            let piece = &mut self.pieces[number * self.piece..][..self.piece];
            bucket.instances += 1;
            let mut rest = entry.bytes;
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(piece.len() - bucket.filled));
                piece[bucket.filled..][..now.len()].copy_from_slice(now);
                bucket.filled += now.len();
                rest = later;
                if bucket.filled == piece.len() {
                    piece[..ADDRESS].copy_from_slice(&bucket.last_piece.to_le_bytes());
                    bucket.last_piece = self.spill.len();
                    bucket.written += (piece.len() - ADDRESS) as u64;
                    self.spill.append(piece)?;
                    bucket.filled = ADDRESS;
                }
            }
        }
        Ok(())
    }

    /// How many instances a bucket has.
    pub(super) fn instances_of(&self, bucket: usize) -> u64 {
        self.buckets[bucket].instances
    }

    /// How many instances there are in the buckets before each one.
    #[cfg(not(target_family = "wasm"))]
    pub(super) fn starts(&self) -> Vec<u64> {
        let counts = self.buckets.iter().map(|bucket| bucket.instances);
        counts.scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count))).collect()
    }

    pub(super) fn instances(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.instances).sum()
    }

    /// The entries of a bucket, in any order.
    pub(super) fn bucket(&self, number: usize) -> Result<Vec<u8>, Error> {
        let bucket = &self.buckets[number];
        let mut bytes = vec![0; bucket.written as usize];
        // Entries may lie across pieces, so these go back where they were.
        let (mut end, mut at) = (bytes.len(), bucket.last_piece);
        let mut piece = vec![0; self.piece];
        while at != NO_PIECE {
            self.spill.read_at(at, &mut piece)?;
            let start = end - (piece.len() - ADDRESS);
            bytes[start..end].copy_from_slice(&piece[ADDRESS..]);
            end = start;
            at = (0..ADDRESS).rev().fold(0, |number, byte| number << 8 | u64::from(piece[byte]));
        }
        bytes.extend_from_slice(&self.pieces[number * self.piece..][ADDRESS..bucket.filled]);
        Ok(bytes)
    }
}

/// The entries in `bytes`, in the order of their keys.
pub(super) fn sorted(bytes: &[u8], width: IdWidth) -> Vec<Entry<'_>> {
    let mut sorted: Vec<_> = entries(bytes, width).collect();
    // The rest decides between equal keys.
    sorted.sort_unstable_by(|a, b| a.key.cmp(&b.key).then_with(|| a.bytes.cmp(b.bytes)));
    sorted
}

/// Bytes of an entry's numbers before its ids.
const HEADER: usize = 20;
const RANDOM_NEXT: u32 = 1 << 31;

/// An instance with its key, as bytes.
pub(super) struct Entry<'a> {
    pub(super) key: u64,
    pub(super) bytes: &'a [u8],
}

/// Appends an entry: key, number of tokens, of those in `[CLS] A [SEP]` and of masked ones, then tokens, and positions
/// and tokens of the masked ones.
pub(super) fn write_entry(key: u64, instance: InstanceView, width: IdWidth, bytes: &mut Vec<u8>) {
    let random_next = if instance.is_random_next { RANDOM_NEXT } else { 0 };
    bytes.extend_from_slice(&key.to_le_bytes());
    for number in [
        instance.tokens.len() as u32,
        instance.first_length as u32,
        instance.masked.len() as u32 | random_next,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    width.write(instance.tokens, bytes);
    for &(position, id) in instance.masked {
        width.write(&[position, id], bytes);
    }
}

/// The entries one after another.
fn entries(mut bytes: &[u8], width: IdWidth) -> impl Iterator<Item = Entry<'_>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let [tokens, _, masked] = numbers(bytes);
        let ids = (tokens + 2 * (masked & !RANDOM_NEXT)) as usize;
        let (entry, rest) = bytes.split_at(HEADER + ids * width.bytes());
        bytes = rest;
        let key = (0..8).rev().fold(0, |number, byte| number << 8 | u64::from(entry[byte]));
        Some(Entry { key, bytes: entry })
    })
}

fn numbers(entry: &[u8]) -> [u32; 3] {
    [8, 12, 16].map(|at| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]))
}

/// Memory for an entry's ids.
#[derive(Default)]
pub(super) struct Scratch {
    ids: Vec<u32>,
    masked: Vec<(u32, u32)>,
}

impl Scratch {
    /// The instance of an entry's bytes.
    pub(super) fn read(&mut self, entry: &[u8], width: IdWidth) -> InstanceView<'_> {
        let [tokens, first_length, masked] = numbers(entry);
        self.ids.clear();
        width.read(&entry[HEADER..], &mut self.ids);
        let (tokens, pairs) = self.ids.split_at(tokens as usize);
        self.masked.clear();
        self.masked.extend(pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])));
        InstanceView {
            tokens,
            first_length: first_length as usize,
            masked: &self.masked,
            is_random_next: masked & RANDOM_NEXT != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_take_as_much_memory_for_any_number_of_buckets() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [1, 50 << 20, 3 << 30, 1 << 50] {
            let mut shuffler = Shuffler::new(&Disk::at(folder.path()), bytes);
            assert!(shuffler.pieces.len() <= PIECES, "{bytes}");
            // Half of them in the first bucket, on disk by the end, and some in all others.
            let (mut written, mut sum) = (Vec::new(), 0u64);
            for n in 0..4000u64 {
                let key = if n % 2 == 0 { n } else { n.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
                let tokens = vec![n as u32; 5 + n as usize % 90];
                let instance = InstanceView {
                    tokens: &tokens,
                    first_length: 3,
                    masked: &[(1, 7)],
                    is_random_next: false,
                };
                write_entry(key, instance, IdWidth::Two, &mut written);
                sum += n;
            }
            shuffler.append(&written, IdWidth::Two).unwrap();
            let (mut scratch, mut count) = (Scratch::default(), 0);
            for bucket in 0..shuffler.buckets() {
                let bytes = shuffler.bucket(bucket).unwrap();
                let entries = sorted(&bytes, IdWidth::Two);
                assert_eq!(entries.len() as u64, shuffler.instances_of(bucket));
                for entry in entries {
                    let instance = scratch.read(entry.bytes, IdWidth::Two);
                    let n = instance.tokens[0];
                    assert!(instance.tokens.iter().all(|&token| token == n) && instance.masked == [(1, 7)]);
                    assert_eq!(instance.tokens.len(), 5 + n as usize % 90);
                    (count, sum) = (count + 1, sum - u64::from(n));
                }
            }
            assert_eq!((count, sum), (4000, 0));
        }
    }
}
