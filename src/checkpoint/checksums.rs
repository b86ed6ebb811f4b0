//! Checksums of the files of a folder, in one beside them that `sha256sum -c` reads. They tell of a disk that forgot.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::CheckpointError;
use super::storage::io_error;

/// The file's name.
pub(super) const SUMS: &str = "SHA256SUMS";

pub(super) fn checksum(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}"); // A string takes all.
    }
    text
}

/// What the file says of others.
pub(super) fn list<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    files.into_iter().map(|(name, bytes)| format!("{}  {name}\n", checksum(bytes))).collect()
}

/// A file, where it is there. One that the list beside it has a checksum of must be what was written.
///
/// # Errors
/// [`CheckpointError::Changed`] or [`CheckpointError::Io`].
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, CheckpointError> {
    let Some(bytes) = optional(path)? else { return Ok(None) };
    // A list that is none, be it of another program, says nothing.
    let sums =
        String::from_utf8(optional(&path.with_file_name(SUMS))?.unwrap_or_default()).unwrap_or_default();
    let mut sums = sums.lines().filter_map(|line| line.split_once("  "));
    match sums.find(|(_, name)| path.file_name().is_some_and(|file| file == *name)) {
        Some((sum, _)) if checksum(&bytes) != sum => Err(CheckpointError::Changed { path: path.into() }),
        _ => Ok(Some(bytes)),
    }
}

fn optional(path: &Path) -> Result<Option<Vec<u8>>, CheckpointError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}
