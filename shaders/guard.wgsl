// Is a step fit to be applied? The update reads the verdict before it touches a weight.
//
//   chunks     u32 [chunks, 4]: two words of no use here, the variable, a word of no use here
//   partials   u32 [chunks, 64]: sums of squares of the gradients, as global_norm.wgsl left them
//   mlm_loss   u32 [mlm_rows]
//   nsp_loss   u32 [nsp_rows], where nsp_rows may be 0
//   scalars    u32, of which word p.step is the number of the step
//   norm       u32 [6]: the norm of the gradients; a word of no use here; the verdict:
//              1.0 where the update is to be left out, 0.0 otherwise; why, see below; the step that is spoken of; a
//              word of no use here
//
// All floats come as their bits, since a compiler may assume that there is no infinity and no NaN.
//
// Why: 0 nothing, 1 the norm, 2 + v the gradient of variable v, NSP_LOSS, MLM_LOSS. The highest one is told: losses
// come before gradients, and the backward reaches the last variables first.

const NSP_LOSS: u32 = 0xfffffffeu;
const MLM_LOSS: u32 = 0xffffffffu;

struct Params {
  chunks: u32,
  mlm_rows: u32,
  nsp_rows: u32,
  step: u32,
  halts: u32, // 1: a verdict to leave out stands for all later steps
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> chunks: array<vec4u>;
@group(0) @binding(2) var<storage, read> partials: array<u32>;
@group(0) @binding(3) var<storage, read> mlm_loss: array<u32>;
@group(0) @binding(4) var<storage, read> nsp_loss: array<u32>;
@group(0) @binding(5) var<storage, read> scalars: array<u32>;
@group(0) @binding(6) var<storage, read_write> norm: array<u32>;

var<workgroup> worst: atomic<u32>;

fn is_finite(bits: u32) -> bool { return (bits & 0x7f800000u) != 0x7f800000u; }

@compute @workgroup_size(64)
fn judge(@builtin(local_invocation_index) lane: u32) {
  var why = 0u;
  if (!is_finite(norm[0])) {
    why = 1u;
    for (var row = 0u; row < p.chunks; row += 1u) {
      if (!is_finite(partials[row * 64u + lane])) { why = max(why, 2u + chunks[row].z); }
    }
  }
  for (var row = lane; row < p.nsp_rows; row += 64u) {
    if (!is_finite(nsp_loss[row])) { why = max(why, NSP_LOSS); }
  }
  for (var row = lane; row < p.mlm_rows; row += 64u) {
    if (!is_finite(mlm_loss[row])) { why = MLM_LOSS; }
  }
  if (lane == 0u) { atomicStore(&worst, 0u); } // Pipelines are told not to clear workgroup memory.
  workgroupBarrier();
  atomicMax(&worst, why);
  workgroupBarrier();
  if (lane == 0u && (p.halts == 0u || norm[2] == 0u)) {
    why = atomicLoad(&worst);
    norm[2] = select(0u, 0x3f800000u, why != 0u);
    norm[3] = why;
    norm[4] = scalars[p.step];
  }
}
