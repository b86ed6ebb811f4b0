//! What the checkpoints of a run take of its disk, told before it starts.

use std::time::Duration;

use indicatif::{HumanBytes, HumanDuration};
use wgpu_bert::checkpoint::RunFolder;
use wgpu_bert::model::parameters::parameter_shapes;

use super::super::error::CliError;
use super::super::output;
use super::resolve::{CheckpointPlan, PretrainArgs};

/// Tells size and number of the checkpoints, and when there is too little room; an error if there is none for one.
pub fn check(args: &PretrainArgs) -> Result<(), CliError> {
    let dir = &args.model_dir;
    let notes = notes(args, RunFolder::free_space(dir)?, RunFolder::checkpoints(dir)?.len())?;
    notes.into_iter().for_each(output::note);
    Ok(())
}

/// What is to be told where so many bytes are free and so many checkpoints there.
pub(super) fn notes(args: &PretrainArgs, free: u64, there: usize) -> Result<Vec<String>, CliError> {
    let CheckpointPlan { every_steps, every, keep } = args.checkpoints;
    let (model, checkpoint) = sizes(args);
    let dir = &args.model_dir;
    // Each is written beside those that are kept, and so is the model.
    let (best, and_best) = if args.eval_files.is_some() { (1, " and the best") } else { (0, "") };
    let needed = (keep + best + 1).saturating_sub(there).max(1) as u64 * checkpoint + 2 * model;
    let least = checkpoint + model;
    if free < least {
        return Err(CliError::NoRoom { dir: dir.clone(), free, needed: least });
    }
    let mut notes = vec![format!(
        "A checkpoint of {} every {every_steps} steps and every {}, the newest {keep}{and_best} kept, in {}",
        HumanBytes(checkpoint),
        duration(every),
        dir.display(),
    )];
    if free < needed {
        notes.push(format!(
            "The disk has {} free, but they and the model take up to {}: make room, or keep fewer with \
             --keep_checkpoint_max.",
            HumanBytes(free),
            HumanBytes(needed)
        ));
    }
    Ok(notes)
}

/// Bytes of the model and of a checkpoint, which holds two moments of every trained weight besides.
fn sizes(args: &PretrainArgs) -> (u64, u64) {
    let weights = |next_sentence| -> u64 {
        let shapes = parameter_shapes(&args.options.config, next_sentence).into_iter();
        shapes.map(|(_, shape)| shape.into_iter().product::<usize>() as u64).sum()
    };
    // Names and shapes in front of the numbers, configuration, vocabulary and its other form.
    let rest = 64 * 1024 + 64 * args.options.config.vocab_size as u64;
    let model = 4 * weights(true) + rest;
    (model, model + 8 * weights(args.options.use_next_sentence_label))
}

fn duration(time: Duration) -> String {
    HumanDuration(time).to_string()
}
