//! Which checkpoint a path means. Its name is the start of its files' names; people also give one of the files, the file
//! `checkpoint` that TensorFlow keeps beside them, or their folder.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::CheckpointError;
use super::super::storage::io_error;
use super::error::BundleError;

/// The file that names the latest checkpoint of a folder.
const STATE: &str = "checkpoint";

/// The prefix of the checkpoint that `path` means; nothing where it means none, but may be something else.
///
/// # Errors
/// [`CheckpointError::TensorFlow`] where it should mean one, but that is not there or not clear; [`CheckpointError::Io`].
pub fn find_prefix(path: &Path) -> Result<Option<PathBuf>, CheckpointError> {
    if path.is_dir() {
        return of_folder(path);
    }
    if let Some(prefix) = without_ending(path) {
        return Ok(Some(prefix));
    }
    if path.file_name() == Some(OsStr::new(STATE)) && path.is_file() {
        return latest(path).map(Some);
    }
    let folder = folder_of(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files = files(folder).unwrap_or_default(); // A folder that is not there holds none.
    let mut prefixes = files.iter().filter_map(|file| without_ending(Path::new(file)));
    if prefixes.any(|prefix| *prefix == *name) {
        return Ok(Some(path.to_owned()));
    }
    match checkpoints(&files) {
        there if !there.is_empty() && !path.exists() => {
            Err(BundleError::NotFound { path: path.display().to_string(), there }.into())
        }
        _ => Ok(None),
    }
}

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn of_folder(folder: &Path) -> Result<Option<PathBuf>, CheckpointError> {
    let files = files(folder)?;
    if files.iter().any(|file| file == STATE) {
        return latest(&folder.join(STATE)).map(Some);
    }
    match &checkpoints(&files)[..] {
        [] => Ok(None),
        [only] => Ok(Some(folder.join(only))),
        several => {
            let folder = folder.display().to_string();
            Err(BundleError::Several { folder, there: several.to_vec() }.into())
        }
    }
}

/// The checkpoint that a file `checkpoint` names.
fn latest(state: &Path) -> Result<PathBuf, CheckpointError> {
    let text = fs::read(state).map_err(io_error("read", state))?;
    let text = String::from_utf8_lossy(&text);
    let named = text.lines().find_map(|line| line.trim().strip_prefix("model_checkpoint_path:"));
    let named = named.and_then(|name| unquoted(name.trim()));
    let Some(named) = named else {
        return Err(BundleError::NoState { file: state.display().to_string() }.into());
    };
    let folder = folder_of(state);
    let prefix = folder.join(&named);
    // An absolute name may be that of the place it was moved from.
    let moved = Path::new(&named).file_name().map(|name| folder.join(name));
    let there = |prefix: &Path| PathBuf::from(format!("{}.index", prefix.display())).exists();
    Ok(moved.filter(|moved| !there(&prefix) && there(moved)).unwrap_or(prefix))
}

/// A string of the protocol buffers' text format: bytes that are not ASCII stand in octal.
fn unquoted(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix('"')?.strip_suffix('"')?.bytes().peekable();
    let mut bytes = Vec::new();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'\\' => match rest.next()? {
                first @ b'0'..=b'7' => {
                    let mut value = u32::from(first - b'0');
                    for _ in 0..2 {
                        let Some(digit) = rest.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                        value = value * 8 + u32::from(digit - b'0');
                    }
                    u8::try_from(value).ok()?
                }
                other => other, // A quote or a backslash.
            },
            byte => byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

/// `bert_model.ckpt` of `bert_model.ckpt.index` or `bert_model.ckpt.data-00000-of-00001`.
fn without_ending(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let is_shard = |ending: &str| {
        let numbers = ending.strip_prefix("data-").and_then(|ending| ending.split_once("-of-"));
        numbers.is_some_and(|(a, b)| (a.to_owned() + b).bytes().all(|byte| byte.is_ascii_digit()))
    };
    let (prefix, ending) = name.rsplit_once('.')?;
    (ending == "index" || is_shard(ending)).then(|| path.with_file_name(prefix))
}

/// The checkpoints whose indices are among `files`.
fn checkpoints(files: &[String]) -> Vec<String> {
    files.iter().filter_map(|file| file.strip_suffix(".index")).map(str::to_owned).collect()
}

/// The names of the files in a folder, sorted.
fn files(folder: &Path) -> Result<Vec<String>, CheckpointError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(io_error("read", folder))?;
    let mut names: Vec<_> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}
