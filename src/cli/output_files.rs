//! Files to write, checked before there is any work: nothing that is read, or that is no file, may be replaced.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use wgpu_bert::data::TextSource;

use super::error::CliError;

/// Refuse `outputs`, each written as NAME.partial first and renamed then, that would do away with one of `sources`, with
/// the vocabulary, with one another, or with what is no file, such as a device or a folder.
pub fn check(outputs: &[PathBuf], sources: &[TextSource], vocab_file: Option<&Path>) -> Result<(), CliError> {
    let files = sources.iter().filter_map(|source| match source {
        TextSource::File(path) => Some(path.as_path()),
        _ => None,
    });
    // Those that are not there are told when they are opened.
    let read: Vec<_> = files.chain(vocab_file).filter_map(|path| path.canonicalize().ok()).collect();
    let mut written: Vec<PathBuf> = Vec::new();
    for output in outputs {
        let path = || output.clone();
        let [place, partial] = places(output)?;
        if [&place, &partial].iter().any(|place| place.exists() && !place.is_file()) {
            return Err(CliError::OutputIsNoFile { path: path() });
        }
        if read.contains(&place) || read.contains(&partial) {
            return Err(CliError::OutputIsRead { path: path() });
        }
        if written.contains(&place) || written.contains(&partial) {
            return Err(CliError::OutputTwice { path: path() });
        }
        written.extend([place, partial]);
    }
    Ok(())
}

/// Where a file lies, whatever it is called, and where it lies until it is complete.
fn places(output: &Path) -> Result<[PathBuf; 2], CliError> {
    // Elsewhere `-` is stdout, which cannot be renamed; a file of that name is `./-`.
    let Some(name) = output.file_name().filter(|_| output.as_os_str() != "-") else {
        return Err(CliError::OutputIsNoFile { path: output.to_owned() });
    };
    // A bare name has an empty parent.
    let folder = output.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let Some(real) = folder.canonicalize().ok().filter(|folder| folder.is_dir()) else {
        return Err(CliError::NoOutputFolder { path: output.to_owned(), folder: folder.to_owned() });
    };
    let mut partial = OsString::from(name);
    partial.push(".partial");
    let place = real.join(name);
    // The target of a link.
    Ok([place.canonicalize().unwrap_or(place), real.join(partial)])
}
