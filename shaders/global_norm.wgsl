// The norm of all gradients together, and the factor that brings it down to the clipping norm.
//
//   chunks      u32 [chunks, 4]: start and length in the slab of a piece of one variable; two words of no use here
//   gradients   f32, a slab of them; pieces start at multiples of 4 words
//   partials    f32 [chunks, 64]: sums of squares
//   sums        f32 [64]: what segment_sum.wgsl made of the partials of all slabs
//   norm        f32, of which the first two words are the norm and the factor

struct Params {
  first: u32, count: u32, // chunks
  clip_norm: f32,         // 0: do not clip
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> chunks: array<vec4u>;
@group(0) @binding(2) var<storage, read> gradients: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> partials: array<f32>;
@group(0) @binding(4) var<storage, read> sums: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> norm: array<f32>;

@compute @workgroup_size(64)
fn squares(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  let row = p.first + group.y * groups.x + group.x;
  if (row >= p.first + p.count) { return; }
  let chunk = chunks[row];
  let end = chunk.x + chunk.y;
  var sum = vec4f();
  for (var i = chunk.x / 4u + lane; i * 4u < end; i += 64u) {
    // The last four words may reach into the padding behind the variable.
    let inside = vec4u(i * 4u) + vec4u(0u, 1u, 2u, 3u) < vec4u(end);
    let g = select(vec4f(), gradients[i], inside);
    sum += g * g;
  }
  partials[row * 64u + lane] = (sum.x + sum.y) + (sum.z + sum.w);
}

@compute @workgroup_size(1)
fn finish() {
  var squares = vec4f();
  for (var i = 0u; i < 16u; i += 1u) { squares += sums[i]; }
  let total = sqrt((squares.x + squares.y) + (squares.z + squares.w));
  var factor = 1.0;
  if (p.clip_norm > 0.0) { factor = p.clip_norm / max(total, p.clip_norm); }
  norm[0] = total;
  norm[1] = factor;
}
