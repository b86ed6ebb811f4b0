//! A folder that appears with all its files or not at all.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::CheckpointError;
use super::checksums::{self, SUMS};
use super::model_folder::WEIGHTS;
use super::storage::{io_error, sync_folder, write_durably};

/// A place for a folder: nothing is there, or an empty folder.
#[derive(Debug)]
pub struct NewFolder {
    path: PathBuf,
}

impl NewFolder {
    /// Looks at the place, and leaves it as it is.
    ///
    /// # Errors
    /// [`CheckpointError::NotEmpty`], or [`CheckpointError::Io`] for what is no folder.
    pub fn at(path: &Path) -> Result<Self, CheckpointError> {
        match fs::read_dir(path) {
            Ok(mut entries) => match entries.next() {
                Some(_) => Err(CheckpointError::NotEmpty { folder: path.into() }),
                // Where it really is: `.` has no name, and what is beside a link is on another disk, perhaps.
                None => Ok(Self { path: fs::canonicalize(path).map_err(io_error("open", path))? }),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self { path: path.into() }),
            Err(error) => Err(io_error("open the folder", path)(error)),
        }
    }

    /// Writes files, whose names may have folders in them, beside the place, and then gives the whole its name. A
    /// `model.safetensors` has its checksum beside it.
    ///
    /// # Errors
    /// [`CheckpointError::Io`]; nothing is left behind then.
    pub fn write(self, files: &[(&str, Vec<u8>)]) -> Result<(), CheckpointError> {
        let Self { path } = self;
        let parent = path.parent().filter(|parent| *parent != "").unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = parent.join(format!(".{name}.part"));
        let make = |folder: &Path| fs::create_dir_all(folder).map_err(io_error("make the folder", folder));
        let write = || {
            make(parent)?;
            // One that was killed may have left it.
            match fs::remove_dir_all(&unfinished) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(io_error("remove", &unfinished)(error));
                }
                _ => make(&unfinished)?,
            }
            for (name, bytes) in files {
                let file = unfinished.join(name);
                let folder = file.parent().unwrap_or(&unfinished);
                make(folder)?;
                write_durably(&file, bytes)?;
                sync_folder(folder)?;
            }
            // As beside the weights of any model.
            if let Some((name, bytes)) = files.iter().find(|(name, _)| *name == WEIGHTS) {
                let sums = checksums::list([(*name, bytes.as_slice())]);
                write_durably(&unfinished.join(SUMS), sums.as_bytes())?;
            }
            sync_folder(&unfinished)?;
            // Some systems rename to a name that is free only.
            match fs::remove_dir(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(io_error("write", &path)(error));
                }
                _ => fs::rename(&unfinished, &path).map_err(io_error("write", &path))?,
            }
            sync_folder(parent)
        };
        let written = write();
        if written.is_err() {
            let _ = fs::remove_dir_all(&unfinished); // The error on its way out says more.
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(name: &'static str) -> Vec<(&'static str, Vec<u8>)> {
        vec![("a.txt", b"a".to_vec()), (name, b"b".to_vec())]
    }

    fn write(path: &Path, files: &[(&str, Vec<u8>)]) -> Result<(), CheckpointError> {
        NewFolder::at(path)?.write(files)
    }

    /// Names of a folder's entries.
    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_appear_where_nothing_or_an_empty_folder_is() {
        let root = tempfile::tempdir().unwrap();
        let (free, empty) = (root.path().join("deep/free"), root.path().join("deep/empty"));
        // What a killed run left.
        fs::create_dir_all(root.path().join("deep/.free.part/b")).unwrap();
        fs::create_dir(&empty).unwrap();
        for path in [&free, &empty] {
            write(path, &files("b/c.txt")).unwrap();
            assert_eq!(names(path), ["a.txt", "b"]);
            assert_eq!(fs::read(path.join("b/c.txt")).unwrap(), b"b");
        }
        assert_eq!(names(&root.path().join("deep")), ["empty", "free"]);
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let (folder, file) = (root.path().join("folder"), root.path().join("folder/file"));
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "mine").unwrap();
        let message = |path: &Path| write(path, &files("b.txt")).unwrap_err().to_string();
        assert_eq!(message(&folder), format!("{} is not empty: choose another folder", folder.display()));
        assert!(message(&file).starts_with(&format!("cannot open the folder {}: ", file.display())));
        assert!(message(&file.join("below")).contains("below"), "{}", message(&file.join("below")));
        assert_eq!((names(&folder), fs::read(&file).unwrap()), (vec!["file".into()], b"mine".to_vec()));
    }

    #[test]
    fn a_write_that_fails_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        // A file stands where a folder is needed.
        let error = write(&root.path().join("new"), &files("a.txt/b.txt")).unwrap_err();
        assert!(matches!(error, CheckpointError::Io { .. }), "{error}");
        assert!(names(root.path()).is_empty());
        // Something came in meanwhile.
        let place = NewFolder::at(&root.path().join("new")).unwrap();
        fs::create_dir(root.path().join("new")).unwrap();
        fs::write(root.path().join("new/theirs"), "").unwrap();
        assert!(place.write(&files("b.txt")).is_err());
        assert_eq!(names(root.path()), ["new"]);
        assert_eq!(names(&root.path().join("new")), ["theirs"]);
    }
}
