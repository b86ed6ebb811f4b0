//! Checkpoints of a run: taken between two steps, written by a thread of their own while training goes on.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde_json::json;
use wgpu_bert::checkpoint::{CheckpointError, ModelFolder, RunFolder};
use wgpu_bert::train::{EvaluationRecord, Event, RunRecord, Running, TrainError, TrainingCheckpoint};

use super::super::output;
use super::best::Best;
use super::resolve::CheckpointPlan;

/// Takes checkpoints when they are due.
pub struct Saver {
    plan: CheckpointPlan,
    model: ModelFolder,
    record: RunRecord,
    /// Checksum of what the model is evaluated on.
    eval_data: Option<String>,
    /// The last evaluation and its step.
    evaluated: Option<(u64, EvaluationRecord)>,
    /// The step of an evaluation that was the best so far, until its checkpoint is taken.
    best_at: Option<u64>,
    /// Among those that are written.
    best: Arc<Mutex<Option<Best>>>,
    /// The step of the last one.
    step: u64,
    at: Instant,
    /// Takes one when the one before is written: no more than two are in memory.
    queue: SyncSender<TrainingCheckpoint>,
    writer: JoinHandle<Option<PathBuf>>,
}

/// What the thread needs.
pub struct Writer {
    pub folder: RunFolder,
    pub keep: usize,
    /// Where the best one is told.
    pub best: Arc<Mutex<Option<Best>>>,
    /// The checkpoint gone on from.
    pub newest: Option<PathBuf>,
    /// To be set aside before the first is written, with why.
    pub superseded: Vec<(u64, &'static str)>,
    pub json: bool,
}

impl Saver {
    /// `model` and `record` are those of every checkpoint, but for the weights.
    pub fn new(
        plan: CheckpointPlan,
        model: ModelFolder,
        record: RunRecord,
        eval_data: Option<String>,
        writer: Writer,
        tell: impl Fn(&str) + Send + 'static,
    ) -> Self {
        let (queue, checkpoints) = sync_channel(0);
        let best = writer.best.clone();
        let writer = thread::spawn(move || writer.write_all(&checkpoints, &tell));
        let (evaluated, best_at, step, at) = (None, None, 0, Instant::now());
        Self { plan, model, record, eval_data, evaluated, best_at, best, step, at, queue, writer }
    }

    /// Does what an event calls for.
    pub async fn listen(&mut self, event: &Event, running: &Running<'_>) -> Result<(), TrainError> {
        let step = running.step();
        match event {
            Event::Started(started) => {
                self.record.adapter.clone_from(&started.adapter);
                (self.step, self.at) = (step, Instant::now());
                Ok(())
            }
            Event::Step(_) if self.is_due(step) => self.take(running).await,
            Event::Evaluated(evaluation) => {
                let (loss, data) = (evaluation.loss(), self.eval_data.clone().unwrap_or_default());
                self.evaluated = Some((step, EvaluationRecord { loss, data }));
                let is_best = lock(&self.best).as_ref().is_none_or(|best| loss < best.loss);
                self.best_at = is_best.then_some(step).or(self.best_at);
                Ok(())
            }
            Event::Ended if step > self.step || self.best_at == Some(step) => self.take(running).await,
            _ => Ok(()),
        }
    }

    fn is_due(&self, step: u64) -> bool {
        let is_time = step.is_multiple_of(self.plan.every_steps) || self.at.elapsed() >= self.plan.every;
        step > self.step && is_time || self.best_at == Some(step)
    }

    async fn take(&mut self, running: &Running<'_>) -> Result<(), TrainError> {
        let snapshot = match running.snapshot().await {
            // The run comes by here again, on another device.
            Err(error) if error.is_loss() => return Ok(()),
            taken => taken?,
        };
        self.best_at = None;
        (self.step, self.at) = (snapshot.step, Instant::now());
        // A run that has diverged keeps the last good one.
        if snapshot.is_finite() {
            let evaluated = self.evaluated.as_ref().filter(|(step, _)| *step == self.step);
            let evaluation = evaluated.map(|(_, evaluation)| evaluation.clone());
            let checkpoint = TrainingCheckpoint {
                evaluation,
                ..TrainingCheckpoint::new(snapshot, &self.model, self.record.clone())
            };
            // The thread ends after this end of the queue only, unless it has a bug, which it has told.
            let _ = self.queue.send(checkpoint);
        }
        Ok(())
    }

    /// Waits until all is written; the newest checkpoint there is, and the best.
    pub fn finish(self) -> (Option<PathBuf>, Option<Best>) {
        drop(self.queue);
        let newest = self.writer.join().ok().flatten();
        (newest, lock(&self.best).take())
    }
}

fn lock(best: &Mutex<Option<Best>>) -> MutexGuard<'_, Option<Best>> {
    best.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    fn write_all(
        mut self,
        checkpoints: &Receiver<TrainingCheckpoint>,
        tell: &impl Fn(&str),
    ) -> Option<PathBuf> {
        for checkpoint in checkpoints {
            let step = checkpoint.snapshot.step;
            match self.write(checkpoint, tell) {
                Ok(()) if self.json => {
                    let path = self.newest.as_ref().map(|path| path.display().to_string());
                    // A stdout that fails is told of with the next measurement.
                    let _ = output::result(json!({"kind": "checkpoint", "step": step, "path": path}));
                }
                Ok(()) => {}
                Err(error) => {
                    let kept = match &self.newest {
                        Some(path) => format!("{} is kept", path.display()),
                        None => "There is none before it".into(),
                    };
                    tell(&format!("No checkpoint of step {step}: {error}. {kept}; the run goes on."));
                }
            }
        }
        self.newest
    }

    fn write(&mut self, checkpoint: TrainingCheckpoint, tell: &impl Fn(&str)) -> Result<(), CheckpointError> {
        for (step, why) in std::mem::take(&mut self.superseded) {
            let aside = self.folder.set_aside(step)?;
            tell(&format!("The checkpoint of step {step} is now {}: {why}.", aside.display()));
        }
        let (step, evaluation) = (checkpoint.snapshot.step, checkpoint.evaluation.clone());
        let path = self.folder.write(step, &checkpoint.into_files()?)?;
        self.newest = Some(path.clone());
        let mut best = lock(&self.best);
        if let Some(EvaluationRecord { loss, .. }) = evaluation
            && best.as_ref().is_none_or(|best| loss < best.loss)
        {
            *best = Some(Best { step, loss, path });
        }
        let besides = best.as_ref().map(|best| best.step);
        drop(best);
        self.folder.keep_newest(self.keep, besides)
    }
}
