//! Sum of word, position and token type embeddings, and the gradient of a table.

use super::{Scalar, columns, columns_grid, real, require};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "embedding", source: include_str!("../../shaders/embedding.wgsl") };

/// `x[r] = word[word_ids[r]] + position[r % seq] + token_type[type_ids[r]]`. Ids must be inside their tables.
#[derive(Debug, Clone, Copy)]
pub struct Embedding {
    /// u32 `[rows]`.
    pub word_ids: Tensor,
    /// u32 `[rows]`.
    pub type_ids: Tensor,
    /// `[vocabulary, width]`.
    pub word: Tensor,
    /// `[at least seq, width]`.
    pub position: Tensor,
    /// `[types, width]`.
    pub token_type: Tensor,
    /// `[rows, width]`, written.
    pub x: Tensor,
    /// Rows of x: sequences times `seq`.
    pub rows: usize,
    /// Length of a sequence.
    pub seq: usize,
    /// Columns of x and of the tables.
    pub width: usize,
}

/// Append the sum of the three embeddings.
///
/// # Panics
/// When a tensor is too short: a mistake in the caller.
pub fn embedding(plan: &mut Plan, args: Embedding) {
    let Embedding { word_ids, type_ids, word, position, token_type, x, rows, seq, width } = args;
    require("word_ids", word_ids, rows);
    require("type_ids", type_ids, rows);
    require("position", position, seq * width);
    require("x", x, rows * width);
    plan.dispatch(Dispatch {
        kernel: Kernel {
            shader: SHADER,
            entry: "forward",
            constants: vec![("COLUMNS", columns(plan))],
            types: real(&[x]),
        },
        bindings: vec![(1, word_ids), (2, type_ids), (3, word), (4, position), (5, token_type), (6, x)],
        params: [width, rows, seq, 0, 0].map(|word| word as u32).to_vec(),
        groups: columns_grid(plan, rows, width),
    });
}

/// Rows grouped by id in two levels of compressed sparse rows, made by the host for every batch.
///
/// Segment s is `rows[segment_offsets[s]..segment_offsets[s + 1]]`, rows with one id. Id `unique_ids[u]` has the
/// segments `unique_offsets[u]..unique_offsets[u + 1]`. Long groups are cut into several segments, so that no
/// invocation sums more than a bounded number of rows.
#[derive(Debug, Clone, Copy)]
pub struct RowsById {
    /// u32, the grouped rows.
    pub rows: Tensor,
    /// u32 `[max_segments + 1]`.
    pub segment_offsets: Tensor,
    /// u32 `[max_unique]`, each id once.
    pub unique_ids: Tensor,
    /// u32 `[max_unique + 1]`.
    pub unique_offsets: Tensor,
    /// u32, how many segments there are in this step.
    pub segments: Scalar,
    /// u32, how many ids there are in this step.
    pub unique: Scalar,
    /// The most segments there can be.
    pub max_segments: usize,
    /// The most ids there can be.
    pub max_unique: usize,
}

/// `table[id] (+)= Σ dx[r]` over the rows r with that id. Entries whose id does not occur are left alone.
#[derive(Debug, Clone, Copy)]
pub struct TableGradient {
    /// Which rows go to which id.
    pub rows_by_id: RowsById,
    /// `[rows, width]`, gradient of the looked-up rows.
    pub dx: Tensor,
    /// `[entries, width]`, gradient of the table.
    pub table: Tensor,
    /// Columns of both.
    pub width: usize,
    /// Add to the table instead of overwriting entries.
    pub accumulate: bool,
}

/// Append the gradient of one embedding table.
///
/// # Panics
/// When a tensor is too short: a mistake in the caller.
pub fn table_gradient(plan: &mut Plan, args: TableGradient) {
    let TableGradient { rows_by_id, dx, table, width, accumulate } = args;
    let RowsById {
        rows,
        segment_offsets,
        unique_ids,
        unique_offsets,
        segments,
        unique,
        max_segments,
        max_unique,
    } = rows_by_id;
    require("segment_offsets", segment_offsets, max_segments + 1);
    require("unique_ids", unique_ids, max_unique);
    require("unique_offsets", unique_offsets, max_unique + 1);
    let segment_sums = plan.transient("segment sums", max_segments * width);
    let params = |count: Scalar| vec![width as u32, 0, 0, count.word, accumulate.into()];
    let constants = vec![("COLUMNS", columns(plan))];
    let kernel = |entry| Kernel { shader: SHADER, entry, constants: constants.clone(), types: real(&[dx]) };
    plan.dispatch(Dispatch {
        kernel: kernel("sum_segments"),
        bindings: vec![(1, segments.tensor), (2, segment_offsets), (3, rows), (4, dx), (5, segment_sums)],
        params: params(segments),
        groups: columns_grid(plan, max_segments, width),
    });
    plan.dispatch(Dispatch {
        kernel: kernel("sum_ids"),
        bindings: vec![
            (1, unique.tensor),
            (2, unique_offsets),
            (3, unique_ids),
            (4, segment_sums),
            (5, table),
        ],
        params: params(unique),
        groups: columns_grid(plan, max_unique, width),
    });
}
