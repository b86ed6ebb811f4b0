//! The checkpoint whose model was evaluated best.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wgpu_bert::checkpoint::{CheckpointError, RunFolder};
use wgpu_bert::train::TrainingCheckpoint;

/// It is the one that says so of itself, so nothing else has to be kept in step with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    pub step: u64,
    pub loss: f64,
    pub path: PathBuf,
}

impl Best {
    /// Among the checkpoints of a run's folder for whose steps `counts` holds: the first of those with the lowest loss on
    /// the examples with the checksum `data`, or on any.
    pub fn find(
        model_dir: &Path,
        data: Option<&str>,
        counts: impl Fn(u64) -> bool,
    ) -> Result<Option<Self>, CheckpointError> {
        let checkpoints = RunFolder::checkpoints(model_dir)?.into_iter();
        let evaluated = checkpoints.filter(|(step, _)| counts(*step)).filter_map(|(step, path)| {
            // One that cannot be read is none to keep.
            let record = fs::read(path.join(TrainingCheckpoint::RECORD)).ok()?;
            let evaluation = TrainingCheckpoint::read_evaluation(&record)?;
            let is_comparable = data.is_none_or(|data| data == evaluation.data);
            is_comparable.then_some(Self { step, loss: evaluation.loss, path })
        });
        Ok(evaluated.min_by(|a, b| a.loss.total_cmp(&b.loss)))
    }

    pub fn to_json(&self) -> Value {
        json!({"step": self.step, "loss": self.loss, "path": self.path.display().to_string()})
    }

    pub fn to_text(&self) -> String {
        let Self { step, loss, path } = self;
        format!(
            "The best evaluation, a loss of {loss:.3}, was after step {step}: that model is in {}.",
            path.display()
        )
    }
}
