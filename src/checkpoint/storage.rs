//! Model folders on a disk, written so that whatever stops the program, what is there loads whole or not at all.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::checksums::{self, SUMS};
use super::model_folder::{CONFIG, TOKENIZER, TOKENIZER_CONFIG, VOCABULARY, WEIGHTS};
use super::{CheckpointError, ModelFolder};

/// All files of a model folder, but for checksums.
const FILES: [&str; 5] = [CONFIG, WEIGHTS, VOCABULARY, TOKENIZER_CONFIG, TOKENIZER];

impl ModelFolder {
    /// Makes sure, before any work is done for it, that a model can be saved in `folder`. Leaves everything as it was.
    ///
    /// # Errors
    /// [`CheckpointError::Io`] if the folder cannot be made or written, [`CheckpointError::Blocked`] if a folder stands
    /// where a file must go.
    pub fn check_writable(folder: &Path) -> Result<(), CheckpointError> {
        // Deepest first, as they can be removed again.
        let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
        let probe = folder.join(".write-test");
        let checked = prepare(folder)
            .and_then(|()| write_durably(&probe, b"a model will be saved here"))
            .and_then(|()| remove(&probe));
        for made in missing {
            let _ = fs::remove_dir(made); // It was not made, or is in use by now.
        }
        checked
    }

    /// Saves the model in `folder`, over the model that is there; other files in it are left alone.
    ///
    /// All files are first written beside their places. Where only the weights differ, one rename then swaps them, and
    /// a kill leaves the old or the new model. Where another model is replaced, its weights go first and the new ones
    /// come last: a kill in between leaves a folder that does not load rather than a mixture that does. A checksum of
    /// the weights stands beside them at the end.
    ///
    /// # Errors
    /// Those of [`ModelFolder::to_files`] and [`ModelFolder::check_writable`], before anything is touched;
    /// [`CheckpointError::Io`].
    pub fn save(&self, folder: &Path) -> Result<(), CheckpointError> {
        let files = self.to_files()?;
        prepare(folder)?;
        let swapped = write_and_swap(&files, folder);
        if swapped.is_err() {
            for name in FILES.into_iter().chain([SUMS]) {
                let _ = fs::remove_file(beside(folder, name)); // The error on its way out says more.
            }
        }
        swapped
    }

    /// Reads and checks the model in `folder`.
    ///
    /// # Errors
    /// [`CheckpointError::Io`], [`CheckpointError::Changed`], and those of [`ModelFolder::from_files`].
    pub fn load(folder: &Path) -> Result<Self, CheckpointError> {
        fs::read_dir(folder).map_err(io_error("open the model folder", folder))?;
        let mut files = Vec::new();
        for name in FILES {
            files.extend(checksums::read(&folder.join(name))?.map(|bytes| (name.to_owned(), bytes)));
        }
        Self::from_files(&files, &folder.display().to_string())
    }
}

/// Makes the folder and looks whether the places of the files are free.
fn prepare(folder: &Path) -> Result<(), CheckpointError> {
    fs::create_dir_all(folder).map_err(io_error("make the folder", folder))?;
    match FILES.iter().map(|name| folder.join(name)).find(|path| path.is_dir()) {
        Some(path) => Err(CheckpointError::Blocked { path }),
        None => Ok(()),
    }
}

fn write_and_swap(files: &[(&str, Vec<u8>)], folder: &Path) -> Result<(), CheckpointError> {
    let wanted = |name: &str| files.iter().find(|(file, _)| *file == name).map(|(_, bytes)| bytes);
    let on_disk = |name: &str| fs::read(folder.join(name)).ok();
    let others: Vec<&str> =
        FILES.into_iter().filter(|name| *name != WEIGHTS && on_disk(name).as_ref() != wanted(name)).collect();

    for name in others.iter().copied().chain([WEIGHTS]) {
        if let Some(bytes) = wanted(name) {
            write_durably(&beside(folder, name), bytes)?;
        }
    }
    // The others are texts, which a person may change, and of which it shows when they are damaged.
    let weights = wanted(WEIGHTS).map(|bytes| (WEIGHTS, bytes.as_slice()));
    let sums = checksums::list(weights);
    write_durably(&beside(folder, SUMS), sums.as_bytes())?;
    // Those of the model before.
    remove(&folder.join(SUMS))?;
    if !others.is_empty() {
        remove(&folder.join(WEIGHTS))?;
        sync_folder(folder)?;
    }
    for name in others {
        match wanted(name) {
            Some(_) => put_in_place(folder, name)?,
            None => remove(&folder.join(name))?,
        }
    }
    sync_folder(folder)?;
    put_in_place(folder, WEIGHTS)?;
    put_in_place(folder, SUMS)?;
    sync_folder(folder)
}

/// Where a file is written before it is swapped in: in the same folder, as a rename must not cross disks. The name is
/// always the same, so that what a killed run left behind is written over by the next.
fn beside(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!(".{name}.new"))
}

fn put_in_place(folder: &Path, name: &str) -> Result<(), CheckpointError> {
    let path = folder.join(name);
    fs::rename(beside(folder, name), &path).map_err(io_error("replace", &path))
}

