// Layer normalization over the last dimension, with the residual addition before it, and its gradients.
//
//   forward, add_forward   y[r, i] = gamma[i] * (h[r, i] - mean[r]) * rstd[r] + beta[i]
//     x, residual          f32 [rows, width]; add_forward first stores h = x + residual, forward takes h as it is
//     h                    f32 [rows, width]
//     gamma, beta          f32 [width]
//     y                    f32 [rows, width]
//     stats                f32 [rows, 2]: mean[r] and rstd[r] = 1 / sqrt(mean of (h - mean)^2 + epsilon)
//
//   backward               dh[r, i] = rstd[r] * (g[i] - mean of g - n[i] * mean of g * n)
//     dy, h, dh            f32 [rows, width]       with g = gamma * dy[r], n = (h[r] - mean[r]) * rstd[r]
//
//   parameters_block       partial[b, 0, i] = sum of dy * n, partial[b, 1, i] = sum of dy, over the rows of block b
//   parameters             dgamma[i] = sum of partial[b, 0, i], dbeta[i] = sum of partial[b, 1, i]
//     partial              f32 [blocks, 2, width]
//     dgamma, dbeta        f32 [width]
//
// Every row has LANES invocations; a lane reads and writes its own columns only.

struct Params { rows: u32, width: u32, block_rows: u32, epsilon: f32 }

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

// Forward.
@group(0) @binding(1) var<storage, read_write> h: array<f32>;
@group(0) @binding(2) var<storage, read> gamma: array<f32>;
@group(0) @binding(3) var<storage, read> beta: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2f>;
@group(0) @binding(6) var<storage, read> x: array<f32>;
@group(0) @binding(7) var<storage, read> residual: array<f32>;

// Columns of a row to go through: none past the last row.
fn columns(row: u32) -> u32 { return select(0u, p.width, row < p.rows); }

fn normalize(row: u32, lane: u32) {
  let first = row * p.width;
  let end = columns(row);
  var sum = 0.0;
  for (var i = lane % LANES; i < end; i += LANES) { sum += h[first + i]; }
  let mean = sum_lanes(lane, sum) / f32(p.width);
  var squares = 0.0;
  for (var i = lane % LANES; i < end; i += LANES) {
    let centred = h[first + i] - mean;
    squares += centred * centred;
  }
  let rstd = inverseSqrt(sum_lanes(lane, squares) / f32(p.width) + p.epsilon);
  for (var i = lane % LANES; i < end; i += LANES) {
    y[first + i] = gamma[i] * ((h[first + i] - mean) * rstd) + beta[i];
  }
  if (row < p.rows && lane % LANES == 0u) { stats[row] = vec2f(mean, rstd); }
}

@compute @workgroup_size(64)
fn forward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  normalize(((group.y * groups.x + group.x) * 64u + lane) / LANES, lane);
}

@compute @workgroup_size(64)
fn add_forward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
               @builtin(local_invocation_index) lane: u32) {
  let row = ((group.y * groups.x + group.x) * 64u + lane) / LANES;
  let first = row * p.width;
  let end = columns(row);
  for (var i = lane % LANES; i < end; i += LANES) { h[first + i] = x[first + i] + residual[first + i]; }
  normalize(row, lane);
}

// Backward.
@group(0) @binding(1) var<storage, read> dy: array<f32>;
@group(0) @binding(2) var<storage, read> h_in: array<f32>;
@group(0) @binding(3) var<storage, read> stats_in: array<vec2f>;
@group(0) @binding(4) var<storage, read> gamma_in: array<f32>;
@group(0) @binding(5) var<storage, read_write> dh: array<f32>;

@compute @workgroup_size(64)
fn backward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
            @builtin(local_invocation_index) lane: u32) {
  let row = ((group.y * groups.x + group.x) * 64u + lane) / LANES;
  let first = row * p.width;
  let end = columns(row);
  let mean_rstd = stats_in[min(row, p.rows - 1u)];
  var sum_g = 0.0;
  var sum_gn = 0.0;
  for (var i = lane % LANES; i < end; i += LANES) {
    let g = gamma_in[i] * dy[first + i];
    sum_g += g;
    sum_gn += g * ((h_in[first + i] - mean_rstd.x) * mean_rstd.y);
  }
  let mean_g = sum_lanes(lane, sum_g) / f32(p.width);
  let mean_gn = sum_lanes(lane, sum_gn) / f32(p.width);
  for (var i = lane % LANES; i < end; i += LANES) {
    let n = (h_in[first + i] - mean_rstd.x) * mean_rstd.y;
    dh[first + i] = mean_rstd.y * (gamma_in[i] * dy[first + i] - mean_g - n * mean_gn);
  }
}

// Gradients of gamma and beta: one invocation per column of a block of rows first, then of all blocks.
@group(0) @binding(4) var<storage, read_write> partial: array<f32>;

@compute @workgroup_size(64)
fn parameters_block(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                    @builtin(local_invocation_index) lane: u32) {
  let number = (group.y * groups.x + group.x) * 64u + lane;
  let col = number % p.width;
  let first = number / p.width * p.block_rows;
  if (first >= p.rows) { return; }
  let end = min(first + p.block_rows, p.rows);
  var sum_gamma = 0.0;
  var sum_beta = 0.0;
  for (var row = first; row < end; row += 1u) {
    let d = dy[row * p.width + col];
    let mean_rstd = stats_in[row];
    sum_gamma += d * ((h_in[row * p.width + col] - mean_rstd.x) * mean_rstd.y);
    sum_beta += d;
  }
  let to = first / p.block_rows * 2u * p.width + col;
  partial[to] = sum_gamma;
  partial[to + p.width] = sum_beta;
}

@group(0) @binding(1) var<storage, read> partial_in: array<f32>;
@group(0) @binding(2) var<storage, read_write> dgamma: array<f32>;
@group(0) @binding(3) var<storage, read_write> dbeta: array<f32>;

@compute @workgroup_size(64)
fn parameters(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
              @builtin(local_invocation_index) lane: u32) {
  let col = (group.y * groups.x + group.x) * 64u + lane;
  if (col >= p.width) { return; }
  let blocks = (p.rows + p.block_rows - 1u) / p.block_rows;
  var sum_gamma = 0.0;
  var sum_beta = 0.0;
  for (var block = 0u; block < blocks; block += 1u) {
    sum_gamma += partial_in[block * 2u * p.width + col];
    sum_beta += partial_in[(block * 2u + 1u) * p.width + col];
  }
  dgamma[col] = sum_gamma;
  dbeta[col] = sum_beta;
}
