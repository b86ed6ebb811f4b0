//! A run between two steps as files: the folder of the model so far, and beside it what else it takes to go on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Snapshot;
use super::snapshot::LOSS_SCALE;
use crate::checkpoint::{CheckpointError, ModelFolder};
use crate::gpu::KernelFamily;
use crate::strategy::Strategy;

const STATE: &str = "training_state.safetensors";
const RECORD: &str = "training_state.json";
/// Of the two files above; a higher one is of a later version of this program.
const FORMAT: u32 = 1;

/// Everything a run needs to go on, besides its data.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingCheckpoint {
    /// The model so far, with its vocabulary.
    pub model: ModelFolder,
    /// The optimizer's moments; the weights are those of the model.
    pub snapshot: Snapshot,
    /// What the run is.
    pub record: RunRecord,
    /// How well the model does, where it was evaluated after this step.
    pub evaluation: Option<EvaluationRecord>,
}

/// An evaluation of a checkpoint's model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRecord {
    /// Masked-LM plus next-sentence loss, nats.
    pub loss: f64,
    /// A checksum of the instances, in any form that differs for other ones.
    pub data: String,
}

/// What a run is, so that one that goes on can tell whether it is still the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Steps of the whole run.
    pub total_steps: u64,
    /// Everything that decides the numbers, by name: the seed, the schedule, the batch size, …; with `loss_scale` where the
    /// loss is scaled.
    pub options: Map<String, Value>,
    /// Steps of a pass over the data.
    pub steps_per_pass: u64,
    /// A checksum of the instances, in any form that differs for other ones.
    pub data: String,
    /// The adapter that trained; another one computes slightly different numbers.
    pub adapter: String,
    /// For each replica the kernels of its matrix products, where they were measured; empty where none were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fastest: Vec<Option<KernelFamily>>,
}

impl RunRecord {
    /// Gives a strategy the kernels that the run had, if it has the same adapters: a choice that is measured anew could
    /// be another one.
    pub fn recall(&self, strategy: &mut Strategy) {
        if self.adapter == strategy.names() {
            for (adapter, fastest) in strategy.replicas_mut().zip(&self.fastest) {
                adapter.fastest = fastest.filter(|family| adapter.families().contains(family));
            }
        }
    }
}

/// The JSON file.
#[derive(Serialize, Deserialize)]
struct State {
    format: u32,
    /// The version of this crate.
    version: String,
    step: u64,
    /// Time spent training.
    elapsed_seconds: f64,
    /// Where the data goes on, which follows from the step: passes done, and steps done of the next.
    passes: u64,
    steps_of_pass: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    evaluation: Option<EvaluationRecord>,
    #[serde(flatten)]
    run: RunRecord,
}

impl TrainingCheckpoint {
    /// The name of the JSON file.
    pub const RECORD: &'static str = RECORD;

    /// A checkpoint of a snapshot, whose weights move into the model.
    ///
    /// `model` says everything else of it; its tensors are replaced.
    pub fn new(mut snapshot: Snapshot, model: &ModelFolder, record: RunRecord) -> Self {
        let tensors = std::mem::take(&mut snapshot.weights);
        Self { model: ModelFolder { tensors, ..model.clone() }, snapshot, record, evaluation: None }
    }

    /// What a checkpoint tells of its evaluation, from its file [`TrainingCheckpoint::RECORD`] alone.
    pub fn read_evaluation(record: &[u8]) -> Option<EvaluationRecord> {
        serde_json::from_slice(record).ok().and_then(|state: State| state.evaluation)
    }

    /// The snapshot, with the weights.
    pub fn into_snapshot(self) -> Snapshot {
        let evaluated = self.evaluation.is_some();
        Snapshot { weights: self.model.tensors, evaluated, ..self.snapshot }
    }

    /// The files, by name: those of [`ModelFolder::to_files`] and two more.
    ///
    /// # Errors
    /// As [`ModelFolder::to_files`].
    pub fn into_files(self) -> Result<Vec<(&'static str, Vec<u8>)>, CheckpointError> {
        let mut files = self.model.to_files()?;
        drop(self.model); // They hold the same numbers.
        let step = self.snapshot.step;
        let steps_per_pass = self.record.steps_per_pass.max(1);
        let state = State {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").into(),
            step,
            elapsed_seconds: self.snapshot.elapsed.as_secs_f64(),
            passes: step / steps_per_pass,
            steps_of_pass: step % steps_per_pass,
            evaluation: self.evaluation,
            run: self.record,
        };
        let state = serde_json::to_string_pretty(&state).expect("numbers and texts under text keys");
        files.push((STATE, self.snapshot.into_safetensors()?));
        files.push((RECORD, (state + "\n").into_bytes()));
        Ok(files)
    }

