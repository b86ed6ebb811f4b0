//! Text → TFRecord files.

use super::disk::Disk;
use super::output::Output;
use super::text::Counters;
use super::write::{write_in_order, write_shuffled};
use super::{GeneratorProgress, TextOptions, TextSource, entry_width, pair, room, tell, tokenize};
use crate::data::{DataReport, Error, FeatureNames, Features, InstanceOptions, Instances, Tokenizer};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// What is to be made, and how.
#[derive(Clone, Debug)]
pub struct GeneratorOptions {
    /// How instances are made.
    pub instances: InstanceOptions,
    /// Whether instances come in the reference's order with its random numbers, which takes all of them in memory.
    pub reference_order: bool,
    /// How the text is read.
    pub text: TextOptions,
    /// Files to write; instances are dealt out to them in turn. At least one.
    pub outputs: Vec<PathBuf>,
    /// Whether the files are packed with gzip.
    pub gzip: bool,
    /// Names of the features.
    pub names: FeatureNames,
}

/// What was made.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Numbers of the text and its instances.
    pub report: DataReport,
    /// Bytes of the text left out because they are not UTF-8.
    pub undecodable: u64,
    /// Files without a byte.
    pub empty_files: u64,
    /// The first instances of the first file.
    pub examples: Features,
}

/// Makes TFRecord files of training instances from text. `progress` is told how far it is, and may break it off.
///
/// Nothing stands under the outputs' names before everything is written.
///
/// # Errors
/// When an option is out of its range, the text cannot be read or does not make instances that mean something (see
/// [`create_instances`](crate::data::create_instances)), or the files cannot be written; [`Error::Interrupted`] when `progress`
/// breaks it off.
pub fn create_pretraining_data(
    sources: Vec<TextSource>,
    tokenizer: &Tokenizer,
    options: &GeneratorOptions,
    progress: &mut dyn FnMut(GeneratorProgress) -> ControlFlow<()>,
) -> Result<Generated, Error> {
    options.instances.check()?;
    let Some(first_output) = options.outputs.first() else {
        let (value, expected) = ("empty".into(), "at least one name".into());
        return Err(Error::BadOption { option: "output_file", value, expected });
    };
    // A bare name has an empty parent.
    let folder = first_output.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let mut output = Output::create(&options.outputs)?;
    let mut tell = tell(progress);
    let origin = TextSource::name_all(&sources);

    let counters = Counters::default();
    let disk = Disk::at(folder);
    let tokenized = tokenize(sources, tokenizer, &options.text, &disk, &counters, &mut tell);
    let store = pollster::block_on(tokenized)?;
    options.instances.check_pairs(store.documents, store.sentences, &origin)?;
    let made = if options.reference_order {
        room::check_memory(&store, &options.instances)?;
        let documents = store.load(origin)?;
        let instances = Instances::make(&documents, tokenizer.vocabulary(), &options.instances)?;
        write_in_order(&instances, options, &mut output, &mut tell)?
    } else {
        let paired = pair(&store, tokenizer, &options.instances, options.text.threads, &disk, &mut tell);
        let (shuffler, _) = pollster::block_on(paired)?;
        if shuffler.instances() == 0 {
            return Err(Error::NoInstances { origin });
        }
        let width = entry_width(tokenizer, &options.instances);
        write_shuffled(&shuffler, width, options, &mut output, &mut tell)?
    };
    output.commit()?;
    Ok(Generated {
        report: store.report(made.instances, made.random_next),
        undecodable: store.undecodable,
        empty_files: counters.empty_files.load(Ordering::Relaxed),
        examples: made.examples,
    })
}
