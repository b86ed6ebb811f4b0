//! Rows grouped by id, for gradients of embeddings: WGSL has no atomic float addition, so each entry of a table gathers
//! the rows that used it instead of the rows scattering into the table.

use crate::model::MAX_SEGMENT_ROWS;

/// Token rows grouped by an id they share, in two levels of compressed sparse rows (CSR).
///
/// Segment `s` is `rows[segment_offsets[s]..segment_offsets[s + 1]]`: ascending token rows with one id, at most
/// [`MAX_SEGMENT_ROWS`] of them. Id `unique_ids[u]` has the segments `unique_offsets[u]..unique_offsets[u + 1]`. So a
/// first pass sums segments, a second pass sums the segments of each id. Ids ascend; ids without a row are not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segments {
    /// At most B·S token rows (row = b·S + s).
    pub rows: Vec<u32>,
    /// One more than there are segments: at most B·S + 1.
    pub segment_offsets: Vec<u32>,
    /// At most B·S ids.
    pub unique_ids: Vec<u32>,
    /// One more than there are ids: at most B·S + 1.
    pub unique_offsets: Vec<u32>,
}

impl Segments {
    /// Groups `(id, row)` pairs, rows ascending.
    pub(super) fn group(pairs: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut pairs: Vec<(u32, u32)> = pairs.collect();
        pairs.sort_unstable();
        let mut segments = Self { segment_offsets: vec![0], unique_offsets: vec![0], ..Self::default() };
        for group in pairs.chunk_by(|a, b| a.0 == b.0) {
            for segment in group.chunks(MAX_SEGMENT_ROWS) {
                segments.rows.extend(segment.iter().map(|&(_, row)| row));
                segments.segment_offsets.push(segments.rows.len() as u32);
            }
            segments.unique_ids.push(group[0].0);
            segments.unique_offsets.push(segments.segment_count() as u32);
        }
        segments
    }

    /// The same of rows with other numbers in the same order.
    pub(super) fn renumbered(&self, number: impl Fn(u32) -> u32) -> Self {
        Self { rows: self.rows.iter().map(|row| number(*row)).collect(), ..self.clone() }
    }

    /// Number of segments.
    pub fn segment_count(&self) -> usize {
        self.segment_offsets.len() - 1
    }

    /// Number of different ids.
    pub fn unique_count(&self) -> usize {
        self.unique_ids.len()
    }
}
