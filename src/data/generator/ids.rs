//! Ids as bytes: two for each where they fit, otherwise four.

/// Bytes of an id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum IdWidth {
    Two,
    Four,
}

impl IdWidth {
    /// Wide enough for all numbers below `limit`.
    pub(super) fn below(limit: usize) -> Self {
        if limit <= 1 << 16 { Self::Two } else { Self::Four }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// Appends `ids` to `bytes`.
    pub(super) fn write(self, ids: &[u32], bytes: &mut Vec<u8>) {
        match self {
            Self::Two => bytes.extend(ids.iter().flat_map(|&id| (id as u16).to_le_bytes())),
            Self::Four => bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes())),
        }
    }

    /// Appends the ids in `bytes` to `ids`.
    pub(super) fn read(self, bytes: &[u8], ids: &mut Vec<u32>) {
        match self {
            Self::Two => {
                ids.extend(bytes.chunks_exact(2).map(|id| u32::from(u16::from_le_bytes([id[0], id[1]]))));
            }
            Self::Four => {
                ids.extend(bytes.chunks_exact(4).map(|id| u32::from_le_bytes([id[0], id[1], id[2], id[3]])))
            }
        }
    }
}
