//! Everything that ends a command early, and its exit code.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::HumanBytes;
use serde_json::json;
use wgpu_bert::checkpoint::CheckpointError;
use wgpu_bert::data;
use wgpu_bert::model::config::ConfigError;
use wgpu_bert::strategy::{StrategyError, WorkersError};
use wgpu_bert::train::TrainError;
use wgpu_bert::train::self_test::SelfTestError;

use super::output;

/// The exit code of a device that failed, or computes wrong numbers.
const DEVICE_FAILED: u8 = 4;
/// The exit code where another process has failed.
const OTHER_FAILED: u8 = 1;
/// The exit code of a run whose loss, gradients or weights are no numbers.
pub const DIVERGED: u8 = 5;

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The parser's error, or the help or version it was asked for.
    #[error("{0}")]
    Usage(#[from] clap::Error),
    #[error("--{flag} is a flag of TensorFlow's run_pretraining that is not taken here: {reason}.")]
    Refused { flag: String, reason: &'static str },
    #[error("--model_dir is missing: say where the model is to be saved.")]
    NoModelDir,
    #[error(
        "mpirun started {count} processes, each of which would train by itself: give \
         --distribution_strategy multi_worker_mirrored, or start one without mpirun."
    )]
    ProcessesApart { count: usize },
    #[error(
        "mpirun started {count} processes, each of which would do the same, since only pretrain is done by several: start \
         one without mpirun."
    )]
    ProcessesAlike { count: usize },
    /// What ended this process was told before.
    #[error("")]
    Told { exit_code: u8 },
    #[error("--{flag} \"{list}\" has an empty name: give names with commas between.")]
    EmptyFileName { flag: &'static str, list: String },
    #[error("{pattern} does not match any files.")]
    NoFiles { pattern: String },
    #[error("{pattern} is no pattern of file names: {problem}.")]
    BadPattern { pattern: String, problem: String },
    #[error("cannot write {}: there is no folder {}; make it first.", path.display(), folder.display())]
    NoOutputFolder { path: PathBuf, folder: PathBuf },
    #[error("cannot write {}: it is no file; give the name of one.", path.display())]
    OutputIsNoFile { path: PathBuf },
    #[error("cannot write {}: it is read, too, and would be lost; give another --output_file.", path.display())]
    OutputIsRead { path: PathBuf },
    #[error("cannot write {} twice: give each name in --output_file once.", path.display())]
    OutputTwice { path: PathBuf },
    #[error("stdin can be read only once: give - once.")]
    StdinTwice,
    #[error(
        "--num_eval_per_epoch says how often the model is evaluated on the examples of --eval_files: give those, too, or \
         leave it out."
    )]
    NothingToEvaluate,
    #[error(
        "--scale_loss belongs to the sums of --compat=seed; without it the loss is that of the whole batch, whatever the \
         number of devices: leave it out."
    )]
    ScaleLossAlone,
    #[error("--{flag} is about half precision: give --dtype fp16, too, or leave it out.")]
    NotInFp16 { flag: &'static str },
    #[error("{origin} holds finished examples; --{flag} is about making them of text, so leave it out.")]
    FlagForText { flag: &'static str, origin: String },
    #[error(
        "{origin} holds numbers of a vocabulary: give that vocabulary with --vocab_file, so that the model can be used."
    )]
    RecordsNeedVocabulary { origin: String },
    #[error(
        "{origin} holds no vocabulary, without which its numbers mean nothing: give it with --vocab_file."
    )]
    WeightsNeedVocabulary { origin: String },
    #[error("{origin} does not say what model it is of: give its configuration with --bert_config_file.")]
    WeightsNeedConfig { origin: String },
    #[error("{origin} has its own beside it: leave --{flag} out.")]
    HasItsOwn { flag: &'static str, origin: String },
    #[error(
        "{origin} is of an encoder alone, without the masked-LM head that an export must have: train one with \
         `wgpu-bert pretrain --init_checkpoint`."
    )]
    NoMaskedLmHead { origin: String },
    #[error("{origin} is damaged, or its training had diverged: {tensor} holds what is not a number.")]
    NotFinite { origin: String, tensor: String },
    #[error(
        "{} holds checkpoints, but no final model: give one of them, like {}.", dir.display(), newest.display()
    )]
    NoFinalModel { dir: PathBuf, newest: PathBuf },
    #[error(
        "{origin} was trained with the activation {theirs}, but the model asked for has {ours}: give neither \
         --bert_config_file nor --model_size, and the model is the one it was."
    )]
    OtherActivation { origin: String, theirs: &'static str, ours: &'static str },
    #[error("--{flag} is {given}, but in {origin} it is {found}: give {found}, or leave the flag out.")]
    OtherShape { flag: &'static str, given: usize, origin: String, found: usize },
    #[error(
        "{total_steps} steps are too many: at most 4294967295 (--num_steps_per_epoch times --num_train_epochs)."
    )]
    TooManySteps { total_steps: u64 },
    #[error("{origin}: {problem}")]
    ConfigFile { origin: String, problem: String },
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error(
        "{} is no file, and a pipe can be read only once: save what it gives to a file, and give that.",
        path.display()
    )]
    ReadOnlyOnce { path: PathBuf },
    #[error("{} is a folder: give a file of text or of training examples.", path.display())]
    Folder { path: PathBuf },
    #[error("{}", not_empty(dir, *newest, *total_steps))]
    NotEmpty { dir: PathBuf, newest: Option<u64>, total_steps: u64 },
    #[error(
        "{} holds a model, but no checkpoint to go on from. Give another --model_dir for a new run.", dir.display()
    )]
    NothingToResume { dir: PathBuf },
    #[error("{} has no checkpoint of step {step}; {}.", dir.display(), steps_there(there))]
    NoSuchCheckpoint { dir: PathBuf, step: u64, there: Vec<u64> },
    #[error(
        "--resume names a checkpoint that is not in {}, which is not empty: give an empty --model_dir, to which the run \
         goes on, or the checkpoint's own.",
        dir.display()
    )]
    ResumeElsewhere { dir: PathBuf },
    #[error("No checkpoint in {} can be used: start anew in another --model_dir.", dir.display())]
    NoWholeCheckpoint { dir: PathBuf },
    #[error(
        "{} is of another model:\n  {}\nGive the options that its run was started with.",
        checkpoint.display(),
        changes.join("\n  ")
    )]
    OtherModel { checkpoint: PathBuf, changes: Vec<String> },
    #[error(
        "Since {} was written the run has changed:\n  {}\nGive --confirm_changes to go on like this, or the options that \
         it was started with to go on as if never stopped.",
        checkpoint.display(),
        changes.join("\n  ")
    )]
    ChangedRun { checkpoint: PathBuf, changes: Vec<String> },
    #[error(
        "The disk of {} has {} free, but a checkpoint and the model take {}: make room, or choose another --model_dir.",
        dir.display(),
        HumanBytes(*free),
        HumanBytes(*needed)
    )]
    NoRoom { dir: PathBuf, free: u64, needed: u64 },
    #[error(
        "other than rank 0, this one was started so:\n  {}\nGive all ranks the same options and data.", changes.join("\n  ")
    )]
    OtherThanRank0 { changes: Vec<String> },
    #[error("cannot read stdin: {0}")]
    Stdin(io::Error),
    #[error("There is no text: give one with [MASK] as an argument, or on stdin.")]
    NoText,
    #[error("cannot write to stdout: {0}")]
    Output(io::Error),
    #[error("cannot listen for Ctrl-C: {0}")]
    Signal(ctrlc::Error),
    #[error("{adapter} computes wrong numbers: update its driver, or choose another adapter with --adapter.")]
    WrongNumbers { adapter: String },
    #[error("{told}")]
    Interrupted { told: String },
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    #[error(transparent)]
    Workers(#[from] WorkersError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Data(#[from] data::Error),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    SelfTest(#[from] SelfTestError),
}

