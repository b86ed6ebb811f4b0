//! Where a run begins: afresh in an empty folder, or at a checkpoint.

use std::fs;
use std::path::{Path, PathBuf};

use wgpu_bert::checkpoint::{CheckpointError, RunFolder};
use wgpu_bert::train::TrainingCheckpoint;

use super::super::error::CliError;
use super::super::output;
use super::flags::Resume;

/// A checkpoint to go on from.
pub struct Found {
    pub path: PathBuf,
    pub checkpoint: TrainingCheckpoint,
    /// Steps of checkpoints in the run's folder that do not lead up to this one, with why.
    pub superseded: Vec<(u64, &'static str)>,
}

/// The checkpoint that `choice` stands for; `None` for a run of `total_steps` that starts afresh. Changes nothing.
pub fn find(choice: Option<&Resume>, model_dir: &Path, total_steps: u64) -> Result<Option<Found>, CliError> {
    let checkpoints = RunFolder::checkpoints(model_dir)?;
    let newest = checkpoints.last().map(|(step, _)| *step);
    match choice {
        Some(Resume::Auto) if newest.is_some() => newest_whole(checkpoints, model_dir).map(Some),
        // A folder with a model is the work of a run that is over.
        Some(Resume::Auto) if !model_dir.join("model.safetensors").exists() => Ok(None),
        Some(Resume::Auto) => Err(CliError::NothingToResume { dir: model_dir.into() }),
        Some(Resume::Step(step)) => match checkpoints.iter().find(|(there, _)| there == step) {
            Some((_, path)) => of_run(path, *step, &checkpoints).map(Some),
            None => Err(CliError::NoSuchCheckpoint {
                dir: model_dir.into(),
                step: *step,
                there: checkpoints.iter().map(|(step, _)| *step).collect(),
            }),
        },
        Some(Resume::Checkpoint(path)) => {
            let own = checkpoints.iter().find(|(_, own)| is_same(own, path));
            match own {
                Some((step, path)) => of_run(path, *step, &checkpoints).map(Some),
                None => {
                    let checkpoint = read(path)?;
                    match is_empty(model_dir)? {
                        true => Ok(Some(Found { path: path.clone(), checkpoint, superseded: Vec::new() })),
                        false => Err(CliError::ResumeElsewhere { dir: model_dir.into() }),
                    }
                }
            }
        }
        Some(Resume::Never) | None if is_empty(model_dir)? => Ok(None),
        Some(Resume::Never) | None => Err(CliError::NotEmpty { dir: model_dir.into(), newest, total_steps }),
    }
}

/// Goes back over damaged checkpoints, and tells of each.
fn newest_whole(checkpoints: Vec<(u64, PathBuf)>, model_dir: &Path) -> Result<Found, CliError> {
    let mut superseded = Vec::new();
    for (step, path) in checkpoints.into_iter().rev() {
        match read(&path) {
            Ok(checkpoint) => return Ok(Found { path, checkpoint, superseded }),
            Err(error) => {
                output::note(format_args!("{error}. Trying the one before it."));
                superseded.push((step, "it cannot be used"));
            }
        }
    }
    Err(CliError::NoWholeCheckpoint { dir: model_dir.into() })
}

fn of_run(path: &Path, step: u64, checkpoints: &[(u64, PathBuf)]) -> Result<Found, CliError> {
    let later = checkpoints.iter().map(|(later, _)| *later).filter(|later| *later > step);
    Ok(Found {
        path: path.into(),
        checkpoint: read(path)?,
        superseded: later.map(|step| (step, "the run went back to before it")).collect(),
    })
}

fn read(path: &Path) -> Result<TrainingCheckpoint, CheckpointError> {
    TrainingCheckpoint::from_files(&RunFolder::read(path)?, &path.display().to_string())
}

fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Hidden files are the business of other programs.
fn is_empty(folder: &Path) -> Result<bool, CliError> {
    if !folder.exists() {
        return Ok(true);
    }
    let read = |error| CliError::Read { path: folder.into(), error };
    for entry in fs::read_dir(folder).map_err(read)? {
        if !entry.map_err(read)?.file_name().as_encoded_bytes().starts_with(b".") {
            return Ok(false);
        }
    }
    Ok(true)
}
