//! Text of any size → what a run trains on. Few instances are in memory, in the reference's order; many are on disk in a
//! random order, because the reference's takes all of them in memory.

#[cfg(test)]
mod tests;

use super::ids::IdWidth;
use super::shuffle::{Scratch, Shuffler, sorted};
use super::store::Store;
use super::text::Counters;
use super::{GeneratorProgress, TextOptions, TextSource, entry_width, pair, tell, tokenize};
use crate::data::training_data::InstanceSource;
use crate::data::{
    BatchLimits, DataReport, Error, Features, InstanceOptions, Instances, PythonRandom, Tokenizer,
    TrainingData, UnigramBaseline,
};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Instances with so many tokens, padding aside, or fewer stay in memory, where they take some 50 MB.
const IN_MEMORY: u64 = 1 << 23;
/// First instances kept to be shown.
const EXAMPLES: usize = 3;

/// Text as instances to train on.
pub struct TextData {
    /// The instances.
    pub data: TrainingData,
    /// Numbers of the text and its instances.
    pub report: DataReport,
    /// Bytes of the text left out because they are not UTF-8.
    pub undecodable: u64,
    /// Files without a byte.
    pub empty_files: u64,
    /// The first instances.
    pub examples: Features,
    /// SHA-256 of the text's tokens; with the vocabulary and the options it decides all instances.
    pub checksum: String,
}

/// Makes instances of text. What does not stay in memory lies in files without names in `folder`, as long as the data are
/// there. The same text, vocabulary and options give the same instances in the same order, whatever the number of threads.
/// `progress` is told how far it is, and may break it off.
///
/// # Errors
/// As [`create_pretraining_data`](super::create_pretraining_data).
pub fn training_data(
    sources: Vec<TextSource>,
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
    text: &TextOptions,
    folder: &Path,
    progress: &mut dyn FnMut(GeneratorProgress) -> ControlFlow<()>,
) -> Result<TextData, Error> {
    make(sources, tokenizer, options, text, folder, IN_MEMORY, progress)
}

/// As [`training_data`], with at most `most` tokens in memory.
fn make(
    sources: Vec<TextSource>,
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
    text: &TextOptions,
    folder: &Path,
    most: u64,
    progress: &mut dyn FnMut(GeneratorProgress) -> ControlFlow<()>,
) -> Result<TextData, Error> {
    options.check()?;
    let mut tell = tell(progress);
    let (origin, counters) = (TextSource::name_all(&sources), Counters::default());
    let store = tokenize(sources, tokenizer, text, folder, &counters, &mut tell)?;
    options.check_pairs(store.documents, store.sentences, &origin)?;
    let made = match store.kept_tokens(options) <= most {
        true => in_memory(&store, tokenizer, options, origin)?,
        false => {
            let (shuffler, tally) = pair(&store, tokenizer, options, text.threads, folder, &mut tell)?;
            if shuffler.instances() == 0 {
                return Err(Error::NoInstances { origin });
            }
            let report = store.report(shuffler.instances(), tally.random_next);
            let width = entry_width(tokenizer, options);
            let shape = (options.max_seq_length, options.places());
            let instances = OnDisk { origin, shuffler, width, shape, guesses: tally.guesses, window: None };
            (report, instances.first(EXAMPLES)?, TrainingData::from_source(instances))
        }
    };
    let (report, examples, data) = made;
    Ok(TextData {
        data,
        report,
        undecodable: store.undecodable,
        empty_files: counters.empty_files.load(Ordering::Relaxed),
        examples,
        checksum: store.checksum()?,
    })
}

fn in_memory(
    store: &Store,
    tokenizer: &Tokenizer,
    options: &InstanceOptions,
    origin: String,
) -> Result<(DataReport, Features, TrainingData), Error> {
    let instances = Instances::make(&store.load(origin)?, tokenizer.vocabulary(), options)?;
    let random_next = (0..instances.count()).filter(|&n| instances.view(n).is_random_next).count();
    let report = store.report(instances.count() as u64, random_next as u64);
    let examples = instances.features(0..EXAMPLES.min(instances.count()));
    Ok((report, examples, instances.into()))
}