    /// Reads what [`TrainingCheckpoint::into_files`] gave; `folder` is for messages.
    ///
    /// # Errors
    /// As [`ModelFolder::from_files`], [`Snapshot::from_safetensors`], and [`CheckpointError::UnusableCheckpoint`].
    pub fn from_files(files: &[(String, Vec<u8>)], folder: &str) -> Result<Self, CheckpointError> {
        let damaged = |problem| CheckpointError::UnusableCheckpoint { folder: folder.into(), problem };
        let find = |wanted: &str| {
            let file = files.iter().find(|(name, _)| name == wanted);
            file.map(|(_, bytes)| bytes).ok_or_else(|| damaged(format!("{wanted} is missing")))
        };
        let record = find(RECORD)?;
        let unreadable = |error| damaged(format!("{RECORD}: {error}"));
        // The format first: in another one the rest may be anything.
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Format { format } = serde_json::from_slice(record).map_err(unreadable)?;
        if format != FORMAT {
            return Err(damaged(format!(
                "{RECORD} has format {format}, but this version reads {FORMAT} only"
            )));
        }
        let state: State = serde_json::from_slice(record).map_err(unreadable)?;
        let model = ModelFolder::from_files(files, folder)?;
        let elapsed = Duration::try_from_secs_f64(state.elapsed_seconds)
            .map_err(|error| damaged(format!("{RECORD}: elapsed_seconds: {error}")))?;
        let state_name = format!("{folder}/{STATE}");
        let snapshot = Snapshot::from_safetensors(state.step, elapsed, find(STATE)?, &state_name)?;
        if state.run.options.contains_key(LOSS_SCALE) && snapshot.loss_scale.is_none() {
            return Err(damaged(format!("{STATE} has no {LOSS_SCALE}")));
        }
        Ok(Self { model, snapshot, record: state.run, evaluation: state.evaluation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::NamedTensor;
    use crate::gpu::{AdapterReport, Survey};
    use crate::model::config::BertConfig;
    use crate::model::parameters::parameter_shapes;
    use crate::strategy::{StrategyRequest, get_distribution_strategy};

    fn checkpoint() -> TrainingCheckpoint {
        let config = BertConfig {
            hidden_size: 4,
            intermediate_size: 6,
            max_position_embeddings: 8,
            ..BertConfig::preset("tiny", 7).unwrap()
        };
        let tensors = |value: f32| -> Vec<NamedTensor> {
            let filled = |(name, shape): (String, Vec<usize>)| NamedTensor {
                data: vec![value; shape.iter().product()],
                name,
                shape,
            };
            parameter_shapes(&config, true).into_iter().map(filled).collect()
        };
        let snapshot = Snapshot {
            step: 25,
            elapsed: Duration::from_millis(2500),
            evaluated: false,
            weights: tensors(1.0),
            first_moments: tensors(2.0),
            second_moments: tensors(3.0),
            loss_scale: None,
        };
        let model = ModelFolder {
            config: config.clone(),
            tensors: vec![],
            vocabulary: "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##é\n".into(),
            do_lower_case: true,
            strip_accents: None,
            tokenizer_json: None,
        };
        let options = serde_json::json!({"seed": u64::MAX, "learning_rate": 1e-3, "train_batch_size": 4});
        let record = RunRecord {
            total_steps: 60,
            options: options.as_object().unwrap().clone(),
            steps_per_pass: 10,
            data: "abc".into(),
            adapter: "llvmpipe".into(),
            fastest: vec![Some(KernelFamily::Tile), None],
        };
        let evaluation = Some(EvaluationRecord { loss: 2.5, data: "def".into() });
        TrainingCheckpoint { evaluation, ..TrainingCheckpoint::new(snapshot, &model, record) }
    }

    fn files() -> Vec<(String, Vec<u8>)> {
        let files = checkpoint().into_files().unwrap().into_iter();
        files.map(|(name, bytes)| (name.to_owned(), bytes)).collect()
    }

    #[test]
    fn a_run_that_goes_on_has_the_kernels_it_had_on_the_same_adapter() {
        let adapters = ["a GPU", "another"].iter().enumerate();
        let adapters = adapters.map(|(index, name)| AdapterReport::made_up(index, name)).collect();
        let survey = Survey { adapters, absences: vec![] };
        let strategy = |adapter| {
            get_distribution_strategy(StrategyRequest::Mirrored, &survey, Some(adapter)).expect("adapters")
        };
        let fastest = vec![Some(KernelFamily::Tile), None];
        let record = RunRecord { adapter: "a GPU + another".into(), fastest, ..checkpoint().record };
        let of = |strategy: &Strategy| strategy.replicas().map(|a| a.fastest).collect::<Vec<_>>();
        let mut same = strategy("0,1");
        record.recall(&mut same);
        assert_eq!(of(&same), record.fastest);
        let mut other = strategy("1,0");
        record.recall(&mut other);
        assert_eq!(of(&other), [None, None]);
    }

    #[test]
    fn files_are_read_back() {
        let read = TrainingCheckpoint::from_files(&files(), "dir").unwrap();
        let mut expected = checkpoint();
        // A list of tensors has no order.
        for list in [&mut expected.snapshot.first_moments, &mut expected.snapshot.second_moments] {
            list.sort_by(|a, b| a.name.cmp(&b.name));
        }
        assert_eq!(read, expected);
        assert_eq!(read.into_snapshot().weights.len(), expected.model.tensors.len());
        // The model in it is one of Hugging Face's.
        assert_eq!(ModelFolder::from_files(&files(), "dir").unwrap(), checkpoint().model);
    }

    #[test]
    fn the_record_tells_where_the_data_goes_on() {
        let (_, record) = files().into_iter().find(|(name, _)| name == RECORD).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        let number = |key: &str| record[key].as_u64().unwrap();
        assert_eq!((number("step"), number("passes"), number("steps_of_pass")), (25, 2, 5));
        assert_eq!(record["elapsed_seconds"], 2.5);
        assert_eq!(record["options"]["seed"], u64::MAX);
        assert_eq!(record["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(record["evaluation"]["loss"], 2.5);
    }

    #[test]
    fn the_evaluation_is_read_from_the_record_alone() {
        let (_, record) = files().into_iter().find(|(name, _)| name == TrainingCheckpoint::RECORD).unwrap();
        assert_eq!(TrainingCheckpoint::read_evaluation(&record), checkpoint().evaluation);
        let without = TrainingCheckpoint { evaluation: None, ..checkpoint() }.into_files().unwrap();
        assert_eq!(TrainingCheckpoint::read_evaluation(&without.last().unwrap().1), None);
        assert_eq!(TrainingCheckpoint::read_evaluation(b"{}"), None);
    }

    #[test]
    fn foreign_files_are_refused() {
        let message = |name: &str, bytes: Option<&[u8]>| {
            let mut files = files();
            files.retain(|(file, _)| file != name);
            files.extend(bytes.map(|bytes| (name.to_owned(), bytes.to_vec())));
            TrainingCheckpoint::from_files(&files, "dir").unwrap_err().to_string()
        };
        for name in [STATE, RECORD] {
            assert_eq!(message(name, None), format!("the checkpoint dir cannot be used: {name} is missing"));
        }
        assert!(message(RECORD, Some(b"{}")).contains("missing field `format`"));
        assert!(message(RECORD, Some(b"[1")).contains(RECORD));
        let later = message(RECORD, Some(br#"{"format": 2}"#));
        assert!(later.contains("format 2, but this version reads 1"), "{later}");
        let (_, record) = files().into_iter().find(|(name, _)| name == RECORD).unwrap();
        let record = String::from_utf8(record).unwrap();
        let scaled = record.replace("\"options\": {", "\"options\": {\"loss_scale\": \"dynamic\",");
        let missing = message(RECORD, Some(scaled.as_bytes()));
        assert!(
            missing.ends_with("dir cannot be used: training_state.safetensors has no loss_scale"),
            "{missing}"
        );
        assert!(message(STATE, Some(b"<html>")).contains("dir/training_state.safetensors"));
    }
}
