//! Names and patterns of files → the files.

use std::path::{Path, PathBuf};

use wgpu_bert::data::TextSource;

use super::error::CliError;

/// The names in a list with commas between, which is the value of `flag`.
pub fn names(flag: &'static str, list: &str) -> Result<Vec<String>, CliError> {
    let names: Vec<_> = list.split(',').map(|name| name.trim().to_owned()).collect();
    match names.iter().any(String::is_empty) {
        true => Err(CliError::EmptyFileName { flag, list: list.into() }),
        false => Ok(names),
    }
}

/// The files that names and patterns stand for, in the order given; those of a pattern and those in a folder and its
/// folders in alphabetical order.
pub fn expand(names: &[String]) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    for name in names {
        let before = files.len();
        // A file may be called what looks like a pattern.
        if Path::new(name).is_dir() {
            add_folder(Path::new(name), &mut files)?;
        } else if Path::new(name).exists() || !name.contains(['*', '?', '[']) {
            files.push(PathBuf::from(name));
        } else {
            let bad = |problem: String| CliError::BadPattern { pattern: name.clone(), problem };
            for file in glob::glob(name).map_err(|error| bad(error.to_string()))? {
                let file = file.map_err(|error| bad(error.to_string()))?;
                if file.is_file() {
                    files.push(file);
                }
            }
        }
        if files.len() == before {
            return Err(CliError::NoFiles { pattern: name.clone() });
        }
    }
    Ok(files)
}

/// Where the text of a list with commas between comes from, which is the value of `flag`: files as of [`expand`], and
/// stdin for `-`.
pub fn text_sources(flag: &'static str, list: &str) -> Result<Vec<TextSource>, CliError> {
    let mut sources = Vec::new();
    for name in names(flag, list)? {
        if name != "-" {
            sources.extend(expand(&[name])?.into_iter().map(TextSource::File));
        } else if sources.contains(&TextSource::Stdin) {
            return Err(CliError::StdinTwice);
        } else {
            sources.push(TextSource::Stdin);
        }
    }
    Ok(sources)
}

/// Hidden files are left out: systems and editors put them there.
fn add_folder(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let failed = |error| CliError::Read { path: folder.to_owned(), error };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut entries: Vec<_> =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>().map_err(failed)?;
    entries.sort_unstable();
    for path in entries {
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_dir() && !hidden {
            add_folder(&path, files)?;
        } else if path.is_file() && !hidden {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_patterns_become_files() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name).display().to_string();
        for name in ["b.txt", "a.txt", "c.gz", "[x].txt"] {
            std::fs::write(path(name), "text").unwrap();
        }
        std::fs::create_dir(path("d.txt")).unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        std::fs::create_dir(path("folder/deeper")).unwrap();
        for name in ["folder/y.txt", "folder/deeper/x.txt", "folder/.hidden"] {
            std::fs::write(path(name), "text").unwrap();
        }
        let expanded = |names: &[&str]| -> Result<Vec<String>, CliError> {
            let names: Vec<_> = names.iter().map(|name| path(name)).collect();
            let files = expand(&names)?.into_iter();
            Ok(files.map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect())
        };
        assert_eq!(expanded(&["c.gz", "?.txt"]).unwrap(), ["c.gz", "a.txt", "b.txt"]);
        assert_eq!(expanded(&["[x].txt"]).unwrap(), ["[x].txt"]);
        assert_eq!(expanded(&["folder", "a.txt"]).unwrap(), ["x.txt", "y.txt", "a.txt"]);
        // Left for whoever opens it to miss.
        assert_eq!(expanded(&["none.txt"]).unwrap(), ["none.txt"]);
        // A folder without files as well.
        for pattern in ["*.md", "d.*", "d.txt"] {
            let message = expanded(&[pattern]).unwrap_err().to_string();
            assert_eq!(message, format!("{} does not match any files.", path(pattern)));
        }
        let message = expanded(&["[.txt"]).unwrap_err().to_string();
        assert!(message.contains(&path("[.txt")) && message.contains("no pattern"), "{message}");
    }
}
