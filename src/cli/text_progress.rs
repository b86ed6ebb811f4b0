//! How far the reading of text is, and what is made of it: a bar on a terminal, plain lines elsewhere; and its end by
//! Ctrl-C.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use indicatif::{FormattedDuration, HumanCount, ProgressBar, ProgressStyle};
use wgpu_bert::data::{self, GeneratorProgress, Stage};

use super::error::CliError;
use super::interrupt::{self, Interrupt};
use super::output;

/// Plain lines come no faster than this.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

pub struct Reporter {
    /// What each pass is called, and what it counts.
    passes: fn(Stage) -> (&'static str, &'static str),
    interrupt: &'static Interrupt,
    /// None where stderr is no terminal.
    bar: Option<ProgressBar>,
    stage: Option<Stage>,
    stage_start: Instant,
    last_line: Instant,
}

impl Reporter {
    /// From here on Ctrl-C ends the passes.
    pub fn new(passes: fn(Stage) -> (&'static str, &'static str)) -> Result<Self, CliError> {
        let interrupt = interrupt::listen()?;
        let now = Instant::now();
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:20} {percent:>3} %  {msg}");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Ok(Self { passes, interrupt, bar, stage: None, stage_start: now, last_line: now })
    }

    /// Shows how far it is; breaks it off after Ctrl-C.
    pub fn progress(&mut self, progress: GeneratorProgress) -> ControlFlow<()> {
        if self.stage != Some(progress.stage) {
            self.stage = Some(progress.stage);
            self.stage_start = Instant::now();
        }
        let line = line((self.passes)(progress.stage), progress, self.stage_start.elapsed());
        if let Some(bar) = &self.bar {
            bar.set_length(progress.total.unwrap_or(progress.done));
            bar.set_position(progress.done);
            bar.set_message(line);
        } else if self.last_line.elapsed() >= BETWEEN_LINES {
            self.last_line = Instant::now();
            output::note(line);
        }
        match self.interrupt.asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// The result, without a bar left behind.
    pub fn finish<T>(&self, result: Result<T, data::Error>) -> Result<T, CliError> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        result.map_err(|error| match error {
            data::Error::Interrupted => CliError::Interrupted {
                told: "Interrupted; nothing was written. The same command starts anew.".into(),
            },
            error => error.into(),
        })
    }
}

/// What is done of a pass, and the time the rest of it will take at the pace so far.
fn line(
    (pass, unit): (&str, &str),
    GeneratorProgress { done, total, .. }: GeneratorProgress,
    elapsed: Duration,
) -> String {
    let mut line = format!("{pass}: {}", HumanCount(done));
    if let Some(total) = total {
        line += &format!(" of {}", HumanCount(total));
    }
    line += &format!(" {unit}");
    if let Some(total) = total.filter(|_| done > 0) {
        let left = elapsed.mul_f64(total.saturating_sub(done) as f64 / done as f64);
        line += &format!(", {} left", FormattedDuration(left));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_pass_and_the_time_left() {
        let told = |done, total| {
            let progress = GeneratorProgress { stage: Stage::Pairing, done, total };
            line(("pass 2", "sentences"), progress, Duration::from_secs(20))
        };
        assert_eq!(told(2000, Some(5000)), "pass 2: 2,000 of 5,000 sentences, 00:00:30 left");
        assert_eq!(told(7, None), "pass 2: 7 sentences");
        assert_eq!(told(0, Some(9)), "pass 2: 0 of 9 sentences");
    }
}