pub(super) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let write = || -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(io_error("write", path))
}

fn remove(path: &Path) -> Result<(), CheckpointError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Makes renames and removals survive a power cut. Only Unix opens folders, and needs it.
pub(super) fn sync_folder(folder: &Path) -> Result<(), CheckpointError> {
    if cfg!(unix) {
        File::open(folder).and_then(|file| file.sync_all()).map_err(io_error("write", folder))?;
    }
    Ok(())
}

pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    move |source| CheckpointError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::super::model_folder::tests::small_model;
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_saved_model_is_loaded_and_foreign_files_stay() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("deep/model");
        let model = small_model(1.0);
        model.save(&folder).unwrap();
        fs::write(folder.join("notes.txt"), "mine").unwrap();
        assert_eq!(ModelFolder::load(&folder).unwrap(), model);

        // Only the weights differ; then another vocabulary, and no tokenizer.json.
        let trained = small_model(2.0);
        trained.save(&folder).unwrap();
        assert_eq!(ModelFolder::load(&folder).unwrap(), trained);
        let other = ModelFolder { vocabulary: "[PAD]\n".into(), tokenizer_json: None, ..small_model(3.0) };
        other.save(&folder).unwrap();
        assert_eq!(ModelFolder::load(&folder).unwrap(), other);
        let expected =
            [SUMS, "config.json", "model.safetensors", "notes.txt", "tokenizer_config.json", "vocab.txt"];
        assert_eq!(names(&folder), expected);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_found_before() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "x").unwrap();
        for folder in [file.clone(), file.join("below")] {
            let error = ModelFolder::check_writable(&folder).unwrap_err();
            assert!(error.to_string().starts_with(&format!("cannot make the folder {}: ", folder.display())));
        }
        let folder = root.path().join("model");
        ModelFolder::check_writable(&folder.join("deep")).unwrap();
        assert_eq!(names(root.path()), ["file"]);
        fs::create_dir_all(folder.join(TOKENIZER)).unwrap();
        let told = format!("{} is not a file", folder.join(TOKENIZER).display());
        assert!(ModelFolder::check_writable(&folder).unwrap_err().to_string().starts_with(&told));
        assert!(small_model(1.0).save(&folder).unwrap_err().to_string().starts_with(&told));
        assert_eq!(names(&folder), [TOKENIZER]);
    }

    #[test]
    fn a_save_that_fails_leaves_the_old_model() {
        let root = tempfile::tempdir().unwrap();
        let model = small_model(1.0);
        model.save(root.path()).unwrap();
        let broken = ModelFolder { tensors: Vec::new(), ..small_model(2.0) };
        assert!(matches!(broken.save(root.path()), Err(CheckpointError::TensorNames { .. })));
        // A disk that refuses: a folder stands where the new weights are written.
        fs::create_dir(beside(root.path(), WEIGHTS)).unwrap();
        let refused = ModelFolder { do_lower_case: false, ..small_model(2.0) }.save(root.path());
        assert!(matches!(refused, Err(CheckpointError::Io { action: "write", .. })));
        fs::remove_dir(beside(root.path(), WEIGHTS)).unwrap();
        assert_eq!(ModelFolder::load(root.path()).unwrap(), model);
        assert_eq!(names(root.path()).len(), FILES.len() + 1);
    }

    #[test]
    fn folders_that_are_none_are_told() {
        let root = tempfile::tempdir().unwrap();
        let error = ModelFolder::load(&root.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("cannot open the model folder "), "{error}");
        let error = ModelFolder::load(root.path()).unwrap_err().to_string();
        assert!(error.ends_with("is not a model folder: config.json is missing"), "{error}");
        fs::create_dir(root.path().join(CONFIG)).unwrap();
        let error = ModelFolder::load(root.path()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read ") && error.contains(CONFIG), "{error}");
    }

    /// Runs itself as a child that saves two different models in turn, kills it, and looks at what is there.
    #[test]
    fn a_kill_never_leaves_a_mixture() {
        const FOLDER: &str = "SAVE_UNTIL_KILLED_IN";
        let models = [1.0, 2.0, 3.0].map(small_model);
        let models =
            models.map(|model| ModelFolder { do_lower_case: model.tensors[0].data[0] < 2.5, ..model });
        if let Some(folder) = std::env::var_os(FOLDER) {
            for model in models.iter().cycle() {
                model.save(folder.as_ref()).unwrap();
            }
        }
        let root = tempfile::tempdir().unwrap();
        let name = std::thread::current().name().unwrap().to_owned();
        let weights = root.path().join(WEIGHTS);
        for round in 0..20 {
            remove(&weights).unwrap();
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &name])
                .env(FOLDER, root.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let started = Instant::now();
            while !weights.exists() {
                assert!(started.elapsed() < Duration::from_secs(60), "the child saves nothing");
                std::thread::sleep(Duration::from_micros(100));
            }
            std::thread::sleep(Duration::from_micros(round * 1_700));
            child.kill().unwrap();
            child.wait().unwrap();
            match ModelFolder::load(root.path()) {
                Ok(model) => assert!(models.contains(&model), "a mixture was loaded"),
                Err(CheckpointError::MissingFile { file: WEIGHTS, .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}
