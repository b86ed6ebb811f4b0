//! Where intermediate data lies: in files without names in a folder, which the system removes however the program ends.

use crate::data::Error;
use crate::data::read_at::read_exact_at;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A folder with room for intermediate data.
#[derive(Clone)]
pub struct Disk(PathBuf);

impl Disk {
    /// The disk of a folder.
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Makes a file.
    pub(super) fn create(&self) -> io::Result<DiskFile> {
        tempfile::tempfile_in(&self.0).map(DiskFile)
    }

    /// Bytes that it has room for, if it tells.
    pub(super) fn free(&self) -> Option<u64> {
        fs4::available_space(&self.0).ok()
    }

    /// What it is called in messages.
    pub(super) fn name(&self) -> String {
        format!("the disk of {}", self.0.display())
    }

    pub(super) fn failed(&self, error: io::Error) -> Error {
        Error::Spill { folder: self.0.clone(), error }
    }
}

/// A file that only this program knows.
pub(super) struct DiskFile(File);

impl DiskFile {
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Fills `into` with the bytes from `at` on.
    pub(super) fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        read_exact_at(&self.0, into, at)
    }
}
