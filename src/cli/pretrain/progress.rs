//! What a run shows while it trains: a bar on a terminal, plain lines elsewhere, JSON on stdout when asked for.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{FormattedDuration, ProgressBar, ProgressFinish, ProgressStyle};
use serde_json::{Value, json};
use wgpu_bert::train::{Compiling, Evaluation, Event, Progress, ReplicaReport, Started, Suspicion};

use super::super::error::CliError;
use super::super::{evaluation, output};

/// Plain lines come no faster than this.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

pub struct Reporter {
    json: bool,
    started: Option<Started>,
    total_steps: u64,
    /// None where stderr is no terminal, or one that JSON goes to.
    bar: Option<ProgressBar>,
    last_line: Option<Instant>,
    /// The first failure to write JSON: training goes on, the run ends with it.
    failure: Option<CliError>,
}

impl Reporter {
    pub fn new(total_steps: u64, json: bool) -> Self {
        // JSON on the same terminal would be drawn over.
        let has_bar =
            !output::is_hushed() && io::stderr().is_terminal() && !(json && io::stdout().is_terminal());
        let bar = has_bar.then(|| {
            // With the message two lines, which fit 80 columns.
            let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {msg}");
            ProgressBar::new(total_steps)
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
                .with_finish(ProgressFinish::Abandon)
        });
        Self { json, started: None, total_steps, bar, last_line: None, failure: None }
    }

