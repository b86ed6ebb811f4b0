//! Files of text → batches of whole lines, with little of them in memory at a time.

#[cfg(not(target_family = "wasm"))]
use crate::data::corpus::BUNDLED;
#[cfg(target_family = "wasm")]
use crate::data::host::HostFile;
use crate::data::{Error, holds_records, no_text};
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A batch is as long as this, and goes on to the end of its last line.
const BATCH: usize = 1 << 20;
/// A longer line is no sentence.
const LONGEST_LINE: usize = 16 << 20;

/// Where text comes from: plain or gzip, told apart by content.
#[derive(Clone, Debug, PartialEq)]
pub enum TextSource {
    /// A file.
    #[cfg(not(target_family = "wasm"))]
    File(std::path::PathBuf),
    /// Standard input.
    #[cfg(not(target_family = "wasm"))]
    Stdin,
    /// The corpus that comes with this crate.
    #[cfg(not(target_family = "wasm"))]
    Bundled,
    /// A file of the page.
    #[cfg(target_family = "wasm")]
    Host(HostFile),
}

impl TextSource {
    /// All of them, for errors.
    pub(super) fn name_all(sources: &[Self]) -> String {
        match sources {
            [] => "no text".to_owned(),
            [one] => one.name(),
            [first, rest @ ..] => format!("{} and {} more", first.name(), rest.len()),
        }
    }
}

#[cfg(not(target_family = "wasm"))]
impl TextSource {
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "stdin".into(),
            Self::Bundled => "bundled corpus".into(),
        }
    }

    /// How long it is, where that is known beforehand.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Self::File(path) => std::fs::metadata(path).ok().map(|file| file.len()),
            Self::Stdin => None,
            Self::Bundled => Some(BUNDLED.len() as u64),
        }
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Stdin => Box::new(io::stdin()),
            Self::Bundled => Box::new(BUNDLED),
            Self::File(path) => Box::new(std::fs::File::open(path)?),
        })
    }
}

#[cfg(target_family = "wasm")]
impl TextSource {
    fn name(&self) -> String {
        let Self::Host(file) = self;
        file.name.clone()
    }

    /// How long it is.
    pub(super) fn bytes(&self) -> Option<u64> {
        let Self::Host(file) = self;
        Some(file.bytes())
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        let Self::Host(file) = self;
        Ok(Box::new(file.reader()))
    }
}

/// Whole lines of one file.
pub(super) struct Batch {
    /// The file, for errors.
    pub(super) origin: Arc<str>,
    /// Number of the first line, from 1.
    pub(super) first_line: u64,
    pub(super) bytes: Vec<u8>,
    /// Whether a document starts here in any case.
    pub(super) starts_document: bool,
}

/// Batches of all sources, in order.
pub(super) struct Batches {
    sources: std::vec::IntoIter<TextSource>,
    documents_run_on: bool,
    open: Option<Open>,
    /// Bytes read, as they are in the files.
    read: Arc<AtomicU64>,
    empty_files: Arc<AtomicU64>,
}

struct Open {
    origin: Arc<str>,
    lines: Box<dyn BufRead + Send>,
    is_gzip: bool,
    next_line: u64,
}

/// What [`Batches`] has met so far, to be asked from another thread.
#[derive(Clone, Default)]
pub(super) struct Counters {
    /// Bytes read, as they are in the files.
    pub(super) read: Arc<AtomicU64>,
    pub(super) empty_files: Arc<AtomicU64>,
}

impl Counters {
    /// What is wrong with so many files, read to their ends, that have nothing in them.
    pub(super) fn nothing(&self, files: usize, origin: String) -> Error {
        match self.empty_files.load(Ordering::Relaxed) == files as u64 {
            true => Error::EmptyText { origin },
            false => Error::NoTokens { origin },
        }
    }
}

impl Batches {
    pub(super) fn new(sources: Vec<TextSource>, documents_run_on: bool, counters: Counters) -> Self {
        let Counters { read, empty_files } = counters;
        Self { sources: sources.into_iter(), documents_run_on, open: None, read, empty_files }
    }

    fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        loop {
            let open = match &mut self.open {
                Some(open) => open,
                none => match self.sources.next() {
                    Some(source) => none.insert(Open::new(&source, &self.read)?),
                    None => return Ok(None),
                },
            };
            let first_line = open.next_line;
            let bytes = open.read()?;
            if !bytes.is_empty() {
                return Ok(Some(Batch {
                    origin: open.origin.clone(),
                    first_line,
                    bytes,
                    starts_document: first_line == 1 && !self.documents_run_on,
                }));
            }
            self.empty_files.fetch_add(u64::from(first_line == 1), Ordering::Relaxed);
            self.open = None;
        }
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

impl Open {
    fn new(source: &TextSource, read: &Arc<AtomicU64>) -> Result<Self, Error> {
        let origin = source.name();
        let failed = |error| Error::Read { path: origin.clone().into(), error };
        let reader = source.open().map_err(failed)?;
        let mut bytes = BufReader::with_capacity(BATCH, Counted { reader, read: read.clone() });
        let start = bytes.fill_buf().map_err(failed)?;
        let is_gzip = start.starts_with(&[0x1f, 0x8b]);
        if holds_records(start) {
            return Err(Error::RecordsNotText { origin });
        }
        let lines: Box<dyn BufRead + Send> = match is_gzip {
            true => Box::new(BufReader::with_capacity(BATCH, MultiGzDecoder::new(bytes))),
            false => Box::new(bytes),
        };
        Ok(Self { origin: origin.into(), lines, is_gzip, next_line: 1 })
    }

    /// The next whole lines; nothing at the end.
    fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(BATCH + BATCH / 8);
        match self.fill(&mut bytes) {
            Err(error) if self.is_gzip => Err(Error::BadGzip { origin: self.origin.to_string(), error }),
            Err(error) => Err(Error::Read { path: self.origin.to_string().into(), error }),
            Ok(()) if bytes.len() == BATCH + LONGEST_LINE && !bytes.ends_with(b"\n") => {
                Err(Error::LineTooLong {
                    origin: self.origin.to_string(),
                    line: self.next_line + count_lines(&bytes),
                    limit: LONGEST_LINE >> 20,
                })
            }
            Ok(()) => {
                if self.next_line == 1 {
                    no_text::check(&self.origin, &bytes)?;
                }
                self.next_line += count_lines(&bytes);
                Ok(bytes)
            }
        }
    }

    fn fill(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let length = (&mut self.lines).take(BATCH as u64).read_to_end(bytes)?;
        if length == BATCH && !bytes.ends_with(b"\n") {
            (&mut self.lines).take(LONGEST_LINE as u64).read_until(b'\n', bytes)?;
        }
        Ok(())
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Adds up what is read.
pub(in crate::data) struct Counted<R> {
    pub(in crate::data) reader: R,
    pub(in crate::data) read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(into)?;
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}
