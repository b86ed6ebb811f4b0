//! Files of records to train on, with little of them in memory at a time.
//!
//! One pass over all files checks every record and notes where blocks of records start. An epoch takes the blocks in
//! random order, so that all files contribute at all times, some at a time; their instances are shuffled among each other.

#[cfg(test)]
mod tests;

use super::read_at::read_exact_at;
use super::records::append_record;
use super::training_data::InstanceSource;
use super::{
    BatchLimits, Error, Features, PythonRandom, Record, RecordReader, Skipped, TrainingData, UnigramBaseline,
};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Records in a block, which are read together.
const BLOCK: usize = 64;
/// Usual size of a window.
const WINDOW: usize = 32 << 20;
/// First instances kept to be shown.
const EXAMPLES: usize = 3;

/// The records of some files.
pub struct RecordSet {
    origin: String,
    files: Vec<PathBuf>,
    /// The contents of gzip files, one after another, as records.
    unpacked: Option<File>,
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
    /// Decides the epoch's order.
    seed: u64,
    order: Vec<u32>,
    /// How many instances are before each window.
    starts: Vec<usize>,
    /// Which window is in memory, its instances, and their random order.
    number: usize,
    features: Features,
    rows: Vec<usize>,
}

impl RecordSet {
    /// Reads all files once. With `skip_bad` damaged records are left out and counted, otherwise they are errors.
    /// Without `next_sentence` labels may be missing, and are 0 then.
    ///
    /// # Errors
    /// When a file cannot be read, records are damaged or of different shapes, or there is none.
    pub fn open(files: &[PathBuf], next_sentence: bool, skip_bad: bool) -> Result<Self, Error> {
        let mut set = Self {
            origin: origin(files),
            files: files.to_vec(),
            unpacked: None,
            blocks: Vec::new(),
            examples: Features::default(),
            count: 0,
            random_next: 0,
            guesses: HashMap::new(),
            largest: Default::default(),
            skipped: Skipped::default(),
            checksum: String::new(),
            next_sentence,
            window_bytes: WINDOW,
            window: None,
        };
        let mut hash = Sha256::new();
        for (number, path) in files.iter().enumerate() {
            set.scan(number, path, skip_bad, &mut hash)?;
        }
        set.checksum = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        match set.count {
            0 => Err(set.skipped.first.unwrap_or(Error::NoRecords { origin: set.origin })),
            _ => Ok(set),
        }
    }

    fn scan(&mut self, number: usize, path: &Path, skip_bad: bool, hash: &mut Sha256) -> Result<(), Error> {
        let failed = |error| Error::Read { path: path.to_owned(), error };
        let reader = RecordReader::open(path)?;
        let mut reader = if skip_bad { reader.skipping_bad() } else { reader };
        let is_gzip = reader.is_gzip();
        if is_gzip && self.unpacked.is_none() {
            self.unpacked = Some(
                tempfile::tempfile().map_err(|error| Error::Spill { folder: std::env::temp_dir(), error })?,
            );
        }
        let mut frame = Vec::new();
        let mut end = u64::MAX;
        // The file's first instance, and the one at hand behind it: all are of one shape.
        let mut instances = Features { origin: path.display().to_string(), ..Features::default() };
        while let Some(Record { number: record, offset, content }) = reader.read()? {
            instances.truncate(1);
            let at_hand = instances.count();
            if let Err(problem) = instances.append_record(content, self.next_sentence) {
                reader.refuse(record, offset, problem)?;
                continue;
            }
            self.add(&instances, at_hand, number, record - 1)?;
            hash.update(content);
            frame.clear();
            append_record(&mut frame, content);
            let offset = match &mut self.unpacked {
                Some(file) if is_gzip => {
                    let at = file.seek(SeekFrom::End(0)).map_err(failed)?;
                    file.write_all(&frame).map_err(failed)?;
                    at
                }
                _ => offset,
            };
            match self.blocks.last_mut() {
                Some(block) if offset == end && (block.records as usize) < BLOCK => {
                    block.bytes += frame.len() as u64;
                    block.records += 1;
                }
                _ => self.blocks.push(Block {
                    file: (!is_gzip).then_some(number as u32),
                    offset,
                    bytes: frame.len() as u64,
                    records: 1,
                }),
            }
            end = offset + frame.len() as u64;
        }
        let skipped = reader.into_skipped();
        if instances.count() == 0 && skipped.count == 0 {
            return Err(Error::NoRecords { origin: instances.origin });
        }
        self.skipped.add(skipped);
        Ok(())
    }

