// Softmax over the last dimension of attention scores, in place, with an additive mask of keys; and its gradient.
//
//   forward    v[k] = scores[r, k] + (1 - mask[r / rows_per_mask, k]) * -1e9
//              scores[r, k] = exp(v[k] - max of v) / sum of exp(v - max of v)
//     scores         f32 [rows, width], probabilities afterwards
//     mask           u32 [rows / rows_per_mask, width], 1 = may be attended to, 0 = not
//
//   backward   dp[r, k] = probabilities[r, k] * (dp[r, k] - sum of probabilities[r, :] * dp[r, :])
//     probabilities  f32 [rows, width]
//     dp             f32 [rows, width], the gradient of the scores afterwards
//
// Every row has LANES invocations; a lane reads and writes its own columns only. A row whose keys are all masked comes
// out uniform: in f32, -1e9 swallows any score.

struct Params { rows: u32, width: u32, rows_per_mask: u32 }

@group(0) @binding(0) var<uniform> p: Params;

override LANES: u32 = 64u;
var<workgroup> scratch: array<f32, 64>;

// The sum of `value` over the lanes of a row, in all of them.
fn sum_lanes(lane: u32, value: f32) -> f32 {
  var sum = value;
  if (LANES > 1u) {
    scratch[lane] = sum;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
      if (lane % LANES < half) { scratch[lane] += scratch[lane + half]; }
      workgroupBarrier();
    }
    sum = scratch[lane - lane % LANES];
    workgroupBarrier();
  }
  return sum;
}

// The maximum likewise.
fn max_lanes(lane: u32, value: f32) -> f32 {
  var top = value;
  if (LANES > 1u) {
    scratch[lane] = top;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
      if (lane % LANES < half) { scratch[lane] = max(scratch[lane], scratch[lane + half]); }
      workgroupBarrier();
    }
    top = scratch[lane - lane % LANES];
    workgroupBarrier();
  }
  return top;
}

// Columns of a row to go through: none past the last row.
fn columns(row: u32) -> u32 { return select(0u, p.width, row < p.rows); }

@group(0) @binding(1) var<storage, read_write> scores: array<f32>;
@group(0) @binding(2) var<storage, read> mask: array<u32>;

@compute @workgroup_size(64)
fn forward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  let row = ((group.y * groups.x + group.x) * 64u + lane) / LANES;
  let first = row * p.width;
  let first_mask = row / p.rows_per_mask * p.width;
  let end = columns(row);
  var top = -3.4e38;
  for (var k = lane % LANES; k < end; k += LANES) {
    let masked = scores[first + k] + (1.0 - f32(mask[first_mask + k])) * -1e9;
    scores[first + k] = masked;
    top = max(top, masked);
  }
  top = max_lanes(lane, top);
  var sum = 0.0;
  for (var k = lane % LANES; k < end; k += LANES) {
    let e = exp(scores[first + k] - top);
    scores[first + k] = e;
    sum += e;
  }
  let scale = 1.0 / sum_lanes(lane, sum);
  for (var k = lane % LANES; k < end; k += LANES) { scores[first + k] *= scale; }
}

@group(0) @binding(1) var<storage, read> probabilities: array<f32>;
@group(0) @binding(2) var<storage, read_write> dp: array<f32>;

@compute @workgroup_size(64)
fn backward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
            @builtin(local_invocation_index) lane: u32) {
  let row = ((group.y * groups.x + group.x) * 64u + lane) / LANES;
  let first = row * p.width;
  let end = columns(row);
  var sum = 0.0;
  for (var k = lane % LANES; k < end; k += LANES) { sum += probabilities[first + k] * dp[first + k]; }
  sum = sum_lanes(lane, sum);
  for (var k = lane % LANES; k < end; k += LANES) {
    dp[first + k] = probabilities[first + k] * (dp[first + k] - sum);
  }
}
