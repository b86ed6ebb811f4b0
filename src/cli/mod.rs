//! The command line: one thin file per subcommand.
//!
//! Human text goes to stderr, results to stdout. Exit codes: 0 done, 1 another process of the run failed,
//! 2 bad usage or input, 3 no strategy, 4 device failure, 5 diverged, 130 Ctrl-C.

mod argv;
mod bench;
mod bundled;
mod create_pretraining_data;
mod device_flags;
mod devices;
mod error;
mod evaluate;
mod evaluation;
mod examples;
mod export;
mod fill_mask;
mod guesses;
mod input;
mod input_files;
mod inspect;
mod inspect_plan;
mod interrupt;
mod known_kernels;
mod output;
mod output_files;
mod pretrain;
mod refused;
mod self_test;
mod step_flags;
mod text_progress;
mod train_vocab;

use std::ffi::OsString;
use std::num::NonZero;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use error::CliError;

/// Pre-train BERT (masked words and next sentences) on a GPU through WebGPU.
#[derive(Parser)]
#[command(version, args_override_self = true, after_help = "In flag names, - and _ are the same.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Pretrain(Box<pretrain::PretrainFlags>),
    CreatePretrainingData(Box<create_pretraining_data::CreatePretrainingDataFlags>),
    TrainVocab(train_vocab::TrainVocabFlags),
    #[command(mut_args(inspect_plan::sort_out))]
    Inspect(Box<inspect::InspectFlags>),
    Evaluate(evaluate::EvaluateFlags),
    FillMask(fill_mask::FillMaskFlags),
    Export(export::ExportFlags),
    Devices(devices::DevicesFlags),
    SelfTest(self_test::SelfTestFlags),
    Bench(bench::BenchFlags),
}

impl Command {
    fn json(&self) -> bool {
        match self {
            Self::Pretrain(flags) => flags.json,
            Self::CreatePretrainingData(flags) => flags.json,
            Self::TrainVocab(flags) => flags.json,
            Self::Inspect(flags) => flags.json,
            Self::Evaluate(flags) => flags.json,
            Self::FillMask(flags) => flags.json,
            Self::Export(flags) => flags.json,
            Self::Devices(flags) => flags.json,
            Self::SelfTest(flags) => flags.json,
            Self::Bench(flags) => flags.json,
        }
    }

    /// `matches` are those of the subcommand.
    fn run(self, matches: &ArgMatches) -> Result<(), CliError> {
        let count = pretrain::started_by_mpirun();
        if count > 1 && !matches!(self, Self::Pretrain(_)) {
            return Err(CliError::ProcessesAlike { count });
        }
        match self {
            Self::Pretrain(flags) => pretrain::run(*flags, matches),
            Self::CreatePretrainingData(flags) => create_pretraining_data::run(*flags),
            Self::TrainVocab(flags) => train_vocab::run(&flags),
            Self::Inspect(flags) => inspect::run(&flags),
            Self::Evaluate(flags) => evaluate::run(&flags),
            Self::FillMask(flags) => fill_mask::run(flags),
            Self::Export(flags) => export::run(&flags),
            Self::Devices(flags) => devices::run(&flags),
            Self::SelfTest(flags) => self_test::run(&flags),
            Self::Bench(flags) => bench::run(&flags),
        }
    }
}

/// One for each core.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Run the command with these arguments, the program's name first.
pub fn run(argv: Vec<OsString>) -> ExitCode {
    std::panic::set_hook(Box::new(output::bug));
    // Known before the rest is understood: what is wrong with it is told as asked, too.
    let json = argv.iter().any(|arg| arg == "--json");
    let (command, matches) = match parse(argv) {
        Ok(parsed) => parsed,
        Err(error) => return error.report(json),
    };
    let json = command.json();
    match command.run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(json),
    }
}

/// The subcommand, and the matches it was made from.
fn parse(argv: Vec<OsString>) -> Result<(Command, ArgMatches), CliError> {
    let command = Cli::command();
    let argv = argv::normalise(argv, &command)?;
    let mut matches = command.try_get_matches_from(argv)?;
    let Cli { command } = Cli::from_arg_matches(&matches)?;
    let (_, matches) = matches.remove_subcommand().unwrap_or_default();
    Ok((command, matches))
}
