// Softmax over the last dimension of attention scores, in place, with an additive mask of keys; the dropout that follows
// it; and the gradient of both.
//
//   forward            v[k] = scores[r, k] + (1 - mask[r / rows_per_mask, k]) * -1e9
//                      scores[r, k] = exp(v[k] - max of v) / sum of exp(v - max of v)
//   forward_dropout    the same, then dropped[r, k] = scores[r, k] * scale where kept, else 0
//     scores           Real [rows, width], probabilities afterwards
//     mask             u32 [rows / rows_per_mask, width], 1 = may be attended to, 0 = not
//     dropped          Real [rows, width]
//     words            u32, of which three decide what is kept, see dropout.wgsl; the hashed number is that of a
//                      group of four columns, and a row ends its last group
//
//   backward           dp[r, k] = probabilities[r, k] * (dp[r, k] - sum of probabilities[r, :] * dp[r, :])
//   backward_dropout   the same of dp[r, k] * scale where kept, else 0
//     probabilities    Real [rows, width]
//     dp               Real [rows, width], the gradient of the scores afterwards
//
// Every row has LANES invocations, and a lane reads and writes its own columns only, four neighbours at a time: past the
// end the last one again. A row whose keys are all masked comes out uniform: in f32, -1e9 swallows any score. It is never
// stored, for f16 has no such number.

struct Params {
  rows: u32, width: u32, rows_per_mask: u32,
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

// The maximum likewise.
fn max_lanes(lane: u32, values: vec4f) -> f32 {
  var top = max(max(values.x, values.y), max(values.z, values.w));
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

@group(0) @binding(4) var<storage, read> words: array<u32>;

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
@group(0) @binding(1) var<storage, read_write> scores: array<Real>;
@group(0) @binding(2) var<storage, read> mask: array<u32>;
@group(0) @binding(3) var<storage, read_write> dropped: array<Real>;

fn load_scores(i: vec4u) -> vec4f {
  return vec4f(f32(scores[i.x]), f32(scores[i.y]), f32(scores[i.z]), f32(scores[i.w]));
}
// All stores go from the last to the first, which is right where some are past the end.
fn store_scores(i: vec4u, v: vec4f) {
  scores[i.w] = Real(v.w); scores[i.z] = Real(v.z); scores[i.y] = Real(v.y); scores[i.x] = Real(v.x);
}

// v of four columns.
fn masked(row: u32, col: u32) -> vec4f {
  let k = four(col);
  let m = row / p.rows_per_mask * p.width + k;
  let attended = vec4f(vec4u(mask[m.x], mask[m.y], mask[m.z], mask[m.w]));
  return load_scores(row * p.width + k) + (1.0 - attended) * -1e9;
}

// Leaves exp(v - max of v) in the scores, and returns what makes probabilities of it.
fn exponentials(row: u32, lane: u32) -> f32 {
  let first = row * p.width;
  let end = columns(row);
  var top = vec4f(-3.4e38);
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) { top = max(top, masked(row, col)); }
  let row_top = max_lanes(lane, top);
  var sum = 0.0;
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let e = exp(masked(row, col) - row_top);
    store_scores(first + four(col), e);
    sum = add_four(sum, inside(col, e));
  }
  return 1.0 / sum_lanes(lane, sum);
}

@compute @workgroup_size(64)
fn forward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  let row = row_of(group, groups, lane);
  let scale = exponentials(row, lane);
  let end = columns(row);
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = row * p.width + four(col);
    store_scores(i, load_scores(i) * scale);
  }
}

@compute @workgroup_size(64)
fn forward_dropout(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                   @builtin(local_invocation_index) lane: u32) {
  let row = row_of(group, groups, lane);
  let scale = exponentials(row, lane);
  let end = columns(row);
  let key = row_key(row);
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = row * p.width + four(col);
    let probabilities = load_scores(i) * scale;
    store_scores(i, probabilities);
    let d = dropout(key, col, probabilities);
    dropped[i.w] = Real(d.w); dropped[i.z] = Real(d.z); dropped[i.y] = Real(d.y); dropped[i.x] = Real(d.x);
  }
}

// Backward.
@group(0) @binding(1) var<storage, read> probabilities: array<Real>;
@group(0) @binding(2) var<storage, read_write> dp: array<Real>;

fn load_probabilities(i: vec4u) -> vec4f {
  return vec4f(f32(probabilities[i.x]), f32(probabilities[i.y]), f32(probabilities[i.z]), f32(probabilities[i.w]));
}
fn load_dp(i: vec4u) -> vec4f { return vec4f(f32(dp[i.x]), f32(dp[i.y]), f32(dp[i.z]), f32(dp[i.w])); }
fn store_dp(i: vec4u, v: vec4f) { dp[i.w] = Real(v.w); dp[i.z] = Real(v.z); dp[i.y] = Real(v.y); dp[i.x] = Real(v.x); }

@compute @workgroup_size(64)
fn backward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
            @builtin(local_invocation_index) lane: u32) {
  let row = row_of(group, groups, lane);
  let first = row * p.width;
  let end = columns(row);
  var sum = 0.0;
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = first + four(col);
    sum = add_four(sum, inside(col, load_probabilities(i) * load_dp(i)));
  }
  let row_sum = sum_lanes(lane, sum);
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = first + four(col);
    store_dp(i, load_probabilities(i) * (load_dp(i) - row_sum));
  }
}

@compute @workgroup_size(64)
fn backward_dropout(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                    @builtin(local_invocation_index) lane: u32) {
  let row = row_of(group, groups, lane);
  let first = row * p.width;
  let end = columns(row);
  let key = row_key(row);
  var sum = 0.0;
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = first + four(col);
    sum = add_four(sum, inside(col, load_probabilities(i) * dropout(key, col, load_dp(i))));
  }
  let row_sum = sum_lanes(lane, sum);
  for (var col = lane % LANES * 4u; col < end; col += LANES * 4u) {
    let i = first + four(col);
    store_dp(i, load_probabilities(i) * (dropout(key, col, load_dp(i)) - row_sum));
  }
}
