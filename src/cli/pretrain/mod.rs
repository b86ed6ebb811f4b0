//! `wgpu-bert pretrain`: guard, options, text, training, model, guesses.

mod best;
mod config_file;
mod curves;
mod flags;
mod init;
mod prepare;
mod progress;
mod ranks;
mod record;
mod resolve;
mod resume;
mod saving;
mod space;
mod stopped;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use clap::{ArgMatches, FromArgMatches};
use serde_json::json;
use wgpu_bert::checkpoint::import::ImportSource;
use wgpu_bert::checkpoint::{ModelFolder, NamedTensor, RunFolder};
use wgpu_bert::data::{Tokenizer, TrainingData};
use wgpu_bert::gpu::AdapterKind;
use wgpu_bert::strategy::{Strategy, Team};
use wgpu_bert::train::{Control, Event, PretrainRun, RunRecord, Snapshot, Trained, fill_masks};

pub use config_file::read as read_config_file;
pub use flags::{PretrainFlags, positive, precision, probability, range};
pub use init::list as list_tensors;
pub use ranks::started_by_mpirun;

use super::error::{CliError, DIVERGED};
use super::{bundled, guesses, interrupt, known_kernels, output};
use best::Best;
use curves::Curves;
use prepare::{Prepared, prepare};
use progress::Reporter;
use ranks::Ahead;
use resolve::{PretrainArgs, VocabularySource, resolve};
use resume::Found;
use saving::{Saver, Writer};
use stopped::{quoted, stopped_after, to_go_on_from};

/// What the weights are before the first step.
enum Begin {
    AtRandom,
    With(Vec<NamedTensor>),
    GoOn(Box<Found>),
}

/// `matches` are those that `flags` were made from: they know which flags were given.
pub fn run(flags: PretrainFlags, matches: &ArgMatches) -> Result<(), CliError> {
    let (team, json) = (ranks::join(&flags.device)?, flags.json);
    ranks::leave(team.as_ref(), run_as(team.as_ref(), flags, matches), json)
}

/// The same as one of several ranks.
fn run_as(team: Option<&Team>, flags: PretrainFlags, matches: &ArgMatches) -> Result<(), CliError> {
    let mut strategy = flags.device.strategy()?;
    if let Some(team) = team {
        strategy = strategy.in_team(team.clone());
    }
    let is_first = team.is_none_or(|team| team.rank() == 0);
    let (json, resume) = (flags.json, flags.resume.resume.clone());
    let confirmed = flags.resume.confirm_changes;
    let init = flags.model.init_checkpoint.as_deref().map(ImportSource::open).transpose()?;
    let software = strategy.adapter.kind == AdapterKind::Software;
    let mut args = arguments(flags, matches, init.as_ref(), software)?;
    // Before any data is read.
    args.options.check()?;
    for warning in &args.warnings {
        output::note(warning);
    }
    let total_steps = args.options.schedule.total_steps;
    let found = match is_first {
        true => resume::find(resume.as_ref(), &args.model_dir, total_steps)?,
        false => None,
    };
    let is_finished = found.as_ref().is_some_and(|found| found.checkpoint.snapshot.step >= total_steps);
    let vocabulary = found.as_ref().map(|found| found.checkpoint.model.vocabulary.clone());
    let Ahead { is_finished, vocabulary } = Ahead { is_finished, vocabulary }.of_first(team)?;
    if is_finished {
        return found.map_or(Ok(()), |found| finished_before(&found, &args, json));
    }
    if let (Some(vocabulary), VocabularySource::Trained(_)) = (vocabulary, &args.vocabulary) {
        let folder = found.as_ref().map_or(&args.model_dir, |found| &found.path);
        let origin = folder.join("vocab.txt").display().to_string();
        args.vocabulary = VocabularySource::Given(vocabulary, origin);
    }
    let Prepared { tokenizer, data, checksum, eval_checksum } = prepare(&mut args)?;
    if let Some(found) = &found {
        found.checkpoint.record.recall(&mut strategy);
    }
    let strategy = known_kernels::measure(strategy, args.options.device);
    let record = record::record(&args, &strategy, data.count(), checksum);
    if let Some(found) = &found {
        let vocabulary = tokenizer.vocabulary().to_text();
        record::check_same(found, &strategy.names(), &record, &args.options.config, &vocabulary, confirmed)?;
    }
    ranks::check_alike(team, &record, &args.options.config, &tokenizer.vocabulary().to_text())?;
    if !is_first {
        let start = ranks::start_of_first(team, None)?;
        return ranks::follow(&strategy, &args.options, data, start.as_ref());
    }
    let begin = match (found, init) {
        (Some(found), _) => Begin::GoOn(Box::new(found)),
        (None, Some(init)) => Begin::With(init::weights(init, &args.options)?),
        (None, None) => Begin::AtRandom,
    };
    ModelFolder::check_writable(&args.model_dir)?;
    train(&strategy, args, &tokenizer, data, (record, eval_checksum), begin, json)
}

