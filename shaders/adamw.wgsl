// AdamW over a slab of parameters, cut into chunks of one variable each:
//
//   g = clip factor * gradient
//   w -= lr * weight_decay * w                   where the variable decays; before the step, at the raw rate
//   m = beta_1 m + (1 - beta_1) g
//   v = beta_2 v + (1 - beta_2) g²
//   w -= alpha * m / (sqrt(v) + epsilon)         alpha = lr sqrt(1 - beta_2^t) / (1 - beta_1^t)
//
//   chunks   u32 [chunks, 4]: start and length in the slab, variable, 1 where it decays
//   scalars  f32, from word p.scalars on: lr, alpha, two words of no use here
//   norm     f32: global norm of the gradients, clip factor, not 0 where nothing is to be updated
//   gradients, parameters (w), first_moments (m), second_moments (v)
//            f32, slabs of one layout; chunks start at multiples of 4 words

struct Params {
  first: u32, count: u32, // chunks
  scalars: u32,
  beta_1: f32, one_minus_beta_1: f32,
  beta_2: f32, one_minus_beta_2: f32,
  epsilon: f32,
  weight_decay: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> chunks: array<vec4u>;
@group(0) @binding(2) var<storage, read> scalars: array<f32>;
@group(0) @binding(3) var<storage, read> norm: array<f32>;
@group(0) @binding(4) var<storage, read> gradients: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> parameters: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> first_moments: array<vec4f>;
@group(0) @binding(7) var<storage, read_write> second_moments: array<vec4f>;

@compute @workgroup_size(64)
fn update(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
          @builtin(local_invocation_index) lane: u32) {
  let row = p.first + group.y * groups.x + group.x;
  if (row >= p.first + p.count || norm[2] != 0.0) { return; }
  let chunk = chunks[row];
  let end = chunk.x + chunk.y;
  let decay = select(0.0, scalars[p.scalars] * p.weight_decay, chunk.w != 0u);
  let alpha = scalars[p.scalars + 1u];
  let clip = norm[1];
  for (var i = chunk.x / 4u + lane; i * 4u < end; i += 64u) {
    // The last four words may reach into the padding behind the variable, which keeps what it holds.
    let inside = vec4u(i * 4u) + vec4u(0u, 1u, 2u, 3u) < vec4u(end);
    let old = parameters[i];
    let old_m = first_moments[i];
    let old_v = second_moments[i];
    let g = clip * gradients[i];
    let m = p.beta_1 * old_m + p.one_minus_beta_1 * g;
    let v = p.beta_2 * old_v + p.one_minus_beta_2 * g * g;
    let w = old - decay * old;
    parameters[i] = select(old, w - alpha * m / (sqrt(v) + p.epsilon), inside);
    first_moments[i] = select(old_m, m, inside);
    second_moments[i] = select(old_v, v, inside);
  }
}
