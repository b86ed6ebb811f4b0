//! Text of any size → what a run trains on. Few instances are in memory, in the reference's order; many are on disk in a
//! random order, because the reference's takes all of them in memory.

#[cfg(test)]
mod tests;

use super::disk::Disk;
use super::ids::IdWidth;
use super::shuffle::{Scratch, Shuffler, sorted};
use super::text::Counters;
use super::{GeneratorProgress, Stage, Tell, TextOptions, TextSource, entry_width, pair, tell, tokenize};
use crate::data::instances::Visits;
use crate::data::training_data::InstanceSource;
use crate::data::{
    BatchLimits, DataReport, Documents, Error, Features, InstanceOptions, Instances, PythonRandom, Tokenizer,
    TrainingData, Turns, UnigramBaseline,
};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Documents visited between two reports.
const PAUSE: usize = 8;

/// Text as instances to train on.
pub struct TextData {
    /// The instances.
    pub instances: TextInstances,
    /// Numbers of the text and its instances.
    pub report: DataReport,
    /// Bytes of the text left out because they are not UTF-8.
    pub undecodable: u64,
    /// Files without a byte.
    pub empty_files: u64,
    /// SHA-256 of the text's tokens; with the vocabulary and the options it decides all instances.
    #[cfg(not(target_family = "wasm"))]
    pub checksum: String,
}

/// Instances of a text. A copy is of the same ones, and takes no more memory.
#[derive(Clone)]
pub enum TextInstances {
    /// Few, in the reference's order.
    InMemory(Arc<Instances>),
    /// Many, in random order.
    OnDisk(OnDisk),
}

impl TextInstances {
    /// With so many tokens, padding aside, or fewer, instances stay in memory, where they take some 50 MB.
    pub const IN_MEMORY: u64 = 1 << 23;

    /// N.
    pub fn count(&self) -> usize {
        match self {
            Self::InMemory(instances) => instances.count(),
            Self::OnDisk(instances) => instances.count(),
        }
    }

    /// Some of them, which must be there, in the order of a file of records.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn features(&mut self, range: Range<usize>) -> Result<Features, Error> {
        match self {
            Self::InMemory(instances) => Ok(instances.features(range)),
            Self::OnDisk(instances) => instances.read(range, None),
        }
    }
}

impl From<TextInstances> for TrainingData {
    fn from(instances: TextInstances) -> Self {
        match instances {
            TextInstances::InMemory(instances) => instances.into(),
            TextInstances::OnDisk(instances) => Self::from_source(instances),
        }
    }
}

/// Makes instances of text: in memory if they have `most` tokens at most, as a rule [`TextInstances::IN_MEMORY`], and else
/// on `disk`, as long as they are used. The same text, vocabulary and options give the same instances in the same order,
/// whatever the number of threads. `progress` is told how far it is, and may break it off. Natively the future does not
/// wait: poll it once.
///
/// # Errors
/// When an option is out of its range, or the text cannot be read or does not make instances that mean something (see
/// [`create_instances`](crate::data::create_instances)); [`Error::Interrupted`] when `progress` breaks it off.
pub async fn training_data(
    sources: Vec<TextSource>,
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
    text: &TextOptions,
    disk: &Disk,
    most: u64,
    progress: &mut dyn FnMut(GeneratorProgress) -> ControlFlow<()>,
) -> Result<TextData, Error> {
    options.check()?;
    let mut tell = tell(progress);
    let (origin, counters) = (TextSource::name_all(&sources), Counters::default());
    let store = tokenize(sources, tokenizer, text, disk, &counters, &mut tell).await?;
    options.check_pairs(store.documents, store.sentences, &origin)?;
    let (report, instances) = match store.kept_tokens(options) <= most {
        true => {
            let instances = make(&store.load(origin)?, tokenizer, options, &mut tell).await?;
            let random_next = (0..instances.count()).filter(|&n| instances.view(n).is_random_next).count();
            let report = store.report(instances.count() as u64, random_next as u64);
            (report, TextInstances::InMemory(instances.into()))
        }
        false => {
            let (shuffler, tally) = pair(&store, tokenizer, options, text.threads, disk, &mut tell).await?;
            if shuffler.instances() == 0 {
                return Err(Error::NoInstances { origin });
            }
            let report = store.report(shuffler.instances(), tally.random_next);
            let written = Written {
                origin,
                shuffler,
                width: entry_width(tokenizer, options),
                shape: (options.max_seq_length, options.places()),
                guesses: tally.guesses,
            };
            (report, TextInstances::OnDisk(OnDisk { written: Arc::new(written), window: None }))
        }
    };
    Ok(TextData {
        instances,
        report,
        undecodable: store.undecodable,
        empty_files: counters.empty_files.load(Ordering::Relaxed),
        #[cfg(not(target_family = "wasm"))]
        checksum: store.checksum()?,
    })
}