/// A run whose last step is done: its model is where it belongs, and nothing else changes.
fn finished_before(found: &Found, args: &PretrainArgs, json: bool) -> Result<(), CliError> {
    let (step, dir) = (found.checkpoint.snapshot.step, &args.model_dir);
    let model = &found.checkpoint.model;
    // It may have been killed just before its model was saved.
    if ModelFolder::load(dir).ok().as_ref() != Some(model) {
        RunFolder::claim(dir)?;
        model.save(dir)?;
        output::note(format_args!("The model of {} is now in {}.", found.path.display(), dir.display()));
    }
    output::note(format_args!(
        "The run in {} is finished: all {step} steps are done. To go on with it, give more --num_train_epochs and \
         --confirm_changes.",
        dir.display()
    ));
    if json {
        let dir = dir.display().to_string();
        output::result(json!({"kind": "done", "step": step, "total_steps": step, "model_dir": dir}))?;
    }
    Ok(())
}

/// The run that flags and --bert_config_file ask for; a flag that was given wins.
fn arguments(
    flags: PretrainFlags,
    matches: &ArgMatches,
    init: Option<&ImportSource>,
    software: bool,
) -> Result<PretrainArgs, CliError> {
    let (config, options) = match &flags.model.bert_config_file {
        None => (None, flags.options),
        Some(path) => {
            let (config, mut options) = config_file::read(path)?;
            options.update_from_arg_matches(matches)?;
            (Some(config), options)
        }
    };
    resolve(&flags.model, &options, config, init, software, flags.device.options())
}