/// Instances in buckets, each of which is a random part of them. An epoch takes the buckets in random order, and the
/// instances of each.
struct OnDisk {
    origin: String,
    shuffler: Shuffler,
    width: IdWidth,
    /// S and M.
    shape: (usize, usize),
    /// How often each token is the one to be guessed.
    guesses: Vec<u64>,
    window: Option<Window>,
}

/// An epoch, and the bucket of it that is in memory.
struct Window {
    /// Decides the epoch's order.
    seed: u64,
    order: Vec<usize>,
    /// How many instances are before each bucket in this order.
    starts: Vec<usize>,
    /// Which one is in memory: its place in the order, its entries in random order, and where each ends.
    place: usize,
    entries: Vec<u8>,
    ends: Vec<usize>,
}

impl OnDisk {
    fn start(&self, seed: u64) -> Window {
        let mut order: Vec<usize> = (0..self.shuffler.buckets()).collect();
        PythonRandom::new(seed).shuffle(&mut order);
        let sizes = order.iter().map(|&bucket| self.shuffler.instances_of(bucket) as usize);
        let starts = sizes.scan(0, |sum, size| Some(std::mem::replace(sum, *sum + size))).collect();
        Window { seed, order, starts, place: usize::MAX, entries: Vec::new(), ends: Vec::new() }
    }

    fn load(&self, window: &mut Window, place: usize) -> Result<(), Error> {
        let bytes = self.shuffler.bucket(window.order[place])?;
        let mut entries = sorted(&bytes, self.width);
        // Neither the stream of the buckets' order nor that of another bucket.
        let seed = window.seed ^ (place as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
        PythonRandom::new(seed).shuffle(&mut entries);
        window.place = place;
        window.entries.clear();
        window.ends.clear();
        for entry in entries {
            window.entries.extend_from_slice(entry.bytes);
            window.ends.push(window.entries.len());
        }
        Ok(())
    }

    /// Room for `count` instances.
    fn room(&self, count: usize) -> Features {
        Features::zeros(self.origin.clone(), count, self.shape.0, self.shape.1)
    }

    /// The first `count` instances, or all of them if there are no more.
    fn first(&self, count: usize) -> Result<Features, Error> {
        let mut first = self.room(count.min(self.count()));
        let mut scratch = Scratch::default();
        let (mut n, mut bucket) = (0, 0);
        while n < first.count() {
            let bytes = self.shuffler.bucket(bucket)?;
            for entry in sorted(&bytes, self.width).iter().take(first.count() - n) {
                first.set(n, scratch.read(entry.bytes, self.width));
                n += 1;
            }
            bucket += 1;
        }
        Ok(first)
    }
}

impl InstanceSource for OnDisk {
    fn origin(&self) -> &str {
        &self.origin
    }

    fn count(&self) -> usize {
        self.shuffler.instances() as usize
    }

    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn unigram_baseline(&self, vocab_size: usize) -> UnigramBaseline {
        let guesses = (0..).zip(&self.guesses).map(|(id, count)| (id, *count as f64));
        UnigramBaseline::from_counts(guesses, vocab_size)
    }

    /// They are sound as they are made; whether the model has room for them is checked with every batch.
    fn check(&self, _: &BatchLimits) -> Result<(), Error> {
        Ok(())
    }

    fn take(&mut self, range: Range<usize>, seed: u64) -> Result<Features, Error> {
        let mut window = match self.window.take() {
            Some(window) if window.seed == seed => window,
            _ => self.start(seed),
        };
        let mut taken = self.room(range.len());
        let mut scratch = Scratch::default();
        for (n, at) in range.enumerate() {
            // The last one that starts here: those before it may be empty.
            let place = window.starts.partition_point(|start| *start <= at) - 1;
            if window.place != place {
                self.load(&mut window, place)?;
            }
            let number = at - window.starts[place];
            let start = if number == 0 { 0 } else { window.ends[number - 1] };
            taken.set(n, scratch.read(&window.entries[start..window.ends[number]], self.width));
        }
        self.window = Some(window);
        Ok(taken)
    }
}