    /// What tells the user something without the bar in its way, from any thread.
    pub fn teller(&self) -> impl Fn(&str) + Send + 'static {
        let bar = self.bar.clone();
        move |line| match &bar {
            Some(bar) => bar.suspend(|| output::note(line)),
            None => output::note(line),
        }
    }

    /// What happens before the run starts.
    pub fn preparing(&mut self, event: Event) {
        match event {
            // Some drivers take seconds for each.
            Event::Compiling(Compiling { done, total }) => {
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("compiling kernels: {done} of {total}"));
                }
            }
            Event::DeviceLost { step, message } => self.device_lost(step, &message),
            Event::DeviceAwaited { why, after } => self.device_awaited(&why, after),
            _ => {}
        }
    }

    pub fn started(&mut self, started: Started) {
        if let Some(notice) = &started.notice {
            output::note(notice);
        }
        output::note(introduction(&started));
        self.started = Some(started);
        // The first measurement may take a while.
        if let Some(bar) = &self.bar {
            bar.set_message("");
            bar.tick();
        }
    }

    pub fn progress(&mut self, progress: Progress) {
        if self.json {
            let line = to_json("progress", &progress);
            self.failure = self.failure.take().or(output::result(line).err());
        }
        if let Some(notice) = progress.left_out_notice() {
            self.teller()(&notice);
        }
        let Some(started) = &self.started else { return };
        let (losses, pace) = (losses(&progress, started), pace(&progress));
        if let Some(bar) = &self.bar {
            bar.set_position(progress.step);
            bar.set_message(format!("{pace}\n{losses}"));
        } else if progress.step == progress.total_steps
            || self.last_line.is_none_or(|last| last.elapsed() >= BETWEEN_LINES)
        {
            self.last_line = Some(Instant::now());
            let Progress { step, total_steps, .. } = progress;
            output::note(format_args!("step {step}/{total_steps}  {losses}  {pace}"));
        }
    }

    /// Something of the last steps is odd.
    pub fn suspicious(&mut self, suspicion: Suspicion) {
        self.notice(&suspicion.to_string());
    }

    fn notice(&mut self, message: &str) {
        if self.json {
            let line = json!({"kind": "notice", "message": message});
            self.failure = self.failure.take().or(output::result(line).err());
        }
        self.teller()(message);
    }

    /// The device was lost; the run goes on after `step` steps.
    pub fn device_lost(&mut self, step: u64, message: &str) {
        if self.json {
            let line = json!({"kind": "device-lost", "step": step, "message": message});
            self.failure = self.failure.take().or(output::result(line).err());
        }
        self.teller()(&format!("{message}. The run opens it anew and goes on after step {step}."));
    }

    /// No other device can be opened yet.
    pub fn device_awaited(&mut self, why: &str, after: Duration) {
        let seconds = after.as_secs_f64();
        self.notice(&format!("No other device can be opened: {why}. The run tries again in {seconds} s."));
    }

    /// The model is being evaluated.
    pub fn evaluating(&mut self, done: usize, instances: usize) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("evaluating: {done} of {instances} examples"));
        }
    }

    /// It was.
    pub fn evaluated(&mut self, step: u64, evaluation: &Evaluation) {
        if self.json {
            let line = at_step(evaluation::to_json(evaluation), step);
            self.failure = self.failure.take().or(output::result(line).err());
        }
        let (total_steps, line) = (self.total_steps, evaluation::to_text(evaluation));
        self.teller()(&format!("step {step}/{total_steps}  evaluation: {line}"));
    }

    /// The run is over.
    ///
    /// # Errors
    /// When a line of JSON could not be written.
    pub fn finish(&mut self) -> Result<(), CliError> {
        if let Some(bar) = &self.bar {
            bar.abandon();
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Add what was known at the start to an object.
    pub fn add_start(&self, object: &mut Value) {
        if let Some(started) = &self.started {
            object["adapter"] = started.adapter.clone().into();
            object["kernels"] = started.kernels.clone().into();
            object["parameters"] = started.parameters.into();
            object["gradient_accumulation_steps"] = started.gradient_accumulation_steps.into();
            object["uniform_loss"] = started.uniform_loss.into();
            object["unigram_loss"] = started.unigram_loss.into();
        }
    }
}

fn introduction(started: &Started) -> String {
    let Started { adapter, kernels, parameters, bytes, uniform_loss, unigram_loss, .. } = started;
    let parts = match started.gradient_accumulation_steps {
        1 => String::new(),
        parts => format!(", each batch in {parts} parts"),
    };
    format!(
        "Training {parameters} parameters on {adapter}, with {} MiB of its memory{parts}.\nKernels: {kernels}.\n\
         Masked-LM loss without looking at the text: {uniform_loss:.2} (ln V) with all words alike, \
         {unigram_loss:.2} (unigram) by how frequent they are.\nBehind each loss stands the share of right guesses.",
        bytes.div_ceil(1 << 20)
    )
}

/// What the replicas took, the slowest named.
pub fn of_replicas(report: &ReplicaReport) -> String {
    let ReplicaReport { replicas, reduction_share, bytes, bytes_between_workers } = report;
    let between = match bytes_between_workers {
        0 => String::new(),
        bytes => format!(", each process {bytes}"),
    };
    let whose = if *bytes_between_workers > 0 { " Those of rank 0:" } else { "" };
    let slowest = report.slowest();
    let times = replicas.iter().enumerate().map(|(index, (adapter, time))| {
        let mark = if index == slowest { ", the slowest" } else { "" };
        format!("\n  {index}: {adapter}, {:.2} ms for its gradients{mark}", time.as_secs_f64() * 1e3)
    });
    format!(
        "Summing gradients took {:.1} % of the steps; each replica sent and got {bytes} bytes a step{between}.{whose}{}",
        100.0 * reduction_share,
        times.collect::<String>()
    )
}

/// The losses, with what that of masked words must fall below to mean something.
fn losses(progress: &Progress, started: &Started) -> String {
    let Started { uniform_loss, unigram_loss, .. } = started;
    let Progress { loss, lm_example_loss: mlm, masked_lm_accuracy, .. } = progress;
    if progress.has_no_loss() {
        return "no loss: all these steps were left out".into();
    }
    let percent = 100.0 * masked_lm_accuracy;
    let mut line = format!(
        "loss {loss:.3}  MLM {mlm:.3} (ln V {uniform_loss:.2}, unigram {unigram_loss:.2}) {percent:.1} %"
    );
    if let (Some(nsp), Some(accuracy)) = (progress.next_sentence_loss, progress.next_sentence_accuracy) {
        line += &format!("  NSP {nsp:.3} {:.1} %", 100.0 * accuracy);
    }
    line
}

/// How fast it goes, and how long it will take; at the end, how long it took.
fn pace(progress: &Progress) -> String {
    let Progress { step, total_steps, learning_rate, tokens_per_second, elapsed, .. } = progress;
    let scale = progress.loss_scale.map_or_else(String::new, |scale| format!("  scale {scale}"));
    let time = match step == total_steps {
        true => format!("{} in all", FormattedDuration(*elapsed)),
        false => format!("{} left", FormattedDuration(time_left(progress))),
    };
    format!("lr {learning_rate:.2e}{scale}  {tokens_per_second:.0} tokens/s  {time}")
}

/// At the pace of the run so far.
fn time_left(progress: &Progress) -> Duration {
    let steps_left = progress.total_steps.saturating_sub(progress.step);
    progress.elapsed.mul_f64(steps_left as f64 / progress.step.max(1) as f64)
}

/// An evaluation, with the step after which it was.
pub fn at_step(mut evaluation: Value, step: u64) -> Value {
    evaluation["step"] = step.into();
    evaluation
}

/// The measurements, under the reference's names where it has them.
pub fn to_json(kind: &str, progress: &Progress) -> Value {
    let mut object = json!({
        "kind": kind,
        "step": progress.step,
        "total_steps": progress.total_steps,
    });
    // Absent, not null, where there is none or not the task.
    if !progress.has_no_loss() {
        object["loss"] = progress.loss.into();
        object["lm_example_loss"] = progress.lm_example_loss.into();
        object["masked_lm_accuracy"] = progress.masked_lm_accuracy.into();
        if let (Some(loss), Some(accuracy)) = (progress.next_sentence_loss, progress.next_sentence_accuracy) {
            object["next_sentence_loss"] = loss.into();
            object["next_sentence_accuracy"] = accuracy.into();
        }
        object["grad_norm"] = progress.grad_norm.into();
    }
    if progress.left_out > 0 {
        object["left_out"] = progress.left_out.into();
    }
    if let Some(scale) = progress.loss_scale {
        object["loss_scale"] = scale.into();
    }
    object["learning_rate"] = progress.learning_rate.into();
    object["tokens_per_second"] = progress.tokens_per_second.into();
    object["elapsed_seconds"] = progress.elapsed.as_secs_f64().into();
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        Progress {
            step: 20,
            total_steps: 100,
            loss: 7.5,
            lm_example_loss: 6.8125,
            masked_lm_accuracy: 0.125,
            next_sentence_loss: Some(0.6875),
            next_sentence_accuracy: Some(0.5),
            grad_norm: 2.0,
            left_out: 0,
            loss_scale: None,
            learning_rate: 1.5e-3,
            tokens_per_second: 1234.5,
            elapsed: Duration::from_secs(10),
        }
    }

    fn started() -> Started {
        Started {
            adapter: "llvmpipe".into(),
            kernels: "subgroup (by class)".into(),
            parameters: 58_000,
            bytes: (3 << 20) + 1,
            dispatches: 60,
            gradient_accumulation_steps: 1,
            notice: None,
            uniform_loss: 6.931,
            unigram_loss: 5.604,
        }
    }

    #[test]
    fn a_line_has_every_measurement_and_both_baselines() {
        let with = losses(&progress(), &started());
        assert_eq!(with, "loss 7.500  MLM 6.812 (ln V 6.93, unigram 5.60) 12.5 %  NSP 0.688 50.0 %");
        let without = Progress { next_sentence_loss: None, next_sentence_accuracy: None, ..progress() };
        assert!(!losses(&without, &started()).contains("NSP"));
        assert!(introduction(&started()).contains("58000 parameters on llvmpipe, with 4 MiB"));
        assert!(introduction(&started()).contains("\nKernels: subgroup (by class).\n"));
    }

    #[test]
    fn the_time_left_follows_the_pace() {
        assert_eq!(pace(&progress()), "lr 1.50e-3  1234 tokens/s  00:00:40 left");
        let end = Progress { step: 100, ..progress() };
        assert_eq!(pace(&end), "lr 1.50e-3  1234 tokens/s  00:00:10 in all");
        let scaled = Progress { loss_scale: Some(32768.0), ..end };
        assert_eq!(pace(&scaled), "lr 1.50e-3  scale 32768  1234 tokens/s  00:00:10 in all");
    }

    #[test]
    fn json_bears_the_names_of_the_reference() {
        let object = to_json("progress", &progress());
        // First, as in the objects of the other commands.
        assert_eq!(object.as_object().unwrap().keys().next().unwrap(), "kind");
        for (key, value) in [
            ("step", 20.0),
            ("loss", 7.5),
            ("lm_example_loss", 6.8125),
            ("masked_lm_accuracy", 0.125),
            ("next_sentence_loss", 0.6875),
            ("next_sentence_accuracy", 0.5),
            ("tokens_per_second", 1234.5),
        ] {
            assert_eq!(object[key].as_f64(), Some(value), "{key}");
        }
        let without = Progress { next_sentence_loss: None, next_sentence_accuracy: None, ..progress() };
        assert!(to_json("done", &without).get("next_sentence_loss").is_none());
        assert!(object.get("left_out").is_none() && object.get("loss_scale").is_none());
        let skipped = Progress { left_out: 1, loss_scale: Some(0.5), ..progress() };
        let object = to_json("progress", &skipped);
        assert_eq!((&object["left_out"], &object["loss_scale"]), (&1.into(), &0.5.into()));
        let none = Progress { loss: f32::NAN, lm_example_loss: f32::NAN, left_out: 20, ..progress() };
        assert!(to_json("progress", &none).as_object().unwrap().values().all(|value| !value.is_null()));
        assert_eq!(losses(&none, &started()), "no loss: all these steps were left out");
        let told = "1 of the steps up to 20 was left out: a loss or a gradient was not finite. The loss scale of the next \
                    step is 0.5.";
        assert_eq!(skipped.left_out_notice().as_deref(), Some(told));
    }
}