fn train(
    strategy: &Strategy,
    args: PretrainArgs,
    tokenizer: &Tokenizer,
    data: TrainingData,
    (record, eval_checksum): (RunRecord, Option<String>),
    begin: Begin,
    json: bool,
) -> Result<(), CliError> {
    let mut reporter = Reporter::new(args.options.schedule.total_steps, json);
    let (interrupt, tell) = (interrupt::listen()?, reporter.teller());
    interrupt.answer(move || {
        tell("Finishing the steps under way, then saving. Ctrl-C again ends at once, without saving.");
    });
    let (newest, superseded, start) = match begin {
        Begin::AtRandom => (None, Vec::new(), None),
        Begin::With(weights) => (None, Vec::new(), Some(Snapshot::start_from(&args.options, weights))),
        Begin::GoOn(found) => {
            let Found { path, checkpoint, superseded } = *found;
            let (step, total) = (checkpoint.snapshot.step, args.options.schedule.total_steps);
            output::note(format_args!("Going on after step {step} of {total}, from {}", path.display()));
            (Some(path), superseded, Some(checkpoint.into_snapshot()))
        }
    };
    let start = ranks::start_of_first(strategy.team.as_ref(), start)?;
    let folder = RunFolder::claim(&args.model_dir)?;
    let still_counts = |step| superseded.iter().all(|(other, _)| *other != step);
    let best = Best::find(&args.model_dir, eval_checksum.as_deref(), still_counts)?;
    let best = Arc::new(Mutex::new(best));
    let writer = Writer { folder, keep: args.checkpoints.keep, best, newest, superseded, json };
    let model = model_folder(&args, tokenizer, Vec::new());
    let mut saver = Saver::new(args.checkpoints, model, record, eval_checksum, writer, reporter.teller());
    let mut curves = Curves::new(&args.model_dir, args.train_summary_interval, reporter.teller());
    let mut failed = None;
    let trained = pollster::block_on(async {
        let prepare = |event| reporter.preparing(event);
        let run = PretrainRun::prepare(Some(strategy), &args.options, data, start.as_ref(), prepare);
        run.await?
            .train(&mut [], async |event, running| {
                if let Event::Evaluated(evaluation) = &event {
                    // Before the checkpoint, so that one that is there is one that was told of.
                    curves.evaluated(running.step(), evaluation);
                    reporter.evaluated(running.step(), evaluation);
                }
                let mut done = saver.listen(&event, running).await.map_err(CliError::from);
                match event {
                    Event::Started(started) => {
                        reporter.started(started);
                        curves.started(running.step());
                        done = done.and_then(|()| space::check(&args));
                    }
                    Event::Suspicious(suspicion) => reporter.suspicious(suspicion),
                    Event::Evaluating { done, instances } => reporter.evaluating(done, instances),
                    Event::DeviceLost { step, message } => reporter.device_lost(step, &message),
                    Event::DeviceAwaited { why, after } => reporter.device_awaited(&why, after),
                    Event::Compiling(_)
                    | Event::Step(_)
                    | Event::Evaluated(_)
                    | Event::DeviceReplaced(_)
                    | Event::Ended => {}
                    Event::Progress(progress) => {
                        curves.progress(&progress);
                        reporter.progress(progress);
                    }
                }
                if let Err(error) = done {
                    failed = Some(error);
                    return Control::Stop;
                }
                if interrupt.asked() { Control::Stop } else { Control::Continue }
            })
            .await
    });
    let (checkpoint, best) = saver.finish();
    reporter.finish()?;
    let trained = match failed {
        None => trained.map_err(CliError::from),
        Some(error) => Err(error),
    };
    let trained = trained.inspect_err(|error| match &checkpoint {
        // With the same options it would diverge again.
        Some(path) if error.exit_code() == DIVERGED => {
            output::note(format_args!("The last checkpoint is {}.", path.display()));
        }
        Some(path) => output::note(to_go_on_from(path)),
        None => {}
    })?;
    let first_step = start.map_or(0, |start| start.step);
    if trained.stopped && trained.steps == first_step {
        return Err(CliError::Interrupted { told: "Stopped before a step; nothing was saved.".into() });
    }
    let Trained { tensors, steps, stopped, last, replicas } = trained;
    if let Some(replicas) = &replicas {
        output::note(progress::of_replicas(replicas));
    }
    let model = model_folder(&args, tokenizer, tensors);
    model.save(&args.model_dir).inspect_err(|_| {
        if let Some(path) = &checkpoint {
            output::note(to_go_on_from(path));
        }
    })?;
    if let Some(last) = &last {
        curves.finish(last, best.as_ref());
    }
    let dir = args.model_dir.display();
    if stopped {
        return Err(CliError::Interrupted { told: stopped_after(steps, &args.model_dir, checkpoint) });
    }
    output::note(format_args!("Saved in {dir}"));
    if let Some(best) = &best {
        output::note(best.to_text());
    }

    let mut filled = Vec::new();
    if args.input_files.is_none() {
        let gpu = Arc::new(pollster::block_on(strategy.open(args.options.device))?);
        let (config, probes) = (&model.config, &bundled::PROBES);
        filled = pollster::block_on(fill_masks(&gpu, config, &model.tensors, tokenizer, probes, 5))?;
    }
    let filled: Vec<_> = bundled::PROBES.into_iter().zip(&filled).collect();
    if json {
        let start = || json!({"kind": "done"});
        let mut done = last.as_ref().map_or_else(start, |progress| progress::to_json("done", progress));
        done["model_dir"] = dir.to_string().into();
        if let Some(best) = &best {
            done["best_checkpoint"] = best.to_json();
        }
        done["guesses"] = filled.iter().map(|(text, guesses)| guesses::to_json(text, guesses)).collect();
        reporter.add_start(&mut done);
        return output::result(done);
    }
    for (text, guesses) in filled {
        output::result(guesses::to_text(text, guesses))?;
    }
    // As it was called itself: built but not installed, it is not on the path.
    let program = std::env::args_os().next().unwrap_or_else(|| "wgpu-bert".into());
    let (program, dir) = (quoted(&program.display().to_string()), quoted(&dir.to_string()));
    output::note(format_args!("Try your own: {program} fill-mask --model {dir} \"... [MASK] ...\""));
    Ok(())
}

fn model_folder(args: &PretrainArgs, tokenizer: &Tokenizer, tensors: Vec<NamedTensor>) -> ModelFolder {
    ModelFolder {
        config: args.options.config.clone(),
        tensors,
        vocabulary: tokenizer.vocabulary().to_text(),
        do_lower_case: args.do_lower_case,
        strip_accents: args.strip_accents,
        tokenizer_json: Some(tokenizer.to_tokenizer_json()),
    }
}
