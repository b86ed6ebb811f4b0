//! Instances → records → files, dealt out in turn.

use super::create::GeneratorOptions;
use super::ids::IdWidth;
use super::output::Output;
use super::shuffle::{Scratch, Shuffler, sorted};
use super::{Stage, Tell, parallel};
use crate::data::instances::{InstanceView, Instances};
use crate::data::records::Encoder;
use crate::data::{Error, Features};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Instances in the reference's order that become records at a time.
const SHARE: usize = 4096;
/// Examples to show.
const EXAMPLES: u64 = 3;

/// What was written.
pub(super) struct Written {
    pub(super) instances: u64,
    pub(super) random_next: u64,
    /// The first instances.
    pub(super) examples: Features,
}

pub(super) fn write_in_order(
    instances: &Instances,
    options: &GeneratorOptions,
    output: &mut Output,
    tell: Tell,
) -> Result<Written, Error> {
    let shares = (0..instances.count()).step_by(SHARE).map(Ok);
    let worker = || {
        let mut recorder = Recorder::new(options);
        move |first: usize| {
            let mut records = recorder.start(first as u64);
            let last = instances.count().min(first + SHARE);
            (first..last).for_each(|n| recorder.append(instances.view(n), &mut records));
            recorder.pack(records)
        }
    };
    write(shares, worker, instances.count() as u64, options, output, tell)
}

pub(super) fn write_shuffled(
    shuffler: &Shuffler,
    width: IdWidth,
    options: &GeneratorOptions,
    output: &mut Output,
    tell: Tell,
) -> Result<Written, Error> {
    let starts = shuffler.starts();
    let worker = || {
        let mut recorder = Recorder::new(options);
        let mut scratch = Scratch::default();
        let starts = &starts;
        move |bucket: usize| {
            let bytes = shuffler.bucket(bucket)?;
            let mut records = recorder.start(starts[bucket]);
            for entry in &sorted(&bytes, width) {
                recorder.append(scratch.read(entry.bytes, width), &mut records);
            }
            recorder.pack(records)
        }
    };
    write((0..shuffler.buckets()).map(Ok), worker, shuffler.instances(), options, output, tell)
}

/// Neighbouring records, as each file gets them.
struct Records {
    next: u64,
    random_next: u64,
    files: Vec<Vec<u8>>,
    examples: Features,
}

fn write<W: FnMut(usize) -> Result<Records, Error>>(
    shares: impl Iterator<Item = Result<usize, Error>> + Send,
    worker: impl Fn() -> W + Sync,
    total: u64,
    options: &GeneratorOptions,
    output: &mut Output,
    tell: Tell,
) -> Result<Written, Error> {
    let mut written = Written { instances: 0, random_next: 0, examples: Features::default() };
    let all = parallel::ordered(options.text.threads, shares, worker, |records| {
        for (file, bytes) in records.files.iter().enumerate() {
            output.append(file, bytes)?;
        }
        written.instances = records.next;
        written.random_next += records.random_next;
        if written.examples.count() == 0 {
            written.examples = records.examples;
        }
        tell(Stage::Writing, written.instances, Some(total))
    });
    pollster::block_on(all)?;
    Ok(written)
}

/// Makes records; one for each thread.
struct Recorder<'a> {
    options: &'a GeneratorOptions,
    encoder: Encoder,
    /// The instance at hand, padded.
    instance: Features,
}

impl<'a> Recorder<'a> {
    fn new(options: &'a GeneratorOptions) -> Self {
        let (seq_length, predictions) = (options.instances.max_seq_length, options.instances.places());
        let instance = Features::zeros(String::new(), 1, seq_length, predictions);
        Self { options, encoder: Encoder::new(options.names), instance }
    }

    fn start(&self, first: u64) -> Records {
        let files = vec![Vec::new(); self.options.outputs.len()];
        Records { next: first, random_next: 0, files, examples: Features::default() }
    }

    fn append(&mut self, instance: InstanceView, records: &mut Records) {
        self.instance.set(0, instance);
        let file = (records.next % records.files.len() as u64) as usize;
        self.encoder.append(&mut records.files[file], &self.instance, 0);
        if records.next < EXAMPLES {
            // Of the same shape, so they can be put together.
            let _ = records.examples.append(self.instance.clone());
        }
        records.next += 1;
        records.random_next += u64::from(instance.is_random_next);
    }

    /// Every share becomes a gzip member of its own; a file may have many.
    fn pack(&self, mut records: Records) -> Result<Records, Error> {
        if self.options.gzip {
            for (file, path) in records.files.iter_mut().zip(&self.options.outputs) {
                let failed = |error| Error::Write { path: path.clone(), error };
                let mut packed = GzEncoder::new(Vec::new(), Compression::default());
                packed.write_all(file).map_err(failed)?;
                *file = packed.finish().map_err(failed)?;
            }
        }
        Ok(records)
    }
}
