//! Results to stdout, everything else to stderr.

use std::fmt::Display;
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::error::CliError;

/// Which of the processes of a run this is; the first one tells.
static RANK: AtomicUsize = AtomicUsize::new(0);

/// From here on nothing is printed but a bug: the first process tells what there is to tell.
pub fn hush(rank: usize) {
    RANK.store(rank, Ordering::Relaxed);
}

/// Whether that was asked for.
pub fn is_hushed() -> bool {
    RANK.load(Ordering::Relaxed) > 0
}

/// Print one line of the result. A reader that went away (`| head`) is no error.
pub fn result(line: impl Display) -> Result<(), CliError> {
    if is_hushed() {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}

/// Tell the user something. Without a stderr there is nobody to tell.
pub fn note(line: impl Display) {
    if !is_hushed() {
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Tell of a panic, from whatever process.
pub fn bug(panic: &PanicHookInfo<'_>) {
    let _ = writeln!(io::stderr(), "{}", of_bug(RANK.load(Ordering::Relaxed), panic));
}

fn of_bug(rank: usize, panic: impl Display) -> String {
    let whose = if rank > 0 { format!("rank {rank}: ") } else { String::new() };
    format!("{whose}wgpu-bert has a bug: {panic}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_of_another_process_is_told_with_its_rank() {
        assert_eq!(of_bug(0, "here"), "wgpu-bert has a bug: here");
        assert_eq!(of_bug(3, "here"), "rank 3: wgpu-bert has a bug: here");
    }
}
