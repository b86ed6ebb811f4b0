//! Files of records to train on, with little of them in memory at a time.
//!
//! One pass over all files checks every record and notes where blocks of records start. An epoch takes the blocks in
//! random order, so that all files contribute at all times, some at a time; their instances are shuffled among each other.

mod file;
mod scan;
#[cfg(test)]
mod tests;

pub use file::RecordFile;

use super::generator::{Disk, GeneratorProgress, Spill};
use super::training_data::InstanceSource;
use super::{
    BatchLimits, Error, Features, PythonRandom, RecordReader, Skipped, TrainingData, UnigramBaseline,
};
use scan::Scan;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

/// Records in a block, which are read together.
const BLOCK: usize = 64;
/// Usual size of a window.
const WINDOW: usize = 32 << 20;
/// First instances kept to be shown.
const EXAMPLES: usize = 3;

/// The records of some files.
pub struct RecordSet {
    origin: String,
    files: Vec<RecordFile>,
    /// The contents of gzip files, one after another, as records.
    unpacked: Option<Spill>,
    blocks: Vec<Block>,
    /// The first instances. Their shape is that of all.
    examples: Features,
    count: usize,
    random_next: usize,
    /// Weights of the guesses for each token.
    guesses: HashMap<u32, f64>,
    /// The largest number of each feature, in the order of [`RecordSet::check`].
    largest: [Extreme; 6],
    skipped: Skipped,
    #[cfg(not(target_family = "wasm"))]
    checksum: String,
    next_sentence: bool,
    /// Bytes of the instances in memory, which are shuffled.
    window_bytes: usize,
    window: Option<Window>,
}

#[derive(Clone, Copy)]
struct Block {
    /// Number of the file, or `None` for what was unpacked.
    file: Option<u32>,
    offset: u64,
    bytes: u64,
    records: u32,
}

#[derive(Clone, Copy, Default)]
struct Extreme {
    value: u32,
    file: usize,
    /// From 0.
    record: usize,
    position: usize,
}

/// An epoch, and those of its blocks that are in memory.
struct Window {
    /// Decides the epoch's order; without it that is the order of the files.
    seed: Option<u64>,
    order: Vec<u32>,
    /// How many instances are before each window.
    starts: Vec<usize>,
    /// Which window is in memory, its instances, and their random order.
    number: usize,
    features: Features,
    rows: Vec<usize>,
}

impl RecordSet {
    /// Looks through all files once. With `skip_bad` damaged records are left out and counted, otherwise they are errors.
    /// Without `next_sentence` labels may be missing, and are 0 then. What gzip files hold lies on `disk` as long as it is
    /// used. `progress` is told how far it is, and may break it off. Natively the future does not wait: poll it once.
    ///
    /// # Errors
    /// When a file cannot be read, records are damaged or of different shapes, or there is none;
    /// [`Error::Interrupted`] when `progress` breaks it off.
    pub async fn open(
        files: Vec<RecordFile>,
        next_sentence: bool,
        skip_bad: bool,
        disk: &Disk,
        progress: &mut dyn FnMut(GeneratorProgress) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        let mut set = Self {
            origin: RecordFile::name_all(&files),
            files: Vec::new(),
            unpacked: None,
            blocks: Vec::new(),
            examples: Features::default(),
            count: 0,
            random_next: 0,
            guesses: HashMap::new(),
            largest: Default::default(),
            skipped: Skipped::default(),
            #[cfg(not(target_family = "wasm"))]
            checksum: String::new(),
            next_sentence,
            window_bytes: WINDOW,
            window: None,
        };
        let mut scan = Scan::new(&files, skip_bad, disk, progress);
        for (number, file) in files.iter().enumerate() {
            set.scan(number, file, &mut scan).await?;
        }
        #[cfg(not(target_family = "wasm"))]
        {
            set.checksum = scan.checksum();
        }
        set.files = files;
        match set.count {
            0 => Err(set.skipped.first.unwrap_or(Error::NoRecords { origin: set.origin })),
            _ => Ok(set),
        }
    }

    /// N.
    pub fn count(&self) -> usize {
        self.count
    }

    /// S.
    pub fn seq_length(&self) -> usize {
        self.examples.seq_length
    }

    /// M.
    pub fn predictions(&self) -> usize {
        self.examples.predictions
    }

    /// Instances whose second segment is random.
    pub fn random_next(&self) -> usize {
        self.random_next
    }

    /// The first instances.
    pub fn examples(&self) -> &Features {
        &self.examples
    }

    /// What was left out.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// SHA-256 of all records' contents.
    #[cfg(not(target_family = "wasm"))]
    pub fn checksum(&self) -> &str {
        &self.checksum
    }

    /// Blocks of a window.
    fn window_blocks(&self) -> usize {
        let instance = size_of::<u32>() * 3 * (self.seq_length() + self.predictions());
        (self.window_bytes / (BLOCK * instance)).max(4)
    }

