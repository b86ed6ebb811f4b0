//! Text of any size → instances to train on, or TFRecord files of them, in memory that does not grow with it.
//!
//! Three passes. The text becomes ids, each token once, in a [`store::Store`]. Every visit to a document makes its
//! instances with a random stream of its own, so that all cores work without waiting for each other and their number does
//! not matter; instances go into the buckets of a [`shuffle::Shuffler`]. Bucket after bucket becomes records. What does not
//! stay in memory lies on a [`disk::Disk`].
//!
//! Passes are `async` for the browser's sake, where everything else waits for them now and then; natively they wait for
//! nothing.

mod count;
#[cfg(not(target_family = "wasm"))]
mod create;
#[cfg(target_family = "wasm")]
#[path = "web_disk.rs"]
mod disk;
#[cfg(not(target_family = "wasm"))]
mod disk;
mod encode;
mod ids;
mod lines;
#[cfg(not(target_family = "wasm"))]
mod output;
#[cfg(target_family = "wasm")]
#[path = "serial.rs"]
mod parallel;
#[cfg(not(target_family = "wasm"))]
mod parallel;
mod room;
mod shuffle;
mod spill;
mod store;
#[cfg(not(target_family = "wasm"))]
mod survey;
mod text;
mod training;
#[cfg(not(target_family = "wasm"))]
mod write;

pub use count::count_words;
#[cfg(not(target_family = "wasm"))]
pub use create::{Generated, GeneratorOptions, create_pretraining_data};
pub use disk::Disk;
pub(super) use spill::Spill;
#[cfg(not(target_family = "wasm"))]
pub use survey::{TextSurvey, survey_text};
pub(super) use text::Counted;
pub use text::TextSource;
pub use training::{TextData, TextInstances, training_data};

use super::instances::{InstanceView, visit};
use super::masking::Masker;
use super::stream_random::StreamRandom;
use super::{Error, InstanceOptions, Tokenizer};
use encode::BatchEncoder;
use ids::IdWidth;
use shuffle::{Shuffler, write_entry};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use store::{Store, StoreReader};
use text::{Batches, Counters};

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

/// A pass over the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Records are looked through. Counts bytes.
    Checking,
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
async fn tokenize(
    sources: Vec<TextSource>,
    tokenizer: &Tokenizer,
    options: &TextOptions,
    disk: &Disk,
    counters: &Counters,
    tell: Tell<'_>,
) -> Result<Store, Error> {
    let (files, origin) = (sources.len(), TextSource::name_all(&sources));
    let total = sources.iter().map(TextSource::bytes).sum();
    let batches = Batches::new(sources, options.documents_run_on, counters.clone());
    let width = IdWidth::below(tokenizer.vocabulary().size());
    let mut store = Store::new(disk, width);
    let worker = || {
        let mut encoder = BatchEncoder::new(tokenizer, width, options.json_field.as_deref());
        move |batch| encoder.encode(&batch)
    };
    parallel::ordered(options.threads, batches, worker, |encoded| {
        tell(Stage::Tokenizing, counters.read.load(Ordering::Relaxed), total)?;
        store.append(&encoded)
    })
    .await?;
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
async fn pair(
    store: &Store,
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
    threads: usize,
    disk: &Disk,
    tell: Tell<'_>,
) -> Result<(Shuffler, Tally), Error> {
    let InstanceOptions { dupe_factor, random_seed, .. } = *options;
    room::check_disk(store, options, disk)?;
    let width = entry_width(tokenizer, options);
    // An instance takes about as many bytes again for what is masked, and of random pairs a part is used twice.
    let bytes = store.kept_tokens(options).saturating_mul(width.bytes() as u64 * 2);
    let empty = || Tally { random_next: 0, guesses: vec![0; tokenizer.vocabulary().size()] };
    let made = Mutex::new((Shuffler::new(disk, bytes), empty()));
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
    })
    .await?;
    Ok(made.into_inner().unwrap_or_else(PoisonError::into_inner))
}
