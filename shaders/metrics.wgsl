// One step's record: sums of per-row losses and hits, the gradient norm and the step number, in a ring of records.
//
//   ring[slot, :] = [ sum of mlm_loss * scale, sum of mlm_hit * scale, sum of nsp_loss * scale, sum of nsp_hit * scale,
//                     norm[0], step, norm[3], norm[5] ]
//
//   mlm_loss, mlm_hit   f32 [mlm_rows]
//   nsp_loss, nsp_hit   f32 [nsp_rows], where nsp_rows may be 0
//   scalars             u32; words scales[0..4] hold the four scales (f32), words slot and step hold u32
//   norm                u32: the gradients' norm as its bits, 3 words further why the update was left out, and in the
//                       last of 6 words the loss scale
//   ring                u32 [slots, 8], floats as their bits
//
// A single workgroup of LANES invocations.

struct Params {
  scales: vec4u,
  mlm_rows: u32,
  nsp_rows: u32,
  slot: u32,
  step: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> mlm_loss: array<f32>;
@group(0) @binding(2) var<storage, read> mlm_hit: array<f32>;
@group(0) @binding(3) var<storage, read> nsp_loss: array<f32>;
@group(0) @binding(4) var<storage, read> nsp_hit: array<f32>;
@group(0) @binding(5) var<storage, read> scalars: array<u32>;
@group(0) @binding(6) var<storage, read> norm: array<u32>;
@group(0) @binding(7) var<storage, read_write> ring: array<u32>;

override LANES: u32 = 64u;
var<workgroup> scratch: array<vec4f, 64>;

// The sum of `value` over all lanes, in all of them.
fn sum_lanes(lane: u32, value: vec4f) -> vec4f {
  var sum = value;
  if (LANES > 1u) {
    scratch[lane] = sum;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
      if (lane < half) { scratch[lane] += scratch[lane + half]; }
      workgroupBarrier();
    }
    sum = scratch[0];
  }
  return sum;
}

@compute @workgroup_size(LANES)
fn metrics(@builtin(local_invocation_index) lane: u32) {
  // In blocks, so that long sums lose no digits.
  let block = 32u * LANES;
  var sum = vec4f();
  for (var start = lane; start < max(p.mlm_rows, p.nsp_rows); start += block) {
    var block_sum = vec4f();
    for (var i = start; i < min(start + block, p.mlm_rows); i += LANES) {
      block_sum += vec4f(mlm_loss[i], mlm_hit[i], 0.0, 0.0);
    }
    for (var i = start; i < min(start + block, p.nsp_rows); i += LANES) {
      block_sum += vec4f(0.0, 0.0, nsp_loss[i], nsp_hit[i]);
    }
    sum += block_sum;
  }
  sum = sum_lanes(lane, sum);
  if (lane == 0u) {
    let record = scalars[p.slot] * 8u;
    for (var i = 0u; i < 4u; i += 1u) {
      ring[record + i] = bitcast<u32>(sum[i] * bitcast<f32>(scalars[p.scales[i]]));
    }
    ring[record + 4u] = norm[0];
    ring[record + 5u] = scalars[p.step];
    ring[record + 6u] = norm[3];
    ring[record + 7u] = norm[5];
  }
}
