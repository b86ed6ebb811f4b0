//! The checkpoints of a run on a disk:
//!
//! ```text
//! model_dir/checkpoint-1000/SHA256SUMS   what `sha256sum -c` reads, of the other files
//!                           …
//!           checkpoint-2000/…
//! ```
//!
//! A checkpoint is written beside its place, under a name that starts with a dot, and renamed when it is whole. So
//! whatever stops the program, a folder of this name is a whole checkpoint; the checksums tell of a disk that forgot.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::CheckpointError;
use super::checksums::{self, SUMS, checksum};
use super::storage::{io_error, sync_folder, write_durably};

const PREFIX: &str = "checkpoint-";
/// Before and behind the name of a checkpoint that is not whole: yet, or any more.
const UNFINISHED: [&str; 2] = [".", ".part"];

/// The folder of a run, claimed for writing: no other program writes to it as long as this lives. One that was made for
/// nothing goes with it.
pub struct RunFolder {
    path: PathBuf,
    is_new: bool,
    /// Locked, where the system can lock a folder.
    _lock: Option<File>,
}

impl RunFolder {
    /// Makes the folder where there is none, and removes what a killed run left unfinished.
    ///
    /// # Errors
    /// [`CheckpointError::InUse`] or [`CheckpointError::Io`].
    pub fn claim(path: &Path) -> Result<Self, CheckpointError> {
        let is_new = !path.exists();
        fs::create_dir_all(path).map_err(io_error("make the folder", path))?;
        let lock = lock(path)?;
        let folder = Self { path: path.to_owned(), is_new, _lock: lock };
        for entry in fs::read_dir(path).map_err(io_error("read", path))? {
            let entry = entry.map_err(io_error("read", path))?;
            let name = entry.file_name();
            let unfinished = name.to_str().and_then(|name| {
                let [before, behind] = UNFINISHED;
                step_of(name.strip_prefix(before)?.strip_suffix(behind)?)
            });
            let path = entry.path();
            // We make folders only; what else there may be is not ours.
            if unfinished.is_some() && path.is_dir() {
                fs::remove_dir_all(&path).map_err(io_error("remove", &path))?;
            }
        }
        Ok(folder)
    }

    /// The checkpoints in a folder, by their steps, the newest last. A folder that is not there has none.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn checkpoints(path: &Path) -> Result<Vec<(u64, PathBuf)>, CheckpointError> {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io_error("read", path))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(io_error("read", path))?;
            if let Some(step) = entry.file_name().to_str().and_then(step_of) {
                found.push((step, entry.path()));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Where the checkpoint after `step` steps is.
    pub fn checkpoint(path: &Path, step: u64) -> PathBuf {
        path.join(format!("{PREFIX}{step}"))
    }

    /// The files of a checkpoint, by name, after a look at their checksums.
    ///
    /// # Errors
    /// [`CheckpointError::UnusableCheckpoint`] names the file that is missing or not as it was written; [`CheckpointError::Io`].
    pub fn read(checkpoint: &Path) -> Result<Vec<(String, Vec<u8>)>, CheckpointError> {
        let damaged = |problem| CheckpointError::UnusableCheckpoint { folder: checkpoint.into(), problem };
        let read = |name: &str| {
            let path = checkpoint.join(name);
            fs::read(&path).map_err(|error| match error.kind() {
                ErrorKind::NotFound => damaged(format!("{name} is missing")),
                _ => io_error("read", &path)(error),
            })
        };
        fs::read_dir(checkpoint).map_err(io_error("open the checkpoint", checkpoint))?;
        let sums = read(SUMS)?;
        let unreadable = || damaged(format!("{SUMS} is not a list of checksums"));
        let sums = str::from_utf8(&sums).map_err(|_| unreadable())?;
        let mut files = Vec::new();
        for line in sums.lines() {
            let (sum, name) = line.split_once("  ").ok_or_else(unreadable)?;
            // Whoever wrote the list, it names files of this folder only.
            if name.contains(['/', '\\']) {
                return Err(unreadable());
            }
            let bytes = read(name)?;
            if checksum(&bytes) != sum {
                return Err(damaged(format!("{name} is not what was written; its checksum differs")));
            }
            files.push((name.to_owned(), bytes));
        }
        Ok(files)
    }

    /// Writes a checkpoint, and lets it appear when it is whole and on the disk; one of the same step that is there gives
    /// way to it. The last file must be one that readers
    /// cannot do without: a list of checksums whose end is lost is then told from a whole one.
    ///
    /// # Errors
    /// [`CheckpointError::Io`]; nothing of it is left behind then.
    pub fn write(&self, step: u64, files: &[(&str, Vec<u8>)]) -> Result<PathBuf, CheckpointError> {
        let (unfinished, path) = (self.unfinished(step), Self::checkpoint(&self.path, step));
        let write = || {
            // Somebody may have removed the folder of the run.
            fs::create_dir_all(&self.path).map_err(io_error("make the folder", &self.path))?;
            fs::create_dir(&unfinished).map_err(io_error("make the folder", &unfinished))?;
            for (name, bytes) in files {
                write_durably(&unfinished.join(name), bytes)?;
            }
            let sums = checksums::list(files.iter().map(|(name, bytes)| (*name, bytes.as_slice())));
            write_durably(&unfinished.join(SUMS), sums.as_bytes())?;
            sync_folder(&unfinished)?;
            let before = path.exists().then(|| self.set_aside(step)).transpose()?;
            fs::rename(&unfinished, &path).map_err(io_error("write", &path))?;
            sync_folder(&self.path)?;
            match before {
                Some(before) => fs::remove_dir_all(&before).map_err(io_error("remove", &before)),
                None => Ok(()),
            }
        };
        let written = write();
        if written.is_err() {
            let _ = fs::remove_dir_all(&unfinished); // The error on its way out says more.
        }
        written.map(|()| path)
    }

    /// Removes all checkpoints but the newest `count` and the one of step `besides`.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn keep_newest(&self, count: usize, besides: Option<u64>) -> Result<(), CheckpointError> {
        let found = Self::checkpoints(&self.path)?;
        let old = &found[..found.len().saturating_sub(count)];
        for (step, path) in old.iter().filter(|(step, _)| Some(*step) != besides) {
            // Half removed it must not be taken for a damaged one.
            let unfinished = self.unfinished(*step);
            fs::rename(path, &unfinished).map_err(io_error("remove", path))?;
            fs::remove_dir_all(&unfinished).map_err(io_error("remove", &unfinished))?;
        }
        Ok(())
    }

