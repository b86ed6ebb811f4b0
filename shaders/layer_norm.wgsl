// Layer normalization over the last dimension, with the dropout and the residual addition before it, and its gradients.
//
//   forward, add_forward, dropout_add_forward
//                        y[r, i] = gamma[i] * (h[r, i] - mean[r]) * rstd[r] + beta[i]
//     x, residual          Real [rows, width]; add_forward first stores h = x + residual, forward takes h as it is, and
//                          dropout_add_forward adds x[r, i] * scale where kept, else 0
//     h                    Real [rows, width]
//     gamma, beta          f32 [width]
//     y                    Real [rows, width]
//     stats                f32 [rows, 2]: mean[r] and rstd[r] = 1 / sqrt(mean of (h - mean)^2 + epsilon)
//     words                u32, of which three decide what is kept, see dropout.wgsl; the hashed number is that of a
//                          group of four columns, and a row ends its last group
//
//   backward             dh[r, i] = rstd[r] * (g[i] - mean of g - n[i] * mean of g * n)
//   backward_dropout     the same, and dx[r, i] = dh[r, i] * scale where kept, else 0
//     dy, h, dh, dx        Real [rows, width]       with g = gamma * dy[r], n = (h[r] - mean[r]) * rstd[r]
//
//   parameters_block     partial[b, 0, i] = sum of dy * n, partial[b, 1, i] = sum of dy, over the rows of block b
//   parameters           dgamma[i] = sum of partial[b, 0, i], dbeta[i] = sum of partial[b, 1, i]
//     partial              f32 [blocks, 2, width]
//     dgamma, dbeta        f32 [width]
//
// Every row has LANES invocations, and a lane reads and writes its own columns only, four neighbours at a time: past the
// end the last one again.

struct Params {
  rows: u32, width: u32, block_rows: u32, epsilon: f32,
  site: u32, threshold: u32, scale: f32, key_low: u32, key_high: u32, part: u32,
  // With the rows and columns that are not here, since sequences have been shortened: rows of a part, and groups of a row.
  all_rows: u32, groups: u32,
  // Tokens of a sequence, and how many it has lost.
  tokens: u32, skipped: u32,
}

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

// The row of an invocation.
fn row_of(group: vec3u, groups: vec3u, lane: u32) -> u32 { return ((group.y * groups.x + group.x) * 64u + lane) / LANES; }

// Columns of a row to go through: none past the last row.
fn columns(row: u32) -> u32 { return select(0u, p.width, row < p.rows); }

// Four columns from `col` on.
fn four(col: u32) -> vec4u { return min(vec4u(col) + vec4u(0u, 1u, 2u, 3u), vec4u(p.width - 1u)); }

// Their values, those past the end as 0.
fn inside(col: u32, values: vec4f) -> vec4f {
  return select(vec4f(), values, vec4u(col) + vec4u(0u, 1u, 2u, 3u) < vec4u(p.width));
}

// Their sum with what is before them, in the order of the columns.
fn add_four(sum: f32, v: vec4f) -> f32 { return (((sum + v.x) + v.y) + v.z) + v.w; }

// Dropout, as in dropout.wgsl.
fn pcg4d(key: vec4u) -> vec4u {
  var v = key * 1664525u + 1013904223u;
  v.x += v.y * v.w;
  v.y += v.z * v.x;
  v.z += v.x * v.y;
  v.w += v.y * v.z;
  v ^= v >> vec4u(16u);
  v.x += v.y * v.w;
  v.y += v.z * v.x;
  v.z += v.x * v.y;
  v.w += v.y * v.z;
  return v;
}

@group(0) @binding(8) var<storage, read> words: array<u32>;

// What is hashed for the first four columns of a row.
fn row_key(row: u32) -> vec4u {
  let number = words[p.part] * p.all_rows + row + row / p.tokens * p.skipped;
  return vec4u(number * p.groups, p.site, words[p.key_low], words[p.key_high]);
}

fn dropout(key: vec4u, col: u32, values: vec4f) -> vec4f {
  let hash = pcg4d(vec4u(key.x + col / 4u, key.yzw));
  return select(vec4f(), values * p.scale, hash >= vec4u(p.threshold));
}

// Forward.
@group(0) @binding(1) var<storage, read_write> h: array<Real>;
@group(0) @binding(2) var<storage, read> gamma: array<f32>;
@group(0) @binding(3) var<storage, read> beta: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<Real>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2f>;
@group(0) @binding(6) var<storage, read> x: array<Real>;
@group(0) @binding(7) var<storage, read> residual: array<Real>;

fn load_h(i: vec4u) -> vec4f { return vec4f(f32(h[i.x]), f32(h[i.y]), f32(h[i.z]), f32(h[i.w])); }
fn load_x(i: vec4u) -> vec4f { return vec4f(f32(x[i.x]), f32(x[i.y]), f32(x[i.z]), f32(x[i.w])); }
fn load_residual(i: vec4u) -> vec4f {
  return vec4f(f32(residual[i.x]), f32(residual[i.y]), f32(residual[i.z]), f32(residual[i.w]));
}
// All stores go from the last to the first, which is right where some are past the end.
fn store_h(i: vec4u, v: vec4f) { h[i.w] = Real(v.w); h[i.z] = Real(v.z); h[i.y] = Real(v.y); h[i.x] = Real(v.x); }

