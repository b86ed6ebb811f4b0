// Numbers as activations are stored: y[i] = x[i]. Those too large for it become infinite.
//
//   x   f32 [len]
//   y   Real [len]

struct Params { len: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<Real>;

@compute @workgroup_size(64)
fn store(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
         @builtin(local_invocation_index) lane: u32) {
  let first = ((group.y * groups.x + group.x) * 64u + lane) * 4u;
  if (first >= p.len) { return; }
  let i = min(first + vec4u(0u, 1u, 2u, 3u), vec4u(p.len - 1u));
  y[i.x] = Real(x[i.x]); y[i.y] = Real(x[i.y]); y[i.z] = Real(x[i.z]); y[i.w] = Real(x[i.w]);
}
