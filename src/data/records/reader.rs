//! Records one after another, from whatever can be read, with one of them in memory at a time.

use super::RecordProblem;
use super::framing::{FOOTER, HEADER, masked_crc, starts_with_record, word};
use crate::data::Error;
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The records of a TFRecord file, plain or gzip.
pub struct RecordReader<'a> {
    origin: String,
    bytes: Box<dyn Read + Send + 'a>,
    is_gzip: bool,
    /// Where the next frame starts, in the unpacked file.
    offset: u64,
    /// Number of the next record, from 1.
    number: usize,
    skip_bad: bool,
    skipped: Skipped,
    /// The start of the next frame, where it was read already.
    found: Option<[u8; HEADER]>,
    content: Vec<u8>,
}

/// A record as it is in its file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// Where its frame starts in the unpacked file.
    pub offset: u64,
    /// What it holds.
    pub content: &'a [u8],
}

/// Records that were left out because they are damaged or do not fit.
#[derive(Debug, Default)]
pub struct Skipped {
    /// How many, at least: where a length is damaged, some may be lost together.
    pub count: usize,
    /// What was wrong with the first.
    pub first: Option<Error>,
}

impl Skipped {
    /// Adds those of another file.
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
    }
}

impl<'a> RecordReader<'a> {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> Result<RecordReader<'static>, Error> {
        let failed = |error| Error::Read { path: path.to_owned(), error };
        let file = std::fs::File::open(path).map_err(failed)?;
        RecordReader::new(&path.display().to_string(), BufReader::with_capacity(1 << 20, file))
            .map_err(failed)
    }

    /// Reads what `bytes` yields; `origin` names it in errors.
    ///
    /// # Errors
    /// When the first bytes cannot be read.
    pub fn new(origin: &str, mut bytes: impl BufRead + Send + 'a) -> io::Result<Self> {
        let is_gzip = bytes.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let bytes: Box<dyn Read + Send + 'a> = match is_gzip {
            true => Box::new(BufReader::with_capacity(1 << 18, MultiGzDecoder::new(bytes))),
            false => Box::new(bytes),
        };
        Ok(Self {
            origin: origin.into(),
            bytes,
            is_gzip,
            offset: 0,
            number: 1,
            skip_bad: false,
            skipped: Skipped::default(),
            found: None,
            content: Vec::new(),
        })
    }

    /// Damaged records are left out and counted, instead of ending it.
    pub fn skipping_bad(self) -> Self {
        Self { skip_bad: true, ..self }
    }

    /// Whether the file is packed: then offsets are not those in it.
    pub fn is_gzip(&self) -> bool {
        self.is_gzip
    }

    /// What was left out so far.
    pub fn into_skipped(self) -> Skipped {
        self.skipped
    }

    /// Reads the next record; nothing at the end.
    ///
    /// # Errors
    /// When the file cannot be read or unpacked; and, unless bad ones are left out, when it is damaged
    /// ([`Error::Record`]).
    pub fn read(&mut self) -> Result<Option<Record<'_>>, Error> {
        loop {
            match self.read_frame() {
                Ok(Some(length)) => {
                    let (number, offset) = (self.number, self.offset);
                    (self.number, self.offset) = (number + 1, offset + length);
                    return Ok(Some(Record { number, offset, content: &self.content }));
                }
                Ok(None) => return Ok(None),
                Err(FrameError::Io(error)) => return Err(self.failed(error)),
                Err(FrameError::Bad(problem, length)) => {
                    let (number, offset) = (self.number, self.offset);
                    (self.number, self.offset) = (number + 1, offset + length);
                    self.refuse(number, offset, problem)?;
                }
            }
        }
    }

    /// Leaves out a record that was read but is of no use.
    ///
    /// # Errors
    /// [`Error::Record`] unless bad ones are left out.
    pub fn refuse(&mut self, number: usize, offset: u64, problem: RecordProblem) -> Result<(), Error> {
        let error = Error::Record { origin: self.origin.clone(), record: number, offset, problem };
        if !self.skip_bad {
            return Err(error);
        }
        self.skipped.count += 1;
        self.skipped.first.get_or_insert(error);
        Ok(())
    }

    fn failed(&self, error: io::Error) -> Error {
        match self.is_gzip {
            true => Error::BadRecordsGzip { origin: self.origin.clone(), error },
            false => Error::Read { path: self.origin.clone().into(), error },
        }
    }

    /// Reads a record into `content`; returns the length of its frame.
    fn read_frame(&mut self) -> Result<Option<u64>, FrameError> {
        let header = match self.found.take() {
            Some(header) => header,
            None => {
                let mut header = Vec::with_capacity(HEADER);
                (&mut self.bytes).take(HEADER as u64).read_to_end(&mut header)?;
                match <[u8; HEADER]>::try_from(&header[..]) {
                    Ok(header) => header,
                    Err(_) if header.is_empty() => return Ok(None),
                    Err(_) => return Err(FrameError::Bad(RecordProblem::Truncated, header.len() as u64)),
                }
            }
        };
        if !starts_with_record(&header) {
            let passed = if self.skip_bad { self.find_record(header)? } else { 0 };
            let problem = match self.offset {
                0 => RecordProblem::NoStart,
                _ => RecordProblem::CorruptLength,
            };
            return Err(FrameError::Bad(problem, passed));
        }
        let length = (0..8).rev().fold(0, |length, byte| length << 8 | u64::from(header[byte]));
        self.content.clear();
        // Memory grows with what is there, not with what the length says.
        let frame = (&mut self.bytes).take(length.saturating_add(FOOTER as u64));
        let read = { frame }.read_to_end(&mut self.content)? as u64;
        if length.checked_add(FOOTER as u64) != Some(read) {
            return Err(FrameError::Bad(RecordProblem::Truncated, HEADER as u64 + read));
        }
        let checksum = word(&self.content, length as usize);
        self.content.truncate(length as usize);
        match checksum == Some(masked_crc(&self.content)) {
            true => Ok(Some(HEADER as u64 + read)),
            false => Err(FrameError::Bad(RecordProblem::CorruptData, HEADER as u64 + read)),
        }
    }

    /// Goes on byte by byte until a record starts or the file ends; returns how many bytes were passed.
    fn find_record(&mut self, mut header: [u8; HEADER]) -> io::Result<u64> {
        let mut passed = 0;
        let mut byte = [0];
        while (&mut self.bytes).take(1).read(&mut byte)? == 1 {
            header.rotate_left(1);
            header[HEADER - 1] = byte[0];
            passed += 1;
            if starts_with_record(&header) {
                self.found = Some(header);
                return Ok(passed);
            }
        }
        Ok(passed + HEADER as u64)
    }
}

enum FrameError {
    Io(io::Error),
    /// What is wrong, and the bytes until the next frame.
    Bad(RecordProblem, u64),
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
