//! Files that are no text: they would become examples of nothing.

use super::Error;

/// Looks at the first bytes of a file.
///
/// # Errors
/// [`Error::NotText`] where more than three in ten of them are none of a text in UTF-8: zeros, or invalid.
pub(super) fn check(origin: &str, bytes: &[u8]) -> Result<(), Error> {
    let (mut strange, mut first, mut at) = (0, bytes.len(), 0);
    for chunk in bytes.utf8_chunks() {
        for (offset, _) in chunk.valid().bytes().enumerate().filter(|(_, byte)| *byte == 0) {
            strange += 1;
            first = first.min(at + offset);
        }
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() {
            strange += chunk.invalid().len();
            first = first.min(at);
        }
        at += chunk.invalid().len();
    }
    match strange * 10 > bytes.len() * 3 {
        true => Err(Error::NotText { origin: origin.into(), offset: first, strange, bytes: bytes.len() }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        let told = |bytes: &[u8]| check("a file", bytes).err().map(|error| error.to_string());
        assert_eq!(told("naïve café\n".as_bytes()), None);
        assert_eq!(told(b"a caf\xe9 in another encoding\n"), None);
        assert_eq!(told(b""), None);
        assert_eq!(told(b"a zero\0is dropped\n"), None);
        // "да, это" in Windows-1251.
        let other = told(b"a \xe4\xe0, \xfd\xf2\xee").unwrap();
        assert!(other.starts_with("a file: this is no text in UTF-8: 5 of its first 9 bytes"), "{other}");
        assert!(other.contains("from byte 2 on"), "{other}");
        // In UTF-16 every second byte is zero.
        assert!(told(&"text".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()).is_some());
        // Bytes as they come from a random generator, none of them zero.
        let random: Vec<u8> = (1..5000u64).map(|n| ((n * n * 0x9e37_79b9) >> 13) as u8 | 1).collect();
        assert!(told(&random).is_some());
    }
}
