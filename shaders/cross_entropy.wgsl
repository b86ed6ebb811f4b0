// Weighted cross entropy of logits with one label per row, and its gradient over the logits.
//
//   loss            row_loss[r] = weights[r] * (log of sum of exp(logits[r, :]) - logits[r, labels[r]])
//                   row_hit[r] = weights[r] where labels[r] is the (first) largest logit, else 0
//   loss_gradient   the same, then logits[r, j] = (softmax(logits[r, :])[j] - [j == labels[r]]) * weights[r] * scale
//
//   logits    Real [rows, stride], of which the first width columns are read; the rest have a gradient of 0
//   labels    u32 [rows], below width
//   weights   f32 [rows]; a row of weight 0 gives exact zeros whatever its logits
//   row_loss  f32 [rows]
//   row_hit   f32 [rows]
//   scalars   f32, word scale_word is the scale
//
// Every row has LANES invocations; a lane reads and writes its own columns only, so no lane overwrites a logit that
// another still needs.

struct Params { rows: u32, width: u32, stride: u32, scale_word: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> logits: array<Real>;
@group(0) @binding(2) var<storage, read> labels: array<u32>;
@group(0) @binding(3) var<storage, read> weights: array<f32>;
@group(0) @binding(4) var<storage, read_write> row_loss: array<f32>;
@group(0) @binding(5) var<storage, read_write> row_hit: array<f32>;
@group(0) @binding(6) var<storage, read> scalars: array<f32>;

override LANES: u32 = 64u;
var<workgroup> scratch: array<f32, 64>;
var<workgroup> scratch_index: array<u32, 64>;

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

struct Top { value: f32, index: u32 }

// The largest of the values and its index, the lowest on ties.
fn top_lanes(lane: u32, own: Top) -> Top {
  var top = own;
  if (LANES > 1u) {
    scratch[lane] = top.value;
    scratch_index[lane] = top.index;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
      if (lane % LANES < half) {
        let other = Top(scratch[lane + half], scratch_index[lane + half]);
        if (other.value > scratch[lane] || (other.value == scratch[lane] && other.index < scratch_index[lane])) {
          scratch[lane] = other.value;
          scratch_index[lane] = other.index;
        }
      }
      workgroupBarrier();
    }
    top = Top(scratch[lane - lane % LANES], scratch_index[lane - lane % LANES]);
    workgroupBarrier();
  }
  return top;
}

// What a row's gradient needs: softmax[j] = exp(logit[j] - top) * scale.
struct Row { number: u32, label: u32, weight: f32, top: f32, scale: f32 }

fn measure(group: vec3u, groups: vec3u, lane: u32) -> Row {
  let number = ((group.y * groups.x + group.x) * 64u + lane) / LANES;
  let row = min(number, p.rows - 1u);
  let weight = weights[row];
  let label = labels[row];
  let first = row * p.stride;
  // Rows past the last and rows of weight 0 have nothing to sum.
  let end = select(0u, p.width, number < p.rows && weight != 0.0);

  // Sums are taken in blocks relative to the running maximum: one pass over memory, and rounding errors of a block
  // instead of a row.
  let block = 32u * LANES;
  var top = Top(-3.4e38, 0xffffffffu);
  var sum = 0.0;
  for (var start = lane % LANES; start < end; start += block) {
    let block_end = min(start + block, end);
    let before = top.value;
    for (var j = start; j < block_end; j += LANES) {
      let logit = f32(logits[first + j]);
      if (logit > top.value) { top = Top(logit, j); }
    }
    var block_sum = 0.0;
    for (var j = start; j < block_end; j += LANES) { block_sum += exp(f32(logits[first + j]) - top.value); }
    sum = sum * exp(before - top.value) + block_sum;
  }
  let row_top = top_lanes(lane, top);
  let row_sum = sum_lanes(lane, sum * exp(top.value - row_top.value));

  // The lane that owns the label's column knows everything.
  if (number < p.rows && lane % LANES == label % LANES) {
    var loss = 0.0;
    var hit = 0.0;
    if (weight != 0.0) {
      loss = weight * (log(row_sum) + (row_top.value - f32(logits[first + label])));
      hit = select(0.0, weight, row_top.index == label);
    }
    row_loss[row] = loss;
    row_hit[row] = hit;
  }
  return Row(number, label, weight, row_top.value, weight / row_sum);
}

@compute @workgroup_size(64)
fn loss(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  _ = measure(group, groups, lane);
}

@compute @workgroup_size(64)
fn loss_gradient(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                 @builtin(local_invocation_index) lane: u32) {
  let row = measure(group, groups, lane);
  let scale = scalars[p.scale_word];
  let first = row.number * p.stride;
  let end = select(0u, p.stride, row.number < p.rows);
  for (var j = lane % LANES; j < end; j += LANES) {
    var gradient = 0.0;
    if (row.weight != 0.0 && j < p.width) {
      let probability_weighted = exp(f32(logits[first + j]) - row.top) * row.scale;
      gradient = (probability_weighted - select(0.0, row.weight, j == row.label)) * scale;
    }
    logits[first + j] = Real(gradient);
  }
}