    fn start(&self, seed: Option<u64>) -> Window {
        let mut order: Vec<u32> = (0..self.blocks.len() as u32).collect();
        if let Some(seed) = seed {
            PythonRandom::new(seed).shuffle(&mut order);
        }
        let sizes = order.chunks(self.window_blocks()).map(|window| {
            window.iter().map(|&block| self.blocks[block as usize].records as usize).sum::<usize>()
        });
        let starts = sizes.scan(0, |sum, size| Some(std::mem::replace(sum, *sum + size))).collect();
        let (features, rows) = (Features::default(), Vec::new());
        Window { seed, order, starts, number: usize::MAX, features, rows }
    }

    fn load(&self, window: &mut Window, number: usize) -> Result<(), Error> {
        window.number = usize::MAX;
        window.features.truncate(0);
        let size = self.window_blocks();
        for &block in window.order.iter().skip(number * size).take(size) {
            self.read(&self.blocks[block as usize], &mut window.features)?;
        }
        window.rows = (0..window.features.count()).collect();
        if let Some(seed) = window.seed {
            // Neither the stream of the blocks' order nor that of another window.
            let seed = seed ^ (number as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
            PythonRandom::new(seed).shuffle(&mut window.rows);
        }
        window.number = number;
        Ok(())
    }

    /// Adds the instances of a block.
    fn read(&self, block: &Block, features: &mut Features) -> Result<(), Error> {
        let mut bytes = vec![0; block.bytes as usize];
        let origin = match block.file {
            Some(file) => self.files[file as usize].name(),
            None => "unpacked records".into(),
        };
        let changed = || Error::RecordsChanged { path: origin.clone().into() };
        match (block.file, &self.unpacked) {
            (Some(file), _) => {
                self.files[file as usize].read_exact_at(&mut bytes, block.offset).map_err(|_| changed())?
            }
            (None, Some(unpacked)) => unpacked.read_at(block.offset, &mut bytes)?,
            (None, None) => return Ok(()),
        }
        let before = features.count();
        let mut reader = RecordReader::new("", &bytes[..]).map_err(|_| changed())?;
        while let Some(record) = reader.read().map_err(|_| changed())? {
            features.append_record(record.content, self.next_sentence).map_err(|_| changed())?;
        }
        if features.count() - before == block.records as usize { Ok(()) } else { Err(changed()) }
    }

    /// Are all tokens among the `size` ones of a vocabulary?
    ///
    /// # Errors
    /// [`Error::IdOutOfRange`] for one that is not, or another number that is out of its range.
    pub fn check_vocabulary(&self, size: usize) -> Result<(), Error> {
        self.check(&BatchLimits::of_vocabulary(size))
    }
}

impl InstanceSource for RecordSet {
    fn origin(&self) -> &str {
        &self.origin
    }

    fn count(&self) -> usize {
        self.count
    }

    fn shape(&self) -> (usize, usize) {
        (self.seq_length(), self.predictions())
    }

    fn unigram_baseline(&self, vocab_size: usize) -> UnigramBaseline {
        UnigramBaseline::from_counts(self.guesses.iter().map(|(&id, &weight)| (id, weight)), vocab_size)
    }

    fn check(&self, limits: &BatchLimits) -> Result<(), Error> {
        let seq_length = self.seq_length();
        if seq_length > limits.max_position_embeddings {
            let max_position_embeddings = limits.max_position_embeddings;
            return Err(Error::SequenceTooLong {
                origin: self.origin.clone(),
                seq_length,
                max_position_embeddings,
            });
        }
        for (&Extreme { value, file, record, position }, (field, limit)) in self.largest.iter().zip([
            ("input_ids", limits.vocab_size),
            ("input_mask", 2),
            ("segment_ids", limits.type_vocab_size),
            ("masked_lm_positions", seq_length),
            ("masked_lm_ids", limits.vocab_size),
            ("next_sentence_labels", 2),
        ]) {
            if value as usize >= limit {
                let origin = self.files[file].name();
                return Err(Error::IdOutOfRange { origin, record, field, position, value, limit });
            }
        }
        Ok(())
    }

    fn take(&mut self, range: Range<usize>, seed: Option<u64>) -> Result<Features, Error> {
        let mut window = match self.window.take() {
            Some(window) if window.seed == seed => window,
            _ => self.start(seed),
        };
        let mut taken = Features { origin: self.origin.clone(), ..Features::default() };
        let mut at = range.start;
        while at < range.end {
            let number = window.starts.partition_point(|start| *start <= at) - 1;
            if window.number != number {
                self.load(&mut window, number)?;
            }
            let first = at - window.starts[number];
            let rows = &window.rows[first..];
            let rows = &rows[..rows.len().min(range.end - at)];
            taken.append(window.features.take(rows.iter().copied()))?;
            at += rows.len();
        }
        taken.origin.clone_from(&self.origin);
        self.window = Some(window);
        Ok(taken)
    }
}

impl From<RecordSet> for TrainingData {
    fn from(records: RecordSet) -> Self {
        Self::from_source(records)
    }
}