fn normalize(row: u32, lane: u32) {
  let first = row * p.width;
  let end = columns(row);
  var sum = 0.0;
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    sum = add_four(sum, inside(col, load_h(first + four(col))));
  }
  let mean = sum_lanes(lane, sum) / f32(p.width);
  var squares = 0.0;
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let centred = inside(col, load_h(first + four(col)) - mean);
    squares = add_four(squares, centred * centred);
  }
  let rstd = inverseSqrt(sum_lanes(lane, squares) / f32(p.width) + p.epsilon);
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = four(col);
    let g = vec4f(gamma[i.x], gamma[i.y], gamma[i.z], gamma[i.w]);
    let b = vec4f(beta[i.x], beta[i.y], beta[i.z], beta[i.w]);
    let v = g * ((load_h(first + i) - mean) * rstd) + b;
    y[first + i.w] = Real(v.w); y[first + i.z] = Real(v.z); y[first + i.y] = Real(v.y); y[first + i.x] = Real(v.x);
  }
  if (row < p.rows && lane % LANES == 0u) { stats[row] = vec2f(mean, rstd); }
}

@compute @workgroup_size(64)
fn forward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  normalize(row_of(group, groups, lane), lane);
}

@compute @workgroup_size(64)
fn add_forward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
               @builtin(local_invocation_index) lane: u32) {
  let row = row_of(group, groups, lane);
  let end = columns(row);
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = row * p.width + four(col);
    store_h(i, load_x(i) + load_residual(i));
  }
  normalize(row, lane);
}

@compute @workgroup_size(64)
fn dropout_add_forward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                       @builtin(local_invocation_index) lane: u32) {
  let row = row_of(group, groups, lane);
  let end = columns(row);
  let key = row_key(row);
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = row * p.width + four(col);
    store_h(i, dropout(key, col, load_x(i)) + load_residual(i));
  }
  normalize(row, lane);
}

// Backward.
@group(0) @binding(1) var<storage, read> dy: array<Real>;
@group(0) @binding(2) var<storage, read> h_in: array<Real>;
@group(0) @binding(3) var<storage, read> stats_in: array<vec2f>;
@group(0) @binding(4) var<storage, read> gamma_in: array<f32>;
@group(0) @binding(5) var<storage, read_write> dh: array<Real>;
@group(0) @binding(6) var<storage, read_write> dx: array<Real>;

fn load_g(first: u32, i: vec4u) -> vec4f {
  let d = vec4f(f32(dy[first + i.x]), f32(dy[first + i.y]), f32(dy[first + i.z]), f32(dy[first + i.w]));
  return vec4f(gamma_in[i.x], gamma_in[i.y], gamma_in[i.z], gamma_in[i.w]) * d;
}

fn load_n(i: vec4u, mean_rstd: vec2f) -> vec4f {
  return (vec4f(f32(h_in[i.x]), f32(h_in[i.y]), f32(h_in[i.z]), f32(h_in[i.w])) - mean_rstd.x) * mean_rstd.y;
}

fn store_dh(i: vec4u, v: vec4f) { dh[i.w] = Real(v.w); dh[i.z] = Real(v.z); dh[i.y] = Real(v.y); dh[i.x] = Real(v.x); }

// What the gradient of a row's columns needs.
struct Row { first: u32, mean_rstd: vec2f, mean_g: f32, mean_gn: f32 }

fn measure(row: u32, lane: u32) -> Row {
  let first = row * p.width;
  let end = columns(row);
  let mean_rstd = stats_in[min(row, p.rows - 1u)];
  var sum_g = 0.0;
  var sum_gn = 0.0;
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = four(col);
    let g = inside(col, load_g(first, i));
    sum_g = add_four(sum_g, g);
    sum_gn = add_four(sum_gn, g * load_n(first + i, mean_rstd));
  }
  return Row(first, mean_rstd, sum_lanes(lane, sum_g) / f32(p.width), sum_lanes(lane, sum_gn) / f32(p.width));
}

fn gradient(row: Row, i: vec4u) -> vec4f {
  let n = load_n(row.first + i, row.mean_rstd);
  return row.mean_rstd.y * (load_g(row.first, i) - row.mean_g - n * row.mean_gn);
}

@compute @workgroup_size(64)
fn backward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
            @builtin(local_invocation_index) lane: u32) {
  let number = row_of(group, groups, lane);
  let row = measure(number, lane);
  let end = columns(number);
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    store_dh(row.first + four(col), gradient(row, four(col)));
  }
}

@compute @workgroup_size(64)
fn backward_dropout(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                    @builtin(local_invocation_index) lane: u32) {
  let number = row_of(group, groups, lane);
  let row = measure(number, lane);
  let end = columns(number);
  let key = row_key(number);
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = row.first + four(col);
    let v = gradient(row, four(col));
    store_dh(i, v);
    let d = dropout(key, col, v);
    dx[i.w] = Real(d.w); dx[i.z] = Real(d.z); dx[i.y] = Real(d.y); dx[i.x] = Real(d.x);
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
    let d = f32(dy[row * p.width + col]);
    let mean_rstd = stats_in[row];
    sum_gamma += d * ((f32(h_in[row * p.width + col]) - mean_rstd.x) * mean_rstd.y);
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
