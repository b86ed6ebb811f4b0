//! Results to stdout, everything else to stderr.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::CliError;

/// Is this process one that tells nothing?
static HUSHED: AtomicBool = AtomicBool::new(false);

/// From here on nothing is printed: another process tells what there is to tell.
pub fn hush() {
    HUSHED.store(true, Ordering::Relaxed);
}

/// Whether that was asked for.
pub fn is_hushed() -> bool {
    HUSHED.load(Ordering::Relaxed)
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
