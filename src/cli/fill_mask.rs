//! `wgpu-bert fill-mask`: what a saved model guesses for masked words.

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use wgpu_bert::checkpoint::ModelFolder;
use wgpu_bert::data::{Tokenizer, Vocabulary};
use wgpu_bert::train::fill_masks;

use super::device_flags::DeviceFlags;
use super::error::CliError;
use super::{guesses, output};

/// Print the likeliest words for every [MASK] of a text
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct FillMaskFlags {
    /// Text with [MASK] where words are to be guessed [default: every line of stdin is one]
    text: Option<String>,
    /// Folder of a model in Hugging Face's form, as `wgpu-bert pretrain` saves it
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Words to print for each mask
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    top_k: usize,
    /// One JSON object for each text
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    device: DeviceFlags,
}

pub fn run(flags: FillMaskFlags) -> Result<(), CliError> {
    let strategy = flags.device.strategy()?;
    let model = ModelFolder::load(&flags.model)?;
    let origin = flags.model.join("vocab.txt").display().to_string();
    let tokenizer = Tokenizer::new(Vocabulary::parse(&model.vocabulary, &origin)?, model.do_lower_case)
        .with_strip_accents(model.strip_accents);
    let texts = match flags.text {
        Some(text) => vec![text],
        None => lines()?,
    };
    let prompts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let gpu = Arc::new(pollster::block_on(strategy.open(flags.device.options()))?);
    let filled = pollster::block_on(fill_masks(
        &gpu,
        &model.config,
        &model.tensors,
        &tokenizer,
        &prompts,
        flags.top_k,
    ))?;
    for (text, guesses) in prompts.into_iter().zip(&filled) {
        if guesses.cropped > 0 {
            let (cropped, limit) = (guesses.cropped, model.config.max_position_embeddings);
            output::note(format_args!(
                "The model reads {limit} tokens; {cropped} tokens of this text were left out."
            ));
        }
        if flags.json {
            output::result(guesses::to_json(text, guesses))?;
        } else {
            output::result(guesses::to_text(text, guesses))?;
        }
    }
    Ok(())
}

/// The lines of stdin that are not blank.
fn lines() -> Result<Vec<String>, CliError> {
    if io::stdin().is_terminal() {
        output::note("Type texts with [MASK], one a line; Ctrl-D ends them.");
    }
    let mut lines: Vec<String> =
        io::stdin().lock().lines().collect::<io::Result<_>>().map_err(CliError::Stdin)?;
    lines.retain(|line| !line.trim().is_empty());
    if lines.is_empty() { Err(CliError::NoText) } else { Ok(lines) }
}
