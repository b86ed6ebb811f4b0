// LAMB over a slab of parameters, cut into chunks of one variable each. Three kernels, with the sums of
// segment_sum.wgsl between the first and the second:
//
//   moments   g = clip factor * gradient
//             m = beta_1 m + (1 - beta_1) g
//             v = beta_2 v + (1 - beta_2) g²
//             u = (m / (1 - beta_1^t)) / (sqrt(v / (1 - beta_2^t)) + epsilon), + weight_decay * w where the
//             variable decays; u takes the place of the gradient
//             partials of ‖w‖² and ‖u‖²
//   ratio     ‖w‖ / ‖u‖ of each variable; 1 where it does not decay or a norm is 0
//   apply     w -= ratio * lr * u
//
//   table       u32 [n, 4]: for moments and apply the chunks: start and length in the slab, variable, 1 where it
//               decays; for ratio the variables: two words of no use here, the variable, 1 where it decays
//   scalars     f32, from word p.scalars on: lr, one word of no use here, 1 / (1 - beta_1^t), 1 / (1 - beta_2^t)
//   norm        f32: global norm of the gradients, clip factor, not 0 where nothing is to be updated
//   gradients (u), parameters (w), first_moments (m), second_moments (v)
//               f32, slabs of one layout; chunks start at multiples of 4 words
//   partials    f32 [2, chunks of all slabs, 64]: ‖w‖², ‖u‖²
//   sums        f32 [2, variables, 64]: ‖w‖², ‖u‖²
//   ratios      f32 [variables]

struct Params {
  first: u32, count: u32, // rows of the table
  scalars: u32,
  beta_1: f32, one_minus_beta_1: f32,
  beta_2: f32, one_minus_beta_2: f32,
  epsilon: f32,
  weight_decay: f32,
  all_chunks: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> table: array<vec4u>;
@group(0) @binding(2) var<storage, read> scalars: array<f32>;
@group(0) @binding(3) var<storage, read> norm: array<f32>;
@group(0) @binding(4) var<storage, read_write> gradients: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> parameters: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> first_moments: array<vec4f>;
@group(0) @binding(7) var<storage, read_write> second_moments: array<vec4f>;
@group(0) @binding(8) var<storage, read_write> partials: array<f32>;
@group(0) @binding(9) var<storage, read> sums: array<vec4f>;
@group(0) @binding(10) var<storage, read_write> ratios: array<f32>;

@compute @workgroup_size(64)
fn moments(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  let row = p.first + group.y * groups.x + group.x;
  if (row >= p.first + p.count || norm[2] != 0.0) { return; }
  let chunk = table[row];
  let end = chunk.x + chunk.y;
  let decay = select(0.0, p.weight_decay, chunk.w != 0u);
  let correction_1 = scalars[p.scalars + 2u];
  let correction_2 = scalars[p.scalars + 3u];
  let clip = norm[1];
  var w_squares = vec4f();
  var u_squares = vec4f();
  for (var i = chunk.x / 4u + lane; i * 4u < end; i += 64u) {
    // The last four words may reach into the padding behind the variable, which keeps what it holds.
    let inside = vec4u(i * 4u) + vec4u(0u, 1u, 2u, 3u) < vec4u(end);
    let gradient = gradients[i];
    let old_m = first_moments[i];
    let old_v = second_moments[i];
    let g = clip * gradient;
    let m = p.beta_1 * old_m + p.one_minus_beta_1 * g;
    let v = p.beta_2 * old_v + p.one_minus_beta_2 * g * g;
    let w = select(vec4f(), parameters[i], inside);
    let adam = correction_1 * m / (sqrt(correction_2 * v) + p.epsilon);
    let u = select(vec4f(), adam + decay * w, inside);
    w_squares += w * w;
    u_squares += u * u;
    gradients[i] = select(gradient, u, inside);
    first_moments[i] = select(old_m, m, inside);
    second_moments[i] = select(old_v, v, inside);
  }
  partials[row * 64u + lane] = (w_squares.x + w_squares.y) + (w_squares.z + w_squares.w);
  partials[(p.all_chunks + row) * 64u + lane] = (u_squares.x + u_squares.y) + (u_squares.z + u_squares.w);
}

fn norm_of(row: u32) -> f32 {
  var sum = vec4f();
  for (var i = 0u; i < 16u; i += 1u) { sum += sums[row * 16u + i]; }
  return sqrt((sum.x + sum.y) + (sum.z + sum.w));
}

@compute @workgroup_size(64)
fn ratio(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
         @builtin(local_invocation_index) lane: u32) {
  let variable = (group.y * groups.x + group.x) * 64u + lane;
  if (variable >= p.count) { return; }
  let w_norm = norm_of(variable);
  let u_norm = norm_of(p.count + variable);
  let adapts = table[variable].w != 0u && w_norm > 0.0 && u_norm > 0.0;
  // No division where it would be by 0.
  ratios[variable] = select(1.0, w_norm / select(1.0, u_norm, adapts), adapts);
}

@compute @workgroup_size(64)
fn apply(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
         @builtin(local_invocation_index) lane: u32) {
  let row = p.first + group.y * groups.x + group.x;
  if (row >= p.first + p.count || norm[2] != 0.0) { return; }
  let chunk = table[row];
  let end = chunk.x + chunk.y;
  let rate = ratios[chunk.z] * scalars[p.scalars];
  for (var i = chunk.x / 4u + lane; i * 4u < end; i += 64u) {
    let inside = vec4u(i * 4u) + vec4u(0u, 1u, 2u, 3u) < vec4u(end);
    let w = parameters[i];
    parameters[i] = select(w, w - rate * gradients[i], inside);
  }
}
