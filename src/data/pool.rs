//! Many short slices in little memory.

/// Elements of a piece, unless a single slice has more.
const PIECE: usize = 1 << 16;

/// Slices one behind the other, in pieces of memory that stay where they are: one that grows as a whole would be there
/// twice each time it moves.
#[derive(Clone, Debug)]
pub(super) struct Pool<T> {
    pieces: Vec<Vec<T>>,
}

/// Where a slice lies in a [`Pool`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    piece: u32,
    start: u32,
    length: u32,
}

impl<T: Copy> Pool<T> {
    pub(super) fn new() -> Self {
        Self { pieces: Vec::new() }
    }

    pub(super) fn push(&mut self, slice: &[T]) -> Span {
        let has_room = |piece: &Vec<T>| piece.capacity() - piece.len() >= slice.len();
        if !self.pieces.last().is_some_and(has_room) {
            self.pieces.push(Vec::with_capacity(PIECE.max(slice.len())));
        }
        let piece = self.pieces.len() - 1;
        let start = self.pieces[piece].len();
        self.pieces[piece].extend_from_slice(slice);
        Span { piece: piece as u32, start: start as u32, length: slice.len() as u32 }
    }

    pub(super) fn get(&self, span: Span) -> &[T] {
        &self.pieces[span.piece as usize][span.start as usize..][..span.length as usize]
    }

    /// All elements, in the order they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_given_back_whatever_their_lengths() {
        let mut pool = Pool::new();
        let lengths = [3, 0, PIECE - 5, 1, 1, 1, PIECE + 7, 2, PIECE, 4];
        let slice = |n: usize| -> Vec<usize> { (0..lengths[n]).map(|i| n * 1_000_000 + i).collect() };
        let spans: Vec<Span> = (0..lengths.len()).map(|n| pool.push(&slice(n))).collect();
        for (n, span) in spans.into_iter().enumerate() {
            assert_eq!(pool.get(span), slice(n));
        }
        assert!(pool.iter().copied().eq((0..lengths.len()).flat_map(slice)));
        assert!(pool.pieces.len() < lengths.len());
    }
}
