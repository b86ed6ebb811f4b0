//! Bytes that are written once and read anywhere: in memory as long as they are few, then in a file.

use super::disk::{Disk, DiskFile};
use crate::data::Error;
use std::io;

/// A file is written in pieces of this size; fewer bytes stay in memory.
const PIECE: usize = 1 << 20;

pub(in crate::data) struct Spill {
    /// Where a file is made if it must be.
    disk: Disk,
    file: Option<DiskFile>,
    /// Bytes in the file.
    flushed: u64,
    /// What is not in the file.
    tail: Vec<u8>,
}

impl Spill {
    pub(in crate::data) fn new(disk: &Disk) -> Self {
        Self { disk: disk.clone(), file: None, flushed: 0, tail: Vec::new() }
    }

    pub(in crate::data) fn len(&self) -> u64 {
        self.flushed + self.tail.len() as u64
    }

    pub(in crate::data) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.tail.extend_from_slice(bytes);
        if self.tail.len() >= PIECE {
            self.flush().map_err(|error| self.disk.failed(error))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.disk.create()?),
        };
        file.append(&self.tail)?;
        self.flushed += self.tail.len() as u64;
        self.tail.clear();
        self.tail.shrink_to(2 * PIECE);
        Ok(())
    }

    /// Fills `into` with the bytes from `at` on, which must have been appended.
    pub(in crate::data) fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        let in_file = self.flushed.saturating_sub(at).min(into.len() as u64) as usize;
        let (from_file, from_tail) = into.split_at_mut(in_file);
        if let Some(file) = &self.file {
            file.read_exact_at(from_file, at).map_err(|error| self.disk.failed(error))?;
        }
        let start = (at + in_file as u64).saturating_sub(self.flushed) as usize;
        from_tail.copy_from_slice(&self.tail[start..start + from_tail.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_was_appended_is_read_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(&Disk::at(folder.path()));
        let piece: Vec<u8> = (0..PIECE / 4 + 7).map(|n| (n * 31 % 251) as u8).collect();
        let mut all = Vec::new();
        while all.len() < 4 * PIECE {
            spill.append(&piece).unwrap();
            all.extend_from_slice(&piece);
            let mut end = vec![0; 1000];
            spill.read_at(all.len() as u64 - 1000, &mut end).unwrap();
            assert_eq!(end, all[all.len() - 1000..]);
        }
        spill.append(&piece[..100]).unwrap();
        all.extend_from_slice(&piece[..100]);
        assert_eq!(spill.len(), all.len() as u64);
        assert!(spill.flushed > 0 && !spill.tail.is_empty());
        let border = spill.flushed as usize;
        for (at, length) in
            [(0, 10), (border - 5, 10), (border, 10), (border + 1, 3), (border - 9, 9), (7, 0)]
        {
            let mut bytes = vec![0; length];
            spill.read_at(at as u64, &mut bytes).unwrap();
            assert_eq!(bytes, all[at..at + length], "{length} from {at}");
        }
        // The file has no name that could be left behind.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), usize::from(cfg!(windows)));
    }

    #[test]
    fn a_folder_that_takes_no_file_is_told() {
        let mut spill = Spill::new(&Disk::at(Path::new("/nonexistent/folder")));
        let error = spill.append(&vec![0; PIECE]).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/folder") && error.contains("intermediate"), "{error}");
    }
}
