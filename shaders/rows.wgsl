// Rows moved by index; the backward of one is the other.
//
//   gather    dst[i, :] = src[index[i], :]                                               i < rows
//   scatter   dst[t, :] = sum of src[index[j], :] over j in offsets[t] .. offsets[t + 1]  t < rows; zero without any
//
//   src       Real [any, width]
//   index     u32 [rows] (gather) or u32 [offsets[rows]] (scatter: rows of src grouped by the row of dst they go to)
//   offsets   u32 [rows + 1]
//   dst       Real [rows, width]
//
// An invocation computes COLUMNS elements of a row of dst, at most.

struct Params { width: u32, rows: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> src: array<Real>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read> offsets: array<u32>;
@group(0) @binding(4) var<storage, read_write> dst: array<Real>;

// The row of an invocation, and its columns: every `step`th from `first` on, COLUMNS at most.
override COLUMNS: u32 = 1u;
struct Place { row: u32, first: u32, step: u32 }

fn place(group: vec3u, groups: vec3u, lane: u32) -> Place {
  let number = (group.y * groups.x + group.x) * 64u + lane;
  let step = (p.width + COLUMNS - 1u) / COLUMNS;
  return Place(number / step, number % step, step);
}

@compute @workgroup_size(64)
fn gather(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
          @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.row >= p.rows) { return; }
  let from_row = index[at.row] * p.width;
  for (var col = at.first; col < p.width; col += at.step) { dst[at.row * p.width + col] = src[from_row + col]; }
}

@compute @workgroup_size(64)
fn scatter(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.row >= p.rows) { return; }
  let start = offsets[at.row];
  let end = offsets[at.row + 1u];
  for (var col = at.first; col < p.width; col += at.step) {
    var sum = 0.0;
    for (var j = start; j < end; j += 1u) { sum += f32(src[index[j] * p.width + col]); }
    dst[at.row * p.width + col] = Real(sum);
  }
}