    /// Gives the checkpoint after `step` steps a name under which it counts no more, and tells it.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn set_aside(&self, step: u64) -> Result<PathBuf, CheckpointError> {
        let path = Self::checkpoint(&self.path, step);
        let name = |n| self.path.join(format!("set-aside-{PREFIX}{step}{n}"));
        let free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
        let mut names = std::iter::once(name(String::new())).chain((2..).map(|n| name(format!("-{n}"))));
        let aside = names.find(free).expect("there is no end of numbers");
        fs::rename(&path, &aside).map_err(io_error("rename", &path))?;
        Ok(aside)
    }

    /// Bytes that can still be written to the disk on which a folder is, or would be made.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn free_space(path: &Path) -> Result<u64, CheckpointError> {
        let path = &Path::new(".").join(path); // A relative path has an ancestor that exists.
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(path);
        fs4::available_space(there).map_err(io_error("ask for the free space of", there))
    }

    fn unfinished(&self, step: u64) -> PathBuf {
        let [before, behind] = UNFINISHED;
        self.path.join(format!("{before}{PREFIX}{step}{behind}"))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_dir(&self.path); // Unless there is something in it.
        }
    }
}

/// The step in the name of a checkpoint; only the one spelling that we write.
fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    digits.parse().ok().filter(|step: &u64| step.to_string() == digits)
}

