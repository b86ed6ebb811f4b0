// Rows moved by index; the backward of one is the other.
//
//   gather    dst[i, :] = src[index[i], :]                                               i < rows
//   scatter   dst[t, :] = sum of src[index[j], :] over j in offsets[t] .. offsets[t + 1]  t < rows; zero without any
//
//   src       f32 [any, width]
//   index     u32 [rows] (gather) or u32 [offsets[rows]] (scatter: rows of src grouped by the row of dst they go to)
//   offsets   u32 [rows + 1]
//   dst       f32 [rows, width]
//
// One invocation per element of dst.

struct Params { width: u32, rows: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> src: array<f32>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read> offsets: array<u32>;
@group(0) @binding(4) var<storage, read_write> dst: array<f32>;

// The row and the column of an invocation.
fn place(group: vec3u, groups: vec3u, lane: u32) -> vec2u {
  let number = (group.y * groups.x + group.x) * 64u + lane;
  return vec2u(number / p.width, number % p.width);
}

@compute @workgroup_size(64)
fn gather(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
          @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.x >= p.rows) { return; }
  dst[at.x * p.width + at.y] = src[index[at.x] * p.width + at.y];
}

@compute @workgroup_size(64)
fn scatter(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.x >= p.rows) { return; }
  let end = offsets[at.x + 1u];
  var sum = 0.0;
  for (var j = offsets[at.x]; j < end; j += 1u) { sum += src[index[j] * p.width + at.y]; }
  dst[at.x * p.width + at.y] = sum;
}