/// Makes the instances in memory; others have their turn between two documents.
async fn make(
    documents: &Documents,
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
    tell: Tell<'_>,
) -> Result<Instances, Error> {
    let sentences: usize = documents.documents.iter().map(Vec::len).sum();
    let (mut visits, mut turns) = (Visits::new(documents, tokenizer.vocabulary(), options)?, Turns::new());
    while visits.one()? {
        if visits.done().is_multiple_of(PAUSE) || visits.done() == visits.total() {
            let done = sentences as f64 * visits.done() as f64 / visits.total() as f64;
            tell(Stage::Pairing, done as u64, Some(sentences as u64))?;
            turns.give().await;
        }
    }
    visits.into_instances()
}

/// Instances on a [`Disk`], in buckets, each of which is a random part of them. An epoch takes the buckets in random order, and the
/// instances of each.
#[derive(Clone)]
pub struct OnDisk {
    written: Arc<Written>,
    window: Option<Window>,
}

struct Written {
    origin: String,
    shuffler: Shuffler,
    width: IdWidth,
    /// S and M.
    shape: (usize, usize),
    /// How often each token is the one to be guessed.
    guesses: Vec<u64>,
}

/// An epoch, and the bucket of it that is in memory.
#[derive(Clone)]
struct Window {
    /// Decides the epoch's order; without it that is the order of the generator's files.
    seed: Option<u64>,
    order: Vec<usize>,
    /// How many instances are before each bucket in this order.
    starts: Vec<usize>,
    /// Which one is in memory: its place in the order, its entries in random order, and where each ends.
    place: usize,
    entries: Vec<u8>,
    ends: Vec<usize>,
}

impl Written {
    fn start(&self, seed: Option<u64>) -> Window {
        let mut order: Vec<usize> = (0..self.shuffler.buckets()).collect();
        if let Some(seed) = seed {
            PythonRandom::new(seed).shuffle(&mut order);
        }
        let sizes = order.iter().map(|&bucket| self.shuffler.instances_of(bucket) as usize);
        let starts = sizes.scan(0, |sum, size| Some(std::mem::replace(sum, *sum + size))).collect();
        Window { seed, order, starts, place: usize::MAX, entries: Vec::new(), ends: Vec::new() }
    }

    fn load(&self, window: &mut Window, place: usize) -> Result<(), Error> {
        let bytes = self.shuffler.bucket(window.order[place])?;
        let mut entries = sorted(&bytes, self.width);
        if let Some(seed) = window.seed {
            // Neither the stream of the buckets' order nor that of another bucket.
            let seed = seed ^ (place as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
            PythonRandom::new(seed).shuffle(&mut entries);
        }
        window.place = place;
        window.entries.clear();
        window.ends.clear();
        for entry in entries {
            window.entries.extend_from_slice(entry.bytes);
            window.ends.push(window.entries.len());
        }
        Ok(())
    }
}

impl OnDisk {
    /// Instances `range` of the order that `seed` decides.
    fn read(&mut self, range: Range<usize>, seed: Option<u64>) -> Result<Features, Error> {
        let written = &self.written;
        let mut window = match self.window.take() {
            Some(window) if window.seed == seed => window,
            _ => written.start(seed),
        };
        let (s, m) = written.shape;
        let mut taken = Features::zeros(written.origin.clone(), range.len(), s, m);
        let mut scratch = Scratch::default();
        for (n, at) in range.enumerate() {
            // The last one that starts here: those before it may be empty.
            let place = window.starts.partition_point(|start| *start <= at) - 1;
            if window.place != place {
                written.load(&mut window, place)?;
            }
            let number = at - window.starts[place];
            let start = if number == 0 { 0 } else { window.ends[number - 1] };
            taken.set(n, scratch.read(&window.entries[start..window.ends[number]], written.width));
        }
        self.window = Some(window);
        Ok(taken)
    }
}

impl InstanceSource for OnDisk {
    fn origin(&self) -> &str {
        &self.written.origin
    }

    fn count(&self) -> usize {
        self.written.shuffler.instances() as usize
    }

    fn shape(&self) -> (usize, usize) {
        self.written.shape
    }

    fn unigram_baseline(&self, vocab_size: usize) -> UnigramBaseline {
        let guesses = (0..).zip(&self.written.guesses).map(|(id, count)| (id, *count as f64));
        UnigramBaseline::from_counts(guesses, vocab_size)
    }

    /// They are sound as they are made; whether the model has room for them is checked with every batch.
    fn check(&self, _: &BatchLimits) -> Result<(), Error> {
        Ok(())
    }

    fn take(&mut self, range: Range<usize>, seed: Option<u64>) -> Result<Features, Error> {
        self.read(range, seed)
    }
}
