//! `create_pretraining_data`: text of any size → TFRecord files, in memory that does not grow with it.
//!
//! Three passes. The text becomes ids, each token once, in a [`store::Store`]. Every visit to a document makes its
//! instances with a random stream of its own, so that all cores work without waiting for each other and their number does
//! not matter; instances go into the buckets of a [`shuffle::Shuffler`]. Bucket after bucket becomes records. What does not
//! stay in memory lies in files without names beside the output.

mod count;
mod encode;
mod ids;
mod lines;
mod output;
mod parallel;
mod room;
mod shuffle;
mod spill;
mod store;
mod survey;
mod text;
mod training;
mod write;

pub use count::count_words;
pub use survey::{TextSurvey, survey_text};
pub use text::TextSource;
pub use training::{TextData, training_data};

use super::instances::{InstanceView, Instances, visit};
use super::masking::Masker;
use super::stream_random::StreamRandom;
use super::{DataReport, Error, FeatureNames, Features, InstanceOptions, Tokenizer};
use encode::BatchEncoder;
use ids::IdWidth;
use output::Output;
use shuffle::{Shuffler, write_entry};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use store::{Store, StoreReader};
use text::{Batches, Counters};
use write::{write_in_order, write_shuffled};

/// Sentences whose instances are made at a time, and the most visits to each.
const SHARE: u64 = 1024;
const VISITS: usize = 64;
/// Instances wait in memory up to so many bytes before they go to their buckets.
const WAITING: usize = 1 << 20;

/// How text is read.
#[derive(Clone, Debug, PartialEq)]
pub struct TextOptions {
    /// A file's first document continues the last one of the file before, as in the reference.
    pub documents_run_on: bool,
    /// Lines are JSON objects with the text of a document in this field.
    pub json_field: Option<String>,
    /// Threads that work at a time; results do not depend on it.
    pub threads: usize,
}

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

/// A pass over the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Text becomes ids. Counts bytes.
    Tokenizing,
    /// Documents become instances. Counts sentences.
    Pairing,
    /// Instances become records. Counts instances.
    Writing,
}

/// How far a pass has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeneratorProgress {
    /// The pass.
    pub stage: Stage,
    /// What is done.
    pub done: u64,
    /// What there is to do, where that can be known.
    pub total: Option<u64>,
}

/// Makes TFRecord files of training instances from text. `progress` is told how far it is, and may break it off.
///
/// Nothing stands under the outputs' names before everything is written.
///
/// # Errors
/// When an option is out of its range, the text cannot be read or does not make instances that mean something (see
/// [`create_instances`](super::create_instances)), or the files cannot be written; [`Error::Interrupted`] when `progress`
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
    let store = tokenize(sources, tokenizer, &options.text, folder, &counters, &mut tell)?;
    options.instances.check_pairs(store.documents, store.sentences, &origin)?;
    let made = if options.reference_order {
        room::check_memory(&store, &options.instances)?;
        let documents = store.load(origin)?;
        let instances = Instances::make(&documents, tokenizer.vocabulary(), &options.instances)?;
        write_in_order(&instances, options, &mut output, &mut tell)?
    } else {
        let (shuffler, _) =
            pair(&store, tokenizer, &options.instances, options.text.threads, folder, &mut tell)?;
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

/// Tells how far a pass is; an error breaks it off.
type Tell<'a> = &'a mut dyn FnMut(Stage, u64, Option<u64>) -> Result<(), Error>;

fn tell(
    progress: &mut dyn FnMut(GeneratorProgress) -> ControlFlow<()>,
) -> impl FnMut(Stage, u64, Option<u64>) -> Result<(), Error> {
    |stage, done, total| match progress(GeneratorProgress { stage, done, total }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Interrupted),
    }
}

/// Reads all text.
///
/// # Errors
/// When it has no token, or cannot be read.
fn tokenize(
    sources: Vec<TextSource>,
    tokenizer: &Tokenizer,
    options: &TextOptions,
    folder: &Path,
    counters: &Counters,
    tell: Tell,
) -> Result<Store, Error> {
    let (files, origin) = (sources.len(), TextSource::name_all(&sources));
    let total = sources.iter().map(TextSource::bytes).sum();
    let batches = Batches::new(sources, options.documents_run_on, counters.clone());
    let width = IdWidth::below(tokenizer.vocabulary().size());
    let mut store = Store::new(folder, width);
    let worker = || {
        let mut encoder = BatchEncoder::new(tokenizer, width, options.json_field.as_deref());
        move |batch| encoder.encode(&batch)
    };
    parallel::ordered(options.threads, batches, worker, |encoded| {
        tell(Stage::Tokenizing, counters.read.load(Ordering::Relaxed), total)?;
        store.append(&encoded)
    })?;
    store.finish()?;
    if store.documents == 0 { Err(counters.nothing(files, origin)) } else { Ok(store) }
}

