//! Reading anywhere in a file that others read too.

use std::fs::File;
use std::io;

/// Fills `into` with the bytes from `at` on.
#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at)
}

/// Fills `into` with the bytes from `at` on.
#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
    while !into.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, into, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                into = &mut into[read..];
                at += read as u64;
            }
        }
    }
    Ok(())
}
