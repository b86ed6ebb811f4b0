//! The files of records, which bear their names only once they are complete.

use crate::data::Error;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Files under way; dropped before they are complete, they are removed.
pub(super) struct Output {
    files: Vec<(PathBuf, File)>,
}

impl Output {
    /// Opens all files under names of their own, with `.partial` behind; what an interrupted run left there is replaced.
    pub(super) fn create(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut output = Self { files: Vec::new() };
        for path in paths {
            if path.is_dir() {
                let error = io::Error::from(io::ErrorKind::IsADirectory);
                return Err(Error::Write { path: path.clone(), error });
            }
            let file = File::create(partial(path)).map_err(failed(path))?;
            output.files.push((path.clone(), file));
        }
        Ok(output)
    }

    pub(super) fn append(&mut self, file: usize, bytes: &[u8]) -> Result<(), Error> {
        let (path, file) = &mut self.files[file];
        file.write_all(bytes).map_err(failed(path))
    }

    /// Gives the files their names.
    pub(super) fn commit(mut self) -> Result<(), Error> {
        // Not forced onto the disk first, which would take as long as everything before: should the power fail, the
        // records' checksums tell.
        for (path, file) in std::mem::take(&mut self.files) {
            // An open file cannot be renamed everywhere.
            drop(file);
            fs::rename(partial(&path), &path).map_err(failed(&path))?;
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        for (path, file) in std::mem::take(&mut self.files) {
            drop(file);
            // Nothing can be done about it, and the next run replaces it.
            let _ = fs::remove_file(partial(&path));
        }
    }
}

fn partial(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    name.into()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    |error| Error::Write { path, error }
}
