//! Which kernels were measured fastest, kept in a file of the user's cache folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use wgpu_bert::gpu::{AdapterReport, DeviceOptions};
use wgpu_bert::strategy::Strategy;
use wgpu_bert::train::{KnownKernels, measure_kernels};

use super::output;

/// The strategy, knowing what was measured in runs before.
pub fn recall(mut strategy: Strategy) -> Strategy {
    read(file().as_deref()).recall(&mut strategy);
    strategy
}

/// The strategy, knowing the fastest kernels of each of its adapters. What had to be measured is kept.
pub fn measure(mut strategy: Strategy, options: DeviceOptions) -> Strategy {
    let file = file();
    let before = read(file.as_deref());
    let mut known = before.clone();
    pollster::block_on(measure_kernels(&mut strategy, options, &mut known, AdapterReport::candidates));
    if let Some(file) = file.filter(|_| known != before)
        && let Err(error) = write(&file, &known)
    {
        let file = file.display();
        output::note(format_args!(
            "The fastest kernels will be measured again: {file} cannot be written: {error}"
        ));
    }
    strategy
}

/// Where it is; nothing where the system names no folder of the user.
fn file() -> Option<PathBuf> {
    let folder = |name| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let cache = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        folder("HOME").map(|home| home.join("Library/Caches"))
    } else {
        folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))
    };
    cache.map(|cache| cache.join("wgpu-bert").join("kernels.json"))
}

/// A file that is not there or damaged is one in which nothing is known.
fn read(file: Option<&Path>) -> KnownKernels {
    KnownKernels::parse(&file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default())
}

/// Aside first, so that no other process reads half of it.
fn write(file: &Path, known: &KnownKernels) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut aside = tempfile::NamedTempFile::new_in(folder)?;
    aside.write_all(known.to_json().as_bytes())?;
    aside.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = r#"{"measured": [{"adapter": "a GPU", "backend": "vulkan", "driver": "a driver 1.0",
        "version": "0.1.0", "kernels": "tile"}]}"#;

    #[test]
    fn what_was_written_is_read_back_also_over_a_damaged_file() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("not there yet").join("kernels.json");
        assert_eq!(read(Some(&file)), KnownKernels::default());
        let known = KnownKernels::parse(KNOWN);
        assert_ne!(known, KnownKernels::default());
        write(&file, &known).unwrap();
        assert_eq!(read(Some(&file)), known);
        fs::write(&file, &known.to_json()[..20]).unwrap();
        assert_eq!(read(Some(&file)), KnownKernels::default());
        write(&file, &known).unwrap();
        assert_eq!(read(Some(&file)), known);
        // Nothing is left beside it.
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn processes_at_once_leave_a_whole_file() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("kernels.json");
        let known = KnownKernels::parse(KNOWN);
        write(&file, &known).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| write(&file, &known).unwrap()));
                scope.spawn(|| (0..50).for_each(|_| assert_eq!(read(Some(&file)), known)));
            }
        });
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_to_tell() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("no folder").join("kernels.json");
        fs::write(place.path().join("no folder"), "").unwrap();
        assert!(write(&file, &KnownKernels::default()).is_err());
    }
}
