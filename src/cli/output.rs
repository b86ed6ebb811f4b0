//! Results to stdout, everything else to stderr.

use std::fmt::Display;
use std::io::{self, Write};

use super::error::CliError;

/// Print one line of the result. A reader that went away (`| head`) is no error.
pub fn result(line: impl Display) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}

/// Tell the user something. Without a stderr there is nobody to tell.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