    /// Counts an instance in: number `at_hand` of `instances`, which is record `record`, from 0, of file `file`.
    fn add(&mut self, instances: &Features, at_hand: usize, file: usize, record: usize) -> Result<(), Error> {
        let shape = |features: &Features| (features.seq_length, features.predictions);
        if self.count > 0 && shape(instances) != shape(&self.examples) {
            return Err(Error::ShapesDiffer {
                first: self.origin.clone(),
                first_shape: shape(&self.examples),
                second: instances.origin.clone(),
                second_shape: shape(instances),
            });
        }
        let (s, m) = shape(instances);
        let (tokens, slots) = (at_hand * s, at_hand * m);
        let labels = &instances.next_sentence_labels[at_hand..][..1];
        for (field, values) in [
            (0, &instances.input_ids[tokens..][..s]),
            (1, &instances.input_mask[tokens..][..s]),
            (2, &instances.segment_ids[tokens..][..s]),
            (3, &instances.masked_lm_positions[slots..][..m]),
            (4, &instances.masked_lm_ids[slots..][..m]),
            (5, labels),
        ] {
            for (position, &value) in values.iter().enumerate() {
                let largest = &mut self.largest[field];
                if value > largest.value {
                    *largest = Extreme { value, file, record, position };
                }
            }
        }
        let weights = &instances.masked_lm_weights[slots..][..m];
        for ((position, &weight), &id) in weights.iter().enumerate().zip(&instances.masked_lm_ids[slots..]) {
            if !weight.is_finite() || weight < 0.0 {
                let origin = instances.origin.clone();
                return Err(Error::BadWeight { origin, record, position, value: weight });
            }
            if weight > 0.0 {
                *self.guesses.entry(id).or_default() += f64::from(weight);
            }
        }
        self.random_next += usize::from(labels[0] == 1);
        if self.count < EXAMPLES {
            self.examples.append(instances.take([at_hand]))?;
            self.examples.origin.clone_from(&self.origin);
        }
        self.count += 1;
        Ok(())
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
    pub fn checksum(&self) -> &str {
        &self.checksum
    }

    /// Blocks of a window.
    fn window_blocks(&self) -> usize {
        let instance = size_of::<u32>() * 3 * (self.seq_length() + self.predictions());
        (self.window_bytes / (BLOCK * instance)).max(4)
    }

    fn start(&self, seed: u64) -> Window {
        let mut order: Vec<u32> = (0..self.blocks.len() as u32).collect();
        PythonRandom::new(seed).shuffle(&mut order);
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
        // Neither the stream of the blocks' order nor that of another window.
        let seed = window.seed ^ (number as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
        PythonRandom::new(seed).shuffle(&mut window.rows);
        window.number = number;
        Ok(())
    }

    /// Adds the instances of a block.
    fn read(&self, block: &Block, features: &mut Features) -> Result<(), Error> {
        let (path, file) = match (block.file, &self.unpacked) {
            (Some(file), _) => {
                let path = &self.files[file as usize];
                let failed = |error| Error::Read { path: path.clone(), error };
                (path.as_path(), &File::open(path).map_err(failed)?)
            }
            (None, Some(file)) => (Path::new("unpacked records"), file),
            (None, None) => return Ok(()),
        };
        let mut bytes = vec![0; block.bytes as usize];
        let changed = || Error::RecordsChanged { path: path.to_owned() };
        read_exact_at(file, &mut bytes, block.offset).map_err(|_| changed())?;
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
                let origin = self.files[file].display().to_string();
                return Err(Error::IdOutOfRange { origin, record, field, position, value, limit });
            }
        }
        Ok(())
    }

    fn take(&mut self, range: Range<usize>, seed: u64) -> Result<Features, Error> {
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

fn origin(files: &[PathBuf]) -> String {
    match files {
        [] => "no file".into(),
        [one] => one.display().to_string(),
        [first, rest @ ..] => format!("{} and {} more", first.display(), rest.len()),
    }
}
