// Inverted dropout: y[i] = x[i] / (1 - rate) where element i is kept, else 0. The backward is the same with dy for x.
//
//   x, y    Real [len]
//   words   u32, of which words key_low and key_high change from step to step, and word part tells which part of a batch
//           this is
//
// Nothing is stored: whether i is kept follows from a hash of (i / 4, site, key), where a site is one of the model's
// dropouts.
// Of a batch that is done in parts, i counts through all of them: the parts before this one have as many elements each.
// Hash: pcg4d of Jarzynski and Olano, "Hash Functions for GPU Rendering", 2020; its four words decide over the four
// neighbours of an invocation. Softmax and layer norm have their dropout in kernels of their own.

struct Params {
  len: u32,
  site: u32,
  threshold: u32, // rate * 2^32: a hash below it drops
  scale: f32,     // 1 / (1 - rate)
  key_low: u32,
  key_high: u32,
  part: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<Real>;
@group(0) @binding(2) var<storage, read_write> y: array<Real>;
@group(0) @binding(3) var<storage, read> words: array<u32>;

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
  let before = words[p.part] * ((p.len + 3u) / 4u);
  let hash = pcg4d(vec4u(before + quad, p.site, words[p.key_low], words[p.key_high]));
  let first = quad * 4u;
  if (first >= p.len) { return; }
  let i = min(first + vec4u(0u, 1u, 2u, 3u), vec4u(p.len - 1u));
  let v = vec4f(f32(x[i.x]), f32(x[i.y]), f32(x[i.z]), f32(x[i.w]));
  let kept = select(vec4f(), v * p.scale, hash >= vec4u(p.threshold));
  // From the last to the first, which is right where some are past the end.
  y[i.w] = Real(kept.w); y[i.z] = Real(kept.z); y[i.y] = Real(kept.y); y[i.x] = Real(kept.x);
}