fn not_empty(dir: &Path, newest: Option<u64>, total_steps: u64) -> String {
    let dir = dir.display();
    match newest {
        Some(step) if step >= total_steps => format!(
            "{dir} holds a model that has done all its {step} steps; `fill-mask --model` asks it. For a new run give \
             another folder by --model_dir."
        ),
        Some(step) => format!(
            "{dir} holds a run with a checkpoint of step {step}: go on with it by --resume=auto, or give another \
             --model_dir for a new one."
        ),
        None => format!(
            "{dir} is not empty: give an empty --model_dir, or --resume=auto to go on with a run that was stopped in it \
             before its first checkpoint."
        ),
    }
}

fn steps_there(steps: &[u64]) -> String {
    match steps {
        [] => "there is none at all".into(),
        steps => {
            let steps: Vec<_> = steps.iter().map(u64::to_string).collect();
            format!("there are those of {}", steps.join(", "))
        }
    }
}

impl CliError {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(error) => u8::try_from(error.exit_code()).unwrap_or(2),
            Self::Train(TrainError::Diverged { .. } | TrainError::BadWeights { .. }) => DIVERGED,
            Self::Train(
                TrainError::Gpu(_)
                | TrainError::WrongNumbers { .. }
                | TrainError::Drift { .. }
                | TrainError::SelfTest(_)
                | TrainError::LostAgain { .. }
                | TrainError::NotReplaced { .. },
            )
            | Self::SelfTest(SelfTestError::Gpu(_))
            | Self::WrongNumbers { .. } => DEVICE_FAILED,
            Self::Told { exit_code } => *exit_code,
            Self::Interrupted { .. } => 130,
            Self::Workers(_) | Self::Train(TrainError::Workers(_)) => OTHER_FAILED,
            _ if self.strategy().is_some() => 3,
            _ => 2,
        }
    }

    fn strategy(&self) -> Option<&StrategyError> {
        match self {
            Self::Strategy(error) | Self::Train(TrainError::Strategy(error)) => Some(error),
            _ => None,
        }
    }

    /// Tell the user, as JSON on stdout too when that was asked for, and hand over the exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        if let Self::Told { exit_code } = self {
            return ExitCode::from(*exit_code);
        }
        if let Self::Usage(error) = self {
            // Colours, and help to stdout. A reader that went away does not matter.
            let _ = error.print();
        } else {
            output::note(self);
        }
        // Help is no error.
        if json && self.exit_code() != 0 {
            let message = self.to_string();
            let mut object =
                json!({"kind": "error", "exit_code": self.exit_code(), "message": message.trim_end()});
            if let Some(error) = self.strategy() {
                object["code"] = error.code().into();
                object["reason"] = error.reason().into();
                object["advice"] = error.advice().into();
            }
            // The exit code tells of this error already; one more about stdout would hide it.
            let _ = output::result(object);
        }
        ExitCode::from(self.exit_code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgpu_bert::gpu::GpuError;

    #[test]
    fn a_device_that_fails_has_an_exit_code_of_its_own() {
        let lost = GpuError::Lost { reason: "the driver was restarted".into() };
        for error in [
            TrainError::LostAgain { losses: 3, step: 7, message: lost.to_string() },
            TrainError::NotReplaced { why: "llvmpipe is gone".into() },
            TrainError::Gpu(lost),
        ] {
            assert_eq!(CliError::from(error).exit_code(), 4);
        }
        assert_eq!(CliError::from(TrainError::BadWeights { step: 7 }).exit_code(), 5);
        assert_eq!(CliError::from(TrainError::Strategy(StrategyError::NotGiven)).exit_code(), 3);
        assert_eq!(CliError::from(TrainError::NoLoss).exit_code(), 2);
    }
}
