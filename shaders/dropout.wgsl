// Inverted dropout: y[i] = x[i] / (1 - rate) where element i is kept, else 0. The backward is the same with dy for x.
//
//   x, y    f32 [len]
//   key_a   u32, word key_a_word of it \ two words that change from step to step
//   key_b   u32, word key_b_word of it /
//
// Nothing is stored: whether i is kept follows from a hash of (i, site, key_a, key_b), where a site is one of the
// model's dropouts. Hash: pcg4d of Jarzynski and Olano, "Hash Functions for GPU Rendering", 2020; its four words
// decide over the four neighbours of an invocation.

struct Params {
  len: u32,
  site: u32,
  threshold: u32, // rate * 2^32: a hash below it drops
  scale: f32,     // 1 / (1 - rate)
  key_a_word: u32,
  key_b_word: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> key_a: array<u32>;
@group(0) @binding(4) var<storage, read> key_b: array<u32>;

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

@compute @workgroup_size(64)
fn dropout(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  let quad = (group.y * groups.x + group.x) * 64u + lane;
  let hash = pcg4d(vec4u(quad, p.site, key_a[p.key_a_word], key_b[p.key_b_word]));
  let first = quad * 4u;
  let end = min(first + 4u, p.len);
  for (var i = first; i < end; i += 1u) { y[i] = select(0.0, x[i] * p.scale, hash[i - first] >= p.threshold); }
}
