//! Where intermediate data lies in a browser: in files that the worker keeps for us.

use crate::data::Error;
use crate::data::host::{self, Workspace};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Small reads are served from blocks of this size, since every call of the browser's file system takes its time.
const BLOCK: usize = 4 << 10;
/// Blocks of a file in memory, 32 MiB; one has its place by its number.
const BLOCKS: usize = 8192;
/// Longer reads go to the file at once.
const SMALL: usize = 2 << 10;

/// The worker's room for intermediate data.
pub type Disk = Workspace;

impl Workspace {
    /// Makes a file.
    pub(super) fn create(&self) -> io::Result<DiskFile> {
        Ok(DiskFile { number: host::create(self.number)?, length: 0, blocks: Mutex::new(Vec::new()) })
    }

    /// Bytes that it has room for, if it tells.
    pub(super) fn free(&self) -> Option<u64> {
        self.available.map(|bytes| bytes as u64)
    }

    /// What it is called in messages.
    pub(super) fn name(&self) -> String {
        self.name.clone()
    }

    pub(super) fn failed(&self, error: io::Error) -> Error {
        Error::Spill { folder: self.name().into(), error }
    }
}

/// A file that only this program knows.
pub(super) struct DiskFile {
    number: u32,
    length: u64,
    /// For each place the block that is there.
    blocks: Mutex<Vec<Option<Block>>>,
}

struct Block {
    number: u64,
    bytes: Box<[u8]>,
}

impl DiskFile {
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        host::append(self.number, bytes)?;
        // The last block is longer now.
        self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Fills `into` with the bytes from `at` on.
    pub(super) fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        if into.len() > SMALL {
            return host::read_back(self.number, at, into);
        }
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.resize_with(BLOCKS, || None);
        let (mut at, mut into) = (at, into);
        while !into.is_empty() {
            let (number, start) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let place = &mut blocks[number as usize % BLOCKS];
            let block = match place {
                Some(block) if block.number == number => block,
                _ => place.insert(self.load(number)?),
            };
            let rest = block.bytes.get(start..).unwrap_or_default();
            if rest.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (now, later) = into.split_at_mut(rest.len().min(into.len()));
            now.copy_from_slice(&rest[..now.len()]);
            at += now.len() as u64;
            into = later;
        }
        Ok(())
    }

    fn load(&self, number: u64) -> io::Result<Block> {
        let start = number * BLOCK as u64;
        let length = self.length.saturating_sub(start).min(BLOCK as u64) as usize;
        let mut bytes = vec![0; length].into_boxed_slice();
        host::read_back(self.number, start, &mut bytes)?;
        Ok(Block { number, bytes })
    }
}
