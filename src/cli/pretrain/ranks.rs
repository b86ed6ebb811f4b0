//! The ranks of a run under `multi_worker_mirrored`: the first one reads checkpoints, writes and tells; the others take the
//! same steps.

use std::env;
use std::time::Duration;

use serde_json::{Map, Value, json};
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::strategy::{Strategy, Team};
use wgpu_bert::train::{Control, PretrainOptions, PretrainRun, RunRecord, Snapshot};

use super::super::device_flags::DeviceFlags;
use super::super::error::CliError;
use super::super::{interrupt, output};
use super::record::differences;
use wgpu_bert::data::TrainingData;

/// The ranks of the run that the flags ask for, where there are several. All but the first are silent from here on.
pub fn join(flags: &DeviceFlags) -> Result<Option<Team>, CliError> {
    if !flags.is_multi_worker() {
        return match started_by_mpirun() {
            0 | 1 => Ok(None),
            count => Err(CliError::ProcessesApart { count }),
        };
    }
    let team = by_mpi();
    match &team {
        Some(team) if team.rank() > 0 => output::hush(team.rank()),
        Some(team) if team.count() > 1 => {
            output::note(format_args!(
                "{} processes train together; rank 0 writes the messages.",
                team.count()
            ));
        }
        Some(_) => output::note("One process trains alone: mpirun -n N starts N that train together."),
        None => {}
    }
    Ok(team)
}

/// How many processes Open MPI's `mpirun` started, this one among them.
pub fn started_by_mpirun() -> usize {
    env::var("OMPI_COMM_WORLD_SIZE").ok().and_then(|count| count.parse().ok()).unwrap_or_default()
}

#[cfg(feature = "mpi")]
fn by_mpi() -> Option<Team> {
    wgpu_bert::strategy::Mpi::join().map(Team::new)
}

#[cfg(not(feature = "mpi"))]
fn by_mpi() -> Option<Team> {
    None
}

/// Waits at the end for all others, or lets them know that this one has failed.
///
/// An error is told here: once a process has ended with one, `mpirun` ends the others, and what they have not told is lost.
pub fn leave(team: Option<&Team>, done: Result<(), CliError>, json: bool) -> Result<(), CliError> {
    let Some(team) = team else { return done };
    let done = match done {
        Ok(()) | Err(CliError::Interrupted { .. }) => team.meet(&[]).map_err(CliError::from).and(done),
        Err(error) => {
            team.fail(&error.to_string());
            Err(error)
        }
    };
    let done = done.map_err(|error| {
        error.report(json);
        CliError::Told { exit_code: error.exit_code() }
    });
    team.wait();
    done
}

/// What the first rank knows before it reads any data.
pub struct Ahead {
    /// Is nothing left to be done?
    pub is_finished: bool,
    /// The vocabulary of the checkpoint that the run goes on from.
    pub vocabulary: Option<String>,
}

impl Ahead {
    /// That of the first rank, to all.
    pub fn of_first(self, team: Option<&Team>) -> Result<Self, CliError> {
        let Some(team) = team else { return Ok(self) };
        let told = json!([self.is_finished, self.vocabulary]).to_string();
        let told = team.broadcast(told.into_bytes())?;
        let (is_finished, vocabulary) = serde_json::from_slice(&told).unwrap_or_default();
        Ok(Self { is_finished, vocabulary })
    }
}

/// Are all ranks asked for the same?
pub fn check_alike(
    team: Option<&Team>,
    record: &RunRecord,
    config: &BertConfig,
    vocabulary: &str,
) -> Result<(), CliError> {
    let Some(team) = team else { return Ok(()) };
    let sizes: Value = serde_json::from_str(&config.to_hugging_face_json()).unwrap_or_default();
    let mut mine =
        Map::from_iter([("the model".to_owned(), sizes), ("the vocabulary".into(), vocabulary.into())]);
    mine.extend(record.options.clone());
    mine.insert("the examples' checksum".into(), record.data.clone().into());
    // Adapters may differ.
    mine.remove("kernels");
    let first = team.broadcast(Value::Object(mine.clone()).to_string().into_bytes())?;
    let first: Map<String, Value> = serde_json::from_slice(&first).unwrap_or_default();
    // As they are after a file, like the other's.
    let mine: Map<String, Value> = serde_json::from_str(&Value::Object(mine).to_string()).unwrap_or_default();
    let changes = differences(&first, &mine);
    if changes.is_empty() {
        return Ok(());
    }
    // A vocabulary would fill the screen.
    let short = |change: String| change.chars().take(200).collect();
    Err(CliError::OtherThanRank0 { changes: changes.into_iter().map(short).collect() })
}

/// Where the run of the first rank starts, to all.
pub fn start_of_first(team: Option<&Team>, start: Option<Snapshot>) -> Result<Option<Snapshot>, CliError> {
    let Some(team) = team else { return Ok(start) };
    let mut bytes = Vec::new();
    if let Some(start) = start {
        bytes.extend(start.step.to_le_bytes());
        bytes.extend((start.elapsed.as_nanos() as u64).to_le_bytes());
        bytes.extend(u64::from(start.evaluated).to_le_bytes());
        bytes.extend(start.into_safetensors()?);
    }
    let bytes = team.broadcast(bytes)?;
    let Some((head, tensors)) = bytes.split_at_checked(24) else { return Ok(None) };
    let mut words = head.chunks(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    let mut word = || words.next().unwrap_or_default();
    let (step, elapsed, evaluated) = (word(), Duration::from_nanos(word()), word() != 0);
    let start = Snapshot::from_safetensors(step, elapsed, tensors, "the checkpoint of rank 0")?;
    Ok(Some(Snapshot { evaluated, ..start }))
}

/// What a rank other than the first does: the same steps, and nothing of what is written or told.
pub fn follow(
    strategy: &Strategy,
    options: &PretrainOptions,
    data: TrainingData,
    start: Option<&Snapshot>,
) -> Result<(), CliError> {
    let interrupt = interrupt::listen()?;
    let trained = pollster::block_on(async {
        let run = PretrainRun::prepare(Some(strategy), options, data, start, |_| {}).await?;
        let goes_on = || if interrupt.asked() { Control::Stop } else { Control::Continue };
        run.train(&mut [], async |_, _| goes_on()).await
    })?;
    match trained.stopped {
        true => Err(CliError::Interrupted { told: String::new() }),
        false => Ok(()),
    }
}
