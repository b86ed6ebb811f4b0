//! Ctrl-C: the first one asks for an end, the second one ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::CliError;

/// Whether Ctrl-C was pressed, and what is to be said then.
pub struct Interrupt {
    asked: AtomicBool,
    tell: Mutex<Option<Box<dyn Fn() + Send>>>,
    listening: Mutex<bool>,
}

static INTERRUPT: Interrupt =
    Interrupt { asked: AtomicBool::new(false), tell: Mutex::new(None), listening: Mutex::new(false) };

/// From here on Ctrl-C does no more than ask.
pub fn listen() -> Result<&'static Interrupt, CliError> {
    let mut listening = INTERRUPT.listening.lock().unwrap_or_else(PoisonError::into_inner);
    if !*listening {
        ctrlc::set_handler(|| INTERRUPT.pressed()).map_err(CliError::Signal)?;
        *listening = true;
    }
    Ok(&INTERRUPT)
}

impl Interrupt {
    fn pressed(&self) {
        if self.asked.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        if let Some(tell) = &*self.tell.lock().unwrap_or_else(PoisonError::into_inner) {
            tell();
        }
    }

    /// Whether an end was asked for.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// What answers the first Ctrl-C.
    pub fn answer(&self, tell: impl Fn() + Send + 'static) {
        *self.tell.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(tell));
    }
}
