// Sum of three embeddings, and the gradient of any one table.
//
//   forward          x[r, :] = word[word_ids[r], :] + position[r % seq, :] + token_type[type_ids[r], :]
//     word_ids, type_ids  u32 [rows]
//     word                f32 [vocabulary, width]
//     position            f32 [positions, width]
//     token_type          f32 [types, width]
//     x                   Real [rows, width]
//
// WGSL has no atomic addition of floats, so a table's entry gathers the rows that used it. They are grouped by id in
// two levels of compressed sparse rows: a frequent id has several segments of bounded length.
//
//   sum_segments     segment_sums[s, :] = sum of dx[rows[i], :] over i in segment_offsets[s] .. segment_offsets[s + 1]
//   sum_ids          table[ids[u], :] (+)= sum of segment_sums[s, :] over s in id_offsets[u] .. id_offsets[u + 1]
//     dx                  Real [any, width]
//     rows                u32 [segment_offsets[segments]]
//     segment_offsets     u32 [segments + 1]
//     ids, id_offsets     u32 [unique], u32 [unique + 1]
//     counts              u32: word count_word holds how many segments (or ids) there are this time
//     segment_sums        f32 [max_segments, width]
//     table               f32 [entries, width]; entries without a row are left alone
//
// An invocation computes COLUMNS elements of a row of the result, at most.

struct Params {
  width: u32,
  rows: u32,       // forward: rows of x
  seq: u32,        // forward: rows before positions start again
  count_word: u32, // gradient: the word of counts
  accumulate: u32, // gradient: add to the table instead of overwriting
}

@group(0) @binding(0) var<uniform> p: Params;

// The row of an invocation, and its columns: every `step`th from `first` on, COLUMNS at most.
override COLUMNS: u32 = 1u;
struct Place { row: u32, first: u32, step: u32 }

fn place(group: vec3u, groups: vec3u, lane: u32) -> Place {
  let number = (group.y * groups.x + group.x) * 64u + lane;
  let step = (p.width + COLUMNS - 1u) / COLUMNS;
  return Place(number / step, number % step, step);
}

@group(0) @binding(1) var<storage, read> word_ids: array<u32>;
@group(0) @binding(2) var<storage, read> type_ids: array<u32>;
@group(0) @binding(3) var<storage, read> word: array<f32>;
@group(0) @binding(4) var<storage, read> position: array<f32>;
@group(0) @binding(5) var<storage, read> token_type: array<f32>;
@group(0) @binding(6) var<storage, read_write> x: array<Real>;

@compute @workgroup_size(64)
fn forward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.row >= p.rows) { return; }
  let to = at.row * p.width;
  let from_word = word_ids[at.row] * p.width;
  let from_position = at.row % p.seq * p.width;
  let from_type = type_ids[at.row] * p.width;
  for (var col = at.first; col < p.width; col += at.step) {
    x[to + col] = Real(word[from_word + col] + position[from_position + col] + token_type[from_type + col]);
  }
}

@group(0) @binding(1) var<storage, read> counts: array<u32>;
@group(0) @binding(2) var<storage, read> segment_offsets: array<u32>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read> dx: array<Real>;
@group(0) @binding(5) var<storage, read_write> segment_sums_out: array<f32>;

@compute @workgroup_size(64)
fn sum_segments(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.row >= counts[p.count_word]) { return; }
  let start = segment_offsets[at.row];
  let end = segment_offsets[at.row + 1u];
  for (var col = at.first; col < p.width; col += at.step) {
    var sum = 0.0;
    for (var i = start; i < end; i += 1u) { sum += f32(dx[rows[i] * p.width + col]); }
    segment_sums_out[at.row * p.width + col] = sum;
  }
}

@group(0) @binding(2) var<storage, read> id_offsets: array<u32>;
@group(0) @binding(3) var<storage, read> ids: array<u32>;
@group(0) @binding(4) var<storage, read> segment_sums: array<f32>;
@group(0) @binding(5) var<storage, read_write> table: array<f32>;

@compute @workgroup_size(64)
fn sum_ids(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.row >= counts[p.count_word]) { return; }
  let start = id_offsets[at.row];
  let end = id_offsets[at.row + 1u];
  let to = ids[at.row] * p.width;
  for (var col = at.first; col < p.width; col += at.step) {
    var sum = 0.0;
    for (var segment = start; segment < end; segment += 1u) { sum += segment_sums[segment * p.width + col]; }
    if (p.accumulate != 0u) { sum += table[to + col]; }
    table[to + col] = sum;
  }
}
