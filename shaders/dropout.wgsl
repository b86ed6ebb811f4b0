// Inverted dropout: y[i] = x[i] / (1 - rate) where element i is kept, else 0. The backward is the same with dy for x.
//
//   x, y    Real [len]
//   words   u32, of which words key_low and key_high change from step to step, and word part tells which part of a batch
//           this is
//
// Nothing is stored: whether i is kept follows from a hash of (i / 4, site, key), where a site is one of the model's
// dropouts.
// Of a batch that is done in parts, i counts through all of them: the parts before this one have as many elements each.
// Sequences may have been longer: i counts through what was there, too.
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
  all: u32,     // elements of a part, with those that are not here
  run: u32,     // groups of four of a sequence
  skipped: u32, // those after it that are not here; if there are any, sequences consist of whole groups
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
  // An invocation has four neighbours of the whole, of which the first and the last may lie in other parts.
  let rest = words[p.part] * (p.all % 4u);
  let before = words[p.part] * (p.all / 4u) + rest / 4u;
  let quad = (group.y * groups.x + group.x) * 64u + lane;
  let number = before + quad + quad / p.run * p.skipped;
  let hash = pcg4d(vec4u(number, p.site, words[p.key_low], words[p.key_high]));
  for (var j = 0u; j < 4u; j += 1u) {
    // In the part before, this wraps around and is past the end, too.
    let i = quad * 4u + j - rest % 4u;
    if (i < p.len) { y[i] = Real(select(0.0, f32(x[i]) * p.scale, hash[j] >= p.threshold)); }
  }
}
