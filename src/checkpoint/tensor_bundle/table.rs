//! The sorted table in an `.index` file, as LevelDB lays it out: blocks of keys and values, an index block that says
//! where those are, and a footer that says where the index block is.
//!
//! Within a block a key is stored as the count of bytes it shares with the key before, and the rest. Behind every block
//! stand a byte that tells its compression and the masked CRC-32C of both.

use prost::encoding::decode_varint;

use super::error::IndexProblem;
use crate::data::masked_crc;

/// Where two block handles stand, padded with zeros, before the magic number.
const FOOTER: usize = 48;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// Compression and checksum behind a block.
const TRAILER: usize = 5;
/// Keys in a row that may share their start; writers put a whole key at least so often.
const RESTART_INTERVAL: usize = 16;

/// Keys in ascending order, each with its value.
pub type Entries<'table> = Vec<(Vec<u8>, &'table [u8])>;

/// All keys and values of a table. What it allocates stays within a small multiple of `bytes`.
pub fn read(bytes: &[u8]) -> Result<Entries<'_>, IndexProblem> {
    let footer = bytes.len().checked_sub(FOOTER).ok_or(IndexProblem::NoTable)?;
    let (mut handles, magic) = bytes[footer..].split_at(FOOTER - 8);
    if magic != MAGIC.to_le_bytes() {
        return Err(IndexProblem::NoTable);
    }
    // The first is that of a block about the blocks, which TensorFlow leaves empty.
    handle(&mut handles).ok_or(IndexProblem::Footer)?;
    let index = handle(&mut handles).ok_or(IndexProblem::Footer)?;
    let mut entries = Entries::new();
    // Shared starts could make keys that are longer than the file by far.
    let mut room = bytes.len().saturating_mul(RESTART_INTERVAL);
    let mut end = 0;
    for (_, mut value) in parse(bytes, index, &mut room)? {
        let unsound = IndexProblem::Block { at: index.0 };
        let data = handle(&mut value).filter(|(at, _)| *at >= end).ok_or(unsound)?;
        end = data.0.saturating_add(data.1);
        let block = parse(bytes, data, &mut room)?;
        if let (Some((last, _)), Some((first, _))) = (entries.last(), block.first())
            && last >= first
        {
            return Err(IndexProblem::Block { at: data.0 });
        }
        entries.extend(block);
    }
    Ok(entries)
}

/// Offset and size of a block.
type Handle = (u64, u64);

fn handle(bytes: &mut &[u8]) -> Option<Handle> {
    Some((decode_varint(bytes).ok()?, decode_varint(bytes).ok()?))
}

/// The entries of a block. Takes the length of their keys from `room`.
fn parse<'table>(
    bytes: &'table [u8],
    handle: Handle,
    room: &mut usize,
) -> Result<Entries<'table>, IndexProblem> {
    entries(block(bytes, handle)?, room).ok_or(IndexProblem::Block { at: handle.0 })
}

/// The content of a block, its checksum compared.
fn block(bytes: &[u8], (at, size): Handle) -> Result<&[u8], IndexProblem> {
    let sealed = || {
        let (start, size) = (usize::try_from(at).ok()?, usize::try_from(size).ok()?);
        bytes.get(start..)?.get(..size.checked_add(TRAILER)?)?.split_at_checked(size + 1)
    };
    let Some((sealed, checksum)) = sealed() else {
        return Err(IndexProblem::Cut { at, size, length: bytes.len() });
    };
    if checksum != masked_crc(sealed).to_le_bytes() {
        return Err(IndexProblem::Checksum { at });
    }
    match sealed.split_last() {
        Some((0, content)) => Ok(content),
        Some((1, _)) => Err(IndexProblem::Compressed { at, by: "Snappy" }),
        _ => Err(IndexProblem::Compressed { at, by: "an unknown method" }),
    }
}

fn entries<'table>(block: &'table [u8], room: &mut usize) -> Option<Entries<'table>> {
    // The last word counts the restarts, whose offsets stand before it; only a search needs them.
    let restarts = u32::from_le_bytes(*block.last_chunk()?);
    let offsets = usize::try_from(restarts).ok()?.checked_add(1)?.checked_mul(4)?;
    let mut rest = block.get(..block.len().checked_sub(offsets)?)?;
    let mut entries = Entries::new();
    while !rest.is_empty() {
        let mut next = || decode_varint(&mut rest).ok().and_then(|number| usize::try_from(number).ok());
        let (shared, unshared, length) = (next()?, next()?, next()?);
        let (tail, behind) = rest.split_at_checked(unshared)?;
        let (value, behind) = behind.split_at_checked(length)?;
        rest = behind;
        let last: Option<&[u8]> = entries.last().map(|(key, _): &(Vec<u8>, _)| key.as_slice());
        let start = last.unwrap_or_default().get(..shared)?;
        *room = room.checked_sub(shared + unshared)?;
        let key = [start, tail].concat();
        if last.is_some_and(|last| last >= key.as_slice()) {
            return None;
        }
        entries.push((key, value));
    }
    Some(entries)
}
