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
    /// Opens all files under names of their own, with `.partial` behind; what an interrupted run left there is replaced,
    /// and what another run is writing is left to it.
    pub(super) fn create(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut output = Self { files: Vec::new() };
        for path in paths {
            if path.is_dir() {
                let error = io::Error::from(io::ErrorKind::IsADirectory);
                return Err(Error::Write { path: path.clone(), error });
            }
            output.files.push((path.clone(), open(path)?));
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
        while let Some((path, _)) = self.files.first() {
            // Locked until it bears its name, lest another run takes it for its own.
            fs::rename(partial(path), path).map_err(failed(path))?;
            self.files.remove(0);
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        for (path, _) in &self.files {
            // Nothing can be done about it, and the next run replaces it.
            let _ = fs::remove_file(partial(path));
        }
    }
}

/// Opens and locks the file in which `path` comes about. Where the file system knows no locks, nothing is locked.
fn open(path: &Path) -> Result<File, Error> {
    loop {
        let file = File::options().write(true).create(true).truncate(false).open(partial(path));
        let file = file.map_err(failed(path))?;
        if let Err(fs4::TryLockError::WouldBlock) = fs4::FileExt::try_lock(&file) {
            return Err(Error::OutputInUse { path: path.to_owned() });
        }
        // Another run may have given it its name between the two.
        if is_at(&file, &partial(path)) {
            file.set_len(0).map_err(failed(path))?;
            return Ok(file);
        }
    }
}

/// Whether an open file is the one of that name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    fs::metadata(path).is_ok_and(|named| file.metadata().is_ok_and(|open| place(open) == place(named)))
}

/// Elsewhere the name must do.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
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
