//! Looking through the records once: is each sound, and what do they amount to?

use super::{BLOCK, Block, EXAMPLES, Extreme, RecordFile, RecordSet};
use crate::data::generator::{Disk, GeneratorProgress, Spill, Stage};
use crate::data::records::append_record;
use crate::data::{Error, Features, Record, Turns};
#[cfg(not(target_family = "wasm"))]
use sha2::{Digest, Sha256};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records between two reports.
const PAUSE: usize = 256;

/// A pass over all files.
pub(super) struct Scan<'a> {
    skip_bad: bool,
    disk: &'a Disk,
    progress: &'a mut dyn FnMut(GeneratorProgress) -> ControlFlow<()>,
    /// Bytes read, and those there are.
    read: Arc<AtomicU64>,
    total: Option<u64>,
    #[cfg(not(target_family = "wasm"))]
    hash: Sha256,
    turns: Turns,
}

impl<'a> Scan<'a> {
    pub fn new(
        files: &[RecordFile],
        skip_bad: bool,
        disk: &'a Disk,
        progress: &'a mut dyn FnMut(GeneratorProgress) -> ControlFlow<()>,
    ) -> Self {
        Self {
            skip_bad,
            disk,
            progress,
            read: Arc::default(),
            total: files.iter().map(RecordFile::length).sum(),
            #[cfg(not(target_family = "wasm"))]
            hash: Sha256::new(),
            turns: Turns::new(),
        }
    }

    /// SHA-256 of the contents of all records passed.
    #[cfg(not(target_family = "wasm"))]
    pub fn checksum(self) -> String {
        self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn pass(&mut self, content: &[u8]) {
        #[cfg(not(target_family = "wasm"))]
        self.hash.update(content);
        #[cfg(target_family = "wasm")]
        let _ = content;
    }

    /// Tells how far it is; others have their turn.
    async fn tell(&mut self) -> Result<(), Error> {
        self.turns.give().await;
        let done = self.read.load(Ordering::Relaxed);
        match (self.progress)(GeneratorProgress { stage: Stage::Checking, done, total: self.total }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Interrupted),
        }
    }
}

impl RecordSet {
    /// Looks through file `number`.
    pub(super) async fn scan(
        &mut self,
        number: usize,
        file: &RecordFile,
        scan: &mut Scan<'_>,
    ) -> Result<(), Error> {
        let reader = file.records(&scan.read)?;
        let mut reader = if scan.skip_bad { reader.skipping_bad() } else { reader };
        let is_gzip = reader.is_gzip();
        let mut frame = Vec::new();
        let mut end = u64::MAX;
        // The file's first instance, and the one at hand behind it: all are of one shape.
        let mut instances = Features { origin: file.name(), ..Features::default() };
        while let Some(Record { number: record, offset, content }) = reader.read()? {
            instances.truncate(1);
            let at_hand = instances.count();
            if let Err(problem) = instances.append_record(content, self.next_sentence) {
                reader.refuse(record, offset, problem)?;
                continue;
            }
            self.add(&instances, at_hand, number, record - 1)?;
            scan.pass(content);
            frame.clear();
            append_record(&mut frame, content);
            let offset = if is_gzip { self.unpack(&frame, scan.disk)? } else { offset };
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
            if record.is_multiple_of(PAUSE) {
                scan.tell().await?;
            }
        }
        scan.tell().await?;
        let skipped = reader.into_skipped();
        if instances.count() == 0 && skipped.count == 0 {
            return Err(Error::NoRecords { origin: instances.origin });
        }
        self.skipped.add(skipped);
        Ok(())
    }

    /// Keeps a frame of a packed file; where it lies.
    fn unpack(&mut self, frame: &[u8], disk: &Disk) -> Result<u64, Error> {
        let unpacked = self.unpacked.get_or_insert_with(|| Spill::new(disk));
        let at = unpacked.len();
        unpacked.append(frame)?;
        Ok(at)
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
}
