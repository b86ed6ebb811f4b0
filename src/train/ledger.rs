//! What the steps measured, made into what is told of them.

use std::collections::VecDeque;
use std::time::Duration;

use web_time::Instant;

use super::suspicion::{Suspicion, Watch};
use super::{PretrainOptions, Progress, Snapshot, StepMetrics, TrainError, Trainer};
use crate::data::Batcher;
use crate::optimizer::Culprit;

/// Steps in a row that are left out before a run that skips them gives up.
const MOST_LEFT_OUT: u64 = 10;

/// Shows the time spent training: it stands still while the run is paused.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    since: Instant,
    /// What it showed then.
    before: Duration,
    /// How long it stood still.
    paused: Duration,
}

impl Clock {
    /// Of a run that trained for `before` already.
    pub fn new(before: Duration) -> Self {
        Self { since: Instant::now(), before, paused: Duration::ZERO }
    }

    /// Training begins only now.
    pub fn start(&mut self) {
        self.since = Instant::now();
    }

    pub fn elapsed(&self) -> Duration {
        (self.before + self.since.elapsed()).saturating_sub(self.paused)
    }

    /// Nothing was trained since `start`.
    pub fn paused_since(&mut self, start: Instant) {
        self.paused += start.elapsed();
    }
}

/// Times and counts the steps told of.
#[derive(Clone)]
pub(super) struct Ledger<'a> {
    pub clock: Clock,
    options: &'a PretrainOptions,
    /// When the loop told of last was submitted.
    last: Duration,
    /// When the loops not yet told of were. The device is at most two steps behind.
    loops: VecDeque<Duration>,
    steps: u64,
    left_out_in_a_row: u64,
    /// Steps so far after which the schedule stood still.
    skipped: u64,
    batch_tokens: usize,
    watch: Watch,
    /// Not told yet.
    pub suspicion: Option<Suspicion>,
}

impl<'a> Ledger<'a> {
    /// Of a run that goes on from `start`.
    pub fn new(options: &'a PretrainOptions, batch_tokens: usize, start: &Snapshot) -> Self {
        let scale = options.optimizer.loss_scale.map(|scale| scale.go_on_from(start.loss_scale));
        let (in_a_row, skipped) = scale.map_or((0, 0), |scale| (scale.skipped_in_a_row, scale.skipped));
        Self {
            clock: Clock::new(start.elapsed),
            options,
            last: start.elapsed,
            loops: VecDeque::new(),
            steps: start.step,
            left_out_in_a_row: in_a_row.into(),
            skipped: skipped.into(),
            batch_tokens,
            watch: Watch::default(),
            suspicion: None,
        }
    }

    /// The learning rate of a step after what was told so far.
    fn learning_rate(&self, step: u64) -> f64 {
        self.options.schedule.learning_rate(step.saturating_sub(self.skipped))
    }

    /// To what it was, but for the time.
    pub fn go_back_to(&mut self, earlier: &Self) {
        *self = Self { clock: self.clock, ..earlier.clone() };
    }

    /// All steps of a loop are on their way.
    pub fn submitted_loop(&mut self) {
        self.loops.push_back(self.clock.elapsed());
    }

    /// What the steps of the oldest loop not yet told of measured.
    pub fn progress(
        &mut self,
        metrics: &[StepMetrics],
        trainer: &Trainer,
        batcher: &Batcher,
    ) -> Result<Progress, TrainError> {
        for record in metrics {
            let Some(culprit) = record.culprit else {
                self.left_out_in_a_row = 0;
                let losses = [record.lm_example_loss, record.next_sentence_loss];
                let rate = self.learning_rate(record.step.into());
                self.suspicion = self.watch.see(losses, rate).or(self.suspicion);
                continue;
            };
            self.left_out_in_a_row += 1;
            self.skipped += u64::from(self.options.optimizer.loss_scale.is_some());
            if self.options.optimizer.halts() || self.left_out_in_a_row >= MOST_LEFT_OUT {
                let step = u64::from(record.step);
                return Err(diverged(trainer, batcher, self.options, step, culprit, self.left_out_in_a_row));
            }
        }
        let end = self.loops.pop_front().unwrap_or(self.last);
        let seconds = end.saturating_sub(self.last).as_secs_f64();
        self.last = end;
        self.steps += metrics.len() as u64;
        // What was left out has no numbers to speak of.
        let made: Vec<_> = metrics.iter().filter(|record| record.culprit.is_none()).collect();
        let mean = |value: fn(&StepMetrics) -> f32| {
            (made.iter().map(|m| f64::from(value(m))).sum::<f64>() / made.len() as f64) as f32
        };
        let (mlm, nsp) = (mean(|m| m.lm_example_loss), mean(|m| m.next_sentence_loss));
        let Self { options, .. } = self;
        Ok(Progress {
            step: self.steps,
            total_steps: options.schedule.total_steps,
            loss: mlm + nsp,
            lm_example_loss: mlm,
            masked_lm_accuracy: mean(|m| m.masked_lm_accuracy),
            next_sentence_loss: options.use_next_sentence_label.then_some(nsp),
            next_sentence_accuracy: options
                .use_next_sentence_label
                .then(|| mean(|m| m.next_sentence_accuracy)),
            grad_norm: mean(|m| m.grad_norm),
            left_out: (metrics.len() - made.len()) as u64,
            loss_scale: metrics.last().and_then(|record| record.loss_scale),
            learning_rate: self.learning_rate(self.steps) as f32,
            tokens_per_second: (metrics.len() * self.batch_tokens) as f64 / seconds.max(1e-9),
            elapsed: self.clock.elapsed(),
        })
    }
}

/// The error of step `step`, from 0, which is the last of so many `in_a_row`.
pub(super) fn diverged(
    trainer: &Trainer,
    batcher: &Batcher,
    options: &PretrainOptions,
    step: u64,
    culprit: Culprit,
    in_a_row: u64,
) -> TrainError {
    let per_pass = batcher.batches_per_epoch() as u64;
    let what = match culprit {
        Culprit::MlmLoss => "the masked-LM loss".into(),
        Culprit::NspLoss => "the next-sentence loss".into(),
        Culprit::Norm => "the norm of all gradients".into(),
        Culprit::Gradient(variable) => {
            let parameter = trainer.step().table.parameters.get(variable);
            format!("the gradient of {}", parameter.map_or("a parameter", |parameter| &parameter.name))
        }
    };
    TrainError::Diverged {
        step: step + 1,
        batch: step % per_pass + 1,
        pass: step / per_pass + 1,
        what,
        in_a_row,
        loss_scale: options.optimizer.loss_scale,
    }
}
