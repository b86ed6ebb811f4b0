//! A file of records, read from its start or anywhere.

use crate::data::generator::Counted;
#[cfg(target_family = "wasm")]
use crate::data::host::HostFile;
#[cfg(not(target_family = "wasm"))]
use crate::data::read_at::read_exact_at;
use crate::data::{Error, RecordReader};
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Bytes read at once from its start.
const BUFFER: usize = 1 << 20;

/// A file of records, plain or gzip, told apart by content.
#[cfg(not(target_family = "wasm"))]
#[derive(Clone, Debug, PartialEq)]
pub struct RecordFile(std::path::PathBuf);

/// A file of records of the page, plain or gzip, told apart by content.
#[cfg(target_family = "wasm")]
pub type RecordFile = HostFile;

impl RecordFile {
    /// All of them, for errors.
    pub(super) fn name_all(files: &[Self]) -> String {
        match files {
            [] => "no file".into(),
            [one] => one.name(),
            [first, rest @ ..] => format!("{} and {} more", first.name(), rest.len()),
        }
    }

    /// Its records from the first on; adds to `read` what is read of it.
    pub(super) fn records(&self, read: &Arc<AtomicU64>) -> Result<RecordReader<'static>, Error> {
        let failed = |error| Error::Read { path: self.name().into(), error };
        let reader = Counted { reader: self.open().map_err(failed)?, read: read.clone() };
        let bytes = BufReader::with_capacity(BUFFER, reader);
        RecordReader::new(&self.name(), bytes).map_err(failed)
    }
}

#[cfg(not(target_family = "wasm"))]
impl<P: Into<std::path::PathBuf>> From<P> for RecordFile {
    fn from(path: P) -> Self {
        Self(path.into())
    }
}

#[cfg(not(target_family = "wasm"))]
impl RecordFile {
    pub(super) fn name(&self) -> String {
        self.0.display().to_string()
    }

    /// How long it is, where that is known beforehand.
    pub(super) fn length(&self) -> Option<u64> {
        std::fs::metadata(&self.0).ok().map(|file| file.len())
    }

    fn open(&self) -> io::Result<impl Read + Send + use<>> {
        std::fs::File::open(&self.0)
    }

    /// Fills `into` with the bytes from `at` on.
    pub(super) fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        read_exact_at(&std::fs::File::open(&self.0)?, into, at)
    }
}

#[cfg(target_family = "wasm")]
impl RecordFile {
    pub(super) fn name(&self) -> String {
        self.name.clone()
    }

    /// How long it is.
    pub(super) fn length(&self) -> Option<u64> {
        Some(self.bytes())
    }

    fn open(&self) -> io::Result<impl Read + Send + use<>> {
        Ok(self.reader())
    }
}
