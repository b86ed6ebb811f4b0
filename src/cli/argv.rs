//! Arguments in the reference's spelling, made into the one spelling the parser knows.
//!
//! `--train-batch-size` is `--train_batch_size`; `--nouse_next_sentence_label` is
//! `--use_next_sentence_label=false`; a flag of the reference that has no meaning here is refused with the reason.

use std::ffi::OsString;

use clap::{Arg, Command};

use super::error::CliError;
use super::refused;

/// Rewrite `argv`, whose first element is the program's name, for `command`.
pub fn normalise(argv: Vec<OsString>, command: &Command) -> Result<Vec<OsString>, CliError> {
    let mut known = command;
    let mut flags_end = false;
    let mut result = Vec::with_capacity(argv.len());
    for (position, arg) in argv.into_iter().enumerate() {
        let text = arg.to_str().filter(|_| position > 0 && !flags_end);
        flags_end |= text == Some("--");
        let arg = match text {
            Some(text) if text.len() > 2 && text.starts_with("--") => normalise_flag(text, known)?.into(),
            Some(text) if !text.starts_with('-') => match command.find_subcommand(text.replace('_', "-")) {
                Some(subcommand) if std::ptr::eq(known, command) => {
                    known = subcommand;
                    subcommand.get_name().into()
                }
                _ => arg,
            },
            _ => arg,
        };
        result.push(arg);
    }
    Ok(result)
}

/// `flag` starts with `--`.
fn normalise_flag(flag: &str, command: &Command) -> Result<String, CliError> {
    let (name, value) = match flag[2..].split_once('=') {
        Some((name, value)) => (name.replace('-', "_"), Some(value)),
        None => (flag[2..].replace('-', "_"), None),
    };
    let find = |name: &str| command.get_arguments().find(|arg| has_name(arg, name));
    if find(&name).is_none() {
        let positive = name.strip_prefix("no").map(|rest| rest.trim_start_matches('_'));
        if let Some(positive) = positive.filter(|name| value.is_none() && find(name).is_some_and(is_boolean))
        {
            return Ok(format!("--{positive}=false"));
        }
        if let Some(reason) = refused::reason(&name).or_else(|| positive.and_then(refused::reason)) {
            return Err(CliError::Refused { flag: name, reason });
        }
    }
    Ok(match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    })
}

/// Is `name` one of the flag's names?
pub fn has_name(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

/// Flags that mean "true" when nothing follows them, and may be given `=false`.
fn is_boolean(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|values| values.min_values() == 0 && values.max_values() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    fn command() -> Command {
        let boolean = |name: &'static str| Arg::new(name).long(name).num_args(0..=1).require_equals(true);
        Command::new("wgpu-bert").subcommand(
            Command::new("fill-mask")
                .arg(Arg::new("train_batch_size").long("train_batch_size").alias("bs"))
                .arg(boolean("use_next_sentence_label"))
                .arg(Arg::new("json").long("json").action(ArgAction::SetTrue))
                .arg(Arg::new("text")),
        )
    }

    fn normalised(args: &str) -> Result<String, CliError> {
        let argv = args.split(' ').map(OsString::from).collect();
        let result = normalise(argv, &command())?;
        Ok(result.into_iter().map(|arg| arg.into_string().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn dashes_and_underscores_are_the_same_in_names_only() {
        for (given, meant) in [
            ("w fill-mask --train-batch-size 3", "w fill-mask --train_batch_size 3"),
            ("w fill-mask --train-batch_size=a-b=c-d", "w fill-mask --train_batch_size=a-b=c-d"),
            ("w fill_mask a_b-c", "w fill-mask a_b-c"),
            ("w fill-mask fill_mask", "w fill-mask fill_mask"),
            ("w fill-mask -- --a-b", "w fill-mask -- --a-b"),
            ("--a-b -V", "--a-b -V"),
        ] {
            assert_eq!(normalised(given).unwrap(), meant);
        }
    }

    #[test]
    fn booleans_are_negated_as_in_the_reference() {
        for (given, meant) in [
            ("w fill-mask --nouse_next_sentence_label", "w fill-mask --use_next_sentence_label=false"),
            ("w fill-mask --no-use-next-sentence-label", "w fill-mask --use_next_sentence_label=false"),
            ("w fill-mask --use-next-sentence-label", "w fill-mask --use_next_sentence_label"),
            ("w fill-mask --use_next_sentence_label=0", "w fill-mask --use_next_sentence_label=0"),
            // No boolean flag is called that: left for the parser to refuse.
            ("w fill-mask --notrain_batch_size", "w fill-mask --notrain_batch_size"),
            ("w fill-mask --nouse_next_sentence_label=1", "w fill-mask --nouse_next_sentence_label=1"),
        ] {
            assert_eq!(normalised(given).unwrap(), meant);
        }
    }

    #[test]
    fn flags_of_the_reference_without_a_meaning_here_are_refused() {
        for flag in ["--num_gpus=2", "--num-gpus", "--norun_eagerly", "--enable_xla=false", "--tpu="] {
            let error = normalised(&format!("w fill-mask {flag}")).unwrap_err();
            assert!(matches!(error, CliError::Refused { .. }), "{flag}: {error}");
        }
    }
}
