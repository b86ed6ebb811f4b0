// Loss scaling: the gradient of the loss is multiplied by a scale on its way back, so that small gradients are not lost
// in 16 bits. A dynamic scale grows after so many good steps in a row and halves where a gradient is not finite. Skipped
// updates do not count for the learning rate.
//
//   begin    before the losses: the factors of their gradients, times the scale, and the rates of the update that is next
//   settle   after guard.wgsl: norm and clip factor of the gradients without the scale, and the scale of the next step
//
//   scalars  u32: words step (u32), mlm_factor, nsp_factor and the four from rates on (f32) are those of the step
//   state    u32 [4]: the scale (f32), good steps in a row since a dynamic one changed, steps skipped in a row and
//            in all
//   history  f32 [kept, 4]: the rates that came with the last steps, by the number of the step modulo kept
//   scaled   f32 [6]: the factor of the masked-LM loss, that of the next-sentence loss, four rates
//   norm     u32 [6]: before, the norm (f32) of the scaled gradients, a word of no use here, not 0 where the update is
//            skipped, two words of no use here; after, the norm and clip factor that the update takes, and as the last
//            word the scale of the next step

struct Params {
  step: u32, mlm_factor: u32, nsp_factor: u32, rates: u32,
  kept: u32,
  clip_norm: f32,        // 0: do not clip
  growth_interval: u32,  // 0: the scale stays as it is
}

const LARGEST: f32 = 0x1p127;

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> scalars: array<u32>;
@group(0) @binding(2) var<storage, read_write> state: array<u32>;
@group(0) @binding(3) var<storage, read_write> history: array<u32>;
@group(0) @binding(4) var<storage, read_write> scaled: array<u32>;
@group(0) @binding(5) var<storage, read_write> norm: array<u32>;

@compute @workgroup_size(1)
fn begin() {
  let scale = bitcast<f32>(state[0]);
  scaled[0] = bitcast<u32>(scale * bitcast<f32>(scalars[p.mlm_factor]));
  scaled[1] = bitcast<u32>(scale * bitcast<f32>(scalars[p.nsp_factor]));
  // The update has the rates of the step that it would be had none been skipped.
  let step = scalars[p.step];
  let place = 4u * (step % p.kept);
  let taken = 4u * ((step - min(state[3], p.kept - 1u)) % p.kept);
  for (var i = 0u; i < 4u; i += 1u) { history[place + i] = scalars[p.rates + i]; }
  for (var i = 0u; i < 4u; i += 1u) { scaled[2u + i] = history[taken + i]; }
}

@compute @workgroup_size(1)
fn settle() {
  var scale = bitcast<f32>(state[0]);
  if (norm[2] != 0u) {
    if (p.growth_interval > 0u) { scale = max(0.5 * scale, 1.0); }
    state[1] = 0u;
    state[2] += 1u;
    state[3] += 1u;
  } else {
    let total = bitcast<f32>(norm[0]) / scale;
    var factor = 1.0;
    if (p.clip_norm > 0.0) { factor = p.clip_norm / max(total, p.clip_norm); }
    norm[0] = bitcast<u32>(total);
    norm[1] = bitcast<u32>(factor / scale);
    state[2] = 0u;
    if (p.growth_interval > 0u) {
      state[1] += 1u;
      if (state[1] >= p.growth_interval) {
        if (scale < LARGEST) { scale *= 2.0; }
        state[1] = 0u;
      }
    }
  }
  state[0] = bitcast<u32>(scale);
  norm[5] = bitcast<u32>(scale);
}