/// The folder itself is locked, so that no file for that lies about. Where folders or the file system know no locks,
/// nothing is.
fn lock(path: &Path) -> Result<Option<File>, CheckpointError> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let file = File::open(path).map_err(io_error("open", path))?;
    match fs4::FileExt::try_lock(&file) {
        Err(fs4::TryLockError::WouldBlock) => Err(CheckpointError::InUse { folder: path.into() }),
        Err(fs4::TryLockError::Error(_)) => Ok(None),
        Ok(()) => Ok(Some(file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(value: u8) -> Vec<(&'static str, Vec<u8>)> {
        vec![("a.bin", vec![value; 1000]), ("b.txt", b"text".to_vec())]
    }

    fn owned(files: Vec<(&str, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
        files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
    }

    fn steps(path: &Path) -> Vec<u64> {
        RunFolder::checkpoints(path).unwrap().into_iter().map(|(step, _)| step).collect()
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_checkpoints_are_kept_and_read_back() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("deep/run");
        assert!(steps(&path).is_empty());
        let folder = RunFolder::claim(&path).unwrap();
        for step in [1, 9, 10, 100] {
            folder.write(step, &files(step as u8)).unwrap();
            folder.keep_newest(3, None).unwrap();
        }
        fs::create_dir(path.join("checkpoint-007")).unwrap();
        fs::create_dir(path.join("checkpoint-best")).unwrap();
        assert_eq!(steps(&path), [9, 10, 100]);
        for step in [9, 10, 100] {
            let read = RunFolder::read(&RunFolder::checkpoint(&path, step)).unwrap();
            assert_eq!(read, owned(files(step as u8)));
        }
        folder.keep_newest(1, Some(9)).unwrap();
        assert_eq!(steps(&path), [9, 100]);
        folder.keep_newest(1, Some(100)).unwrap();
        assert_eq!(steps(&path), [100]);
        assert!(RunFolder::free_space(&path.join("not/yet")).unwrap() > 0);
    }

    #[test]
    fn a_list_that_sha256sum_reads() {
        let root = tempfile::tempdir().unwrap();
        let path = RunFolder::claim(root.path()).unwrap().write(5, &files(7)).unwrap();
        let sums = fs::read_to_string(path.join(SUMS)).unwrap();
        // SHA-256 of "text".
        let text = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1  b.txt";
        assert_eq!(sums.lines().nth(1), Some(text));
    }

    #[test]
    fn damage_is_named() {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder::claim(root.path()).unwrap();
        let path = folder.write(5, &files(7)).unwrap();
        let message = || RunFolder::read(&path).unwrap_err().to_string();
        let whole: Vec<_> = names(&path).into_iter().map(|n| (fs::read(path.join(&n)).unwrap(), n)).collect();
        for (bytes, name) in &whole {
            let file = path.join(name);
            for bit in [0, bytes.len() * 4, bytes.len() * 8 - 1] {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                fs::write(&file, flipped).unwrap();
                assert!(message().contains("cannot be used: "), "{name}, bit {bit}: {}", message());
            }
            fs::write(&file, &bytes[..bytes.len() - 2]).unwrap();
            assert!(message().contains("cannot be used: "), "{name}: {}", message());
            fs::remove_file(&file).unwrap();
            assert!(message().ends_with(&format!("cannot be used: {name} is missing")), "{}", message());
            fs::write(&file, bytes).unwrap();
        }
        RunFolder::read(&path).unwrap();
        fs::write(path.join(SUMS), format!("{}  ../b.txt\n", checksum(b"text"))).unwrap();
        assert!(message().ends_with("SHA256SUMS is not a list of checksums"), "{}", message());
        let error = RunFolder::read(&root.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("cannot open the checkpoint "), "{error}");
    }

    #[test]
    fn what_is_unfinished_goes_and_what_is_set_aside_stays() {
        let root = tempfile::tempdir().unwrap();
        for name in [".checkpoint-3.part", ".checkpoint-x.part", ".checkpoint-3.part2"] {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("model"), "half").unwrap();
        }
        let folder = RunFolder::claim(root.path()).unwrap();
        for _ in 0..2 {
            folder.write(4, &files(1)).unwrap();
            folder.set_aside(4).unwrap();
        }
        let expected = [
            ".checkpoint-3.part2",
            ".checkpoint-x.part",
            "set-aside-checkpoint-4",
            "set-aside-checkpoint-4-2",
        ];
        assert_eq!(names(root.path()), expected);
    }

    #[test]
    fn a_write_that_fails_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder::claim(root.path()).unwrap();
        folder.write(1, &files(1)).unwrap();
        // A name that no file can have, behind one that is written.
        let error = folder.write(2, &[("a", vec![1]), ("no/such/folder", vec![2])]).unwrap_err();
        assert!(matches!(error, CheckpointError::Io { action: "write", .. }), "{error}");
        assert_eq!(names(root.path()), ["checkpoint-1"]);
        assert!(folder.write(1, &[("no/such/folder", vec![2])]).is_err());
        assert_eq!(RunFolder::read(&root.path().join("checkpoint-1")).unwrap(), owned(files(1)));
        // Only one that is whole takes the place of another.
        folder.write(1, &files(2)).unwrap();
        assert_eq!(RunFolder::read(&root.path().join("checkpoint-1")).unwrap(), owned(files(2)));
        assert_eq!(names(root.path()), ["checkpoint-1"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_went_away_is_made_anew() {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder::claim(&root.path().join("run")).unwrap();
        fs::remove_dir_all(root.path().join("run")).unwrap();
        let path = folder.write(1, &files(1)).unwrap();
        assert_eq!(RunFolder::read(&path).unwrap(), owned(files(1)));
    }

    #[cfg(unix)]
    #[test]
    fn two_runs_do_not_share_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder::claim(root.path()).unwrap();
        assert!(matches!(RunFolder::claim(root.path()), Err(CheckpointError::InUse { .. })));
        drop(folder);
        let inner = root.path().join("inner");
        RunFolder::claim(&inner).unwrap();
        assert!(!inner.exists());
        RunFolder::claim(root.path()).unwrap();
        assert!(root.path().exists());
    }
}
