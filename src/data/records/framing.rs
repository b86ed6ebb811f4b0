//! The frame around each record: its length (u64, little-endian), the masked CRC-32C of those 8 bytes, the record, and
//! the masked CRC-32C of the record.

/// Bytes before a record: its length and their checksum.
pub(super) const HEADER: usize = 12;
/// Bytes behind it: its checksum.
pub(super) const FOOTER: usize = 4;

/// CRC-32C, rotated and shifted so that a checksum of data that holds checksums is still good.
pub(crate) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Does a record's length with its checksum stand at the start?
pub(super) fn starts_with_record(bytes: &[u8]) -> bool {
    bytes.get(..8).is_some_and(|length| word(bytes, 8) == Some(masked_crc(length)))
}

/// Append a record in its frame.
pub(crate) fn append(bytes: &mut Vec<u8>, record: &[u8]) {
    let length = (record.len() as u64).to_le_bytes();
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&masked_crc(&length).to_le_bytes());
    bytes.extend_from_slice(record);
    bytes.extend_from_slice(&masked_crc(record).to_le_bytes());
}