/// Wide enough for ids and positions.
fn entry_width(tokenizer: &Tokenizer, options: &InstanceOptions) -> IdWidth {
    IdWidth::below(tokenizer.vocabulary().size().max(options.max_seq_length))
}

/// What all instances amount to.
#[derive(Default)]
struct Tally {
    random_next: u64,
    /// How often each token is the one to be guessed.
    guesses: Vec<u64>,
}

impl Tally {
    fn add(&mut self, instance: &InstanceView) {
        self.random_next += u64::from(instance.is_random_next);
        instance.masked.iter().for_each(|(_, id)| self.guesses[*id as usize] += 1);
    }

    /// Leaves nothing in `other`.
    fn merge(&mut self, other: &mut Self) {
        self.random_next += std::mem::take(&mut other.random_next);
        self.guesses.iter_mut().zip(&mut other.guesses).for_each(|(sum, n)| *sum += std::mem::take(n));
    }
}

/// Makes the instances of all visits to all documents.
fn pair(
    store: &Store,
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
    threads: usize,
    folder: &Path,
    tell: Tell,
) -> Result<(Shuffler, Tally), Error> {
    let InstanceOptions { dupe_factor, random_seed, .. } = *options;
    room::check_disk(store, options, folder)?;
    let width = entry_width(tokenizer, options);
    // An instance takes about as many bytes again for what is masked, and of random pairs a part is used twice.
    let bytes = store.kept_tokens(options).saturating_mul(width.bytes() as u64 * 2);
    let empty = || Tally { random_next: 0, guesses: vec![0; tokenizer.vocabulary().size()] };
    let made = Mutex::new((Shuffler::new(folder, bytes), empty()));
    let hand_over = |entries: &mut Vec<u8>, tally: &mut Tally| {
        let (shuffler, sum) = &mut *made.lock().unwrap_or_else(PoisonError::into_inner);
        sum.merge(tally);
        let result = shuffler.append(entries, width);
        entries.clear();
        result
    };
    let worker = || {
        let mut reader = StoreReader::new(store);
        let mut masker = Masker::new(tokenizer.vocabulary(), options);
        let mut rng = StreamRandom::new(random_seed);
        let (mut tokens, mut masked, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        let mut tally = empty();
        move |(documents, visits): (Range<usize>, Range<usize>)| {
            let done = reader.sentences_of(documents.clone())? * visits.len() as u64;
            for (document, dupe) in
                documents.flat_map(|document| visits.clone().map(move |dupe| (document, dupe)))
            {
                rng.start(document as u64 * dupe_factor as u64 + dupe as u64);
                visit(&mut reader, document, options, &mut rng, |pair, is_random_next, rng| {
                    tokens.clear();
                    masked.clear();
                    let key = rng.bits();
                    masker.assemble(pair, rng, &mut tokens, &mut masked);
                    let first_length = pair.0.len() + 2;
                    let instance =
                        InstanceView { tokens: &tokens, first_length, masked: &masked, is_random_next };
                    tally.add(&instance);
                    write_entry(key, instance, width, &mut waiting);
                    if waiting.len() < WAITING { Ok(()) } else { hand_over(&mut waiting, &mut tally) }
                })?;
            }
            hand_over(&mut waiting, &mut tally)?;
            Ok(done)
        }
    };
    // However often a text is gone through, a share of the work stays small.
    let shares = (0..dupe_factor).step_by(VISITS).flat_map(|first| {
        let visits = first..dupe_factor.min(first + VISITS);
        store.shares(SHARE).map(move |share| share.map(|documents| (documents, visits.clone())))
    });
    let mut done = 0;
    parallel::ordered(threads, shares, worker, |visited| {
        done += visited;
        tell(Stage::Pairing, done / dupe_factor as u64, Some(store.sentences))
    })?;
    Ok(made.into_inner().unwrap_or_else(PoisonError::into_inner))
}
