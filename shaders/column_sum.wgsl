// Sums over the rows of a matrix, in two passes so that tall matrices keep many invocations busy.
//
//   block   out[b, j] = sum of x[r, j] over the block_rows rows of block b
//     x     f32 [rows, columns]
//     out   f32 [blocks, columns]
//
// Run once over the rows and once, as a single block, over the partial sums. One invocation per element of out.

struct Params { rows: u32, columns: u32, block_rows: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn block(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
         @builtin(local_invocation_index) lane: u32) {
  let number = (group.y * groups.x + group.x) * 64u + lane;
  let col = number % p.columns;
  let first = number / p.columns * p.block_rows;
  if (first >= p.rows) { return; }
  let end = min(first + p.block_rows, p.rows);
  var sum = 0.0;
  for (var row = first; row < end; row += 1u) { sum += x[row * p.columns + col]; }
  out[first / p.block_rows * p.columns + col] = sum;
}
