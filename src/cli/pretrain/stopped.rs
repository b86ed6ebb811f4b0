//! What to say of a run that was stopped, by Ctrl-C or by an error.

use std::path::{Path, PathBuf};

use super::ranks::started_by_mpirun;

/// What became of a run that was stopped, and how to go on with it.
pub fn stopped_after(steps: u64, model_dir: &Path, checkpoint: Option<PathBuf>) -> String {
    let told = format!("Stopped after step {steps}; the model so far is saved in {}.", model_dir.display());
    match checkpoint {
        None => format!("{told} There is no checkpoint to go on from."),
        Some(path) => format!("{told} {}", to_go_on_from(&path)),
    }
}

/// How to go on with a run from its last checkpoint.
pub fn to_go_on_from(checkpoint: &Path) -> String {
    let mpirun = match started_by_mpirun() {
        0 | 1 => String::new(),
        count => format!("mpirun -n {count} "),
    };
    format!(
        "To go on from {}:\n{mpirun}{}",
        checkpoint.display(),
        command_to_go_on(std::env::args_os().map(|arg| arg.display().to_string()))
    )
}

/// The same command, with the choice to go on.
fn command_to_go_on(args: impl Iterator<Item = String>) -> String {
    let mut command = Vec::new();
    let mut is_choice = false;
    for arg in args {
        // `--resume X` or `--resume=X` of before; changes are confirmed once.
        let again = std::mem::replace(&mut is_choice, arg == "--resume");
        if !again
            && !is_choice
            && !arg.starts_with("--resume=")
            && arg.replace('-', "_") != "__confirm_changes"
        {
            command.push(quoted(&arg));
        }
    }
    command.push("--resume=auto".into());
    command.join(" ")
}

/// A path as it can be pasted into a shell.
pub fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./\\:=,".contains(c);
    if path.chars().all(is_plain) { path.into() } else { format!("\"{path}\"") }
}
