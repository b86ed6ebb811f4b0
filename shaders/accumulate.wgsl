// Sums over the parts of a batch: sum[i] = x[i] for the first part, sum[i] + x[i] for every other.
//
//   x        f32 [len]
//   sum      f32 [len]
//   scalars  u32, of which word p.adds is 0 for the first part

struct Params { len: u32, adds: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> sum: array<f32>;
@group(0) @binding(3) var<storage, read> scalars: array<u32>;

@compute @workgroup_size(64)
fn accumulate(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
              @builtin(local_invocation_index) lane: u32) {
  let first = ((group.y * groups.x + group.x) * 64u + lane) * 4u;
  if (first >= p.len) { return; }
  let i = min(first + vec4u(0u, 1u, 2u, 3u), vec4u(p.len - 1u));
  // What an unused sum holds may be no number, so it is not multiplied with 0.
  let before = select(vec4f(), vec4f(sum[i.x], sum[i.y], sum[i.z], sum[i.w]), scalars[p.adds] != 0u);
  let after = before + vec4f(x[i.x], x[i.y], x[i.z], x[i.w]);
  sum[i.w] = after.w; sum[i.z] = after.z; sum[i.y] = after.y; sum[i.x] = after.x;
}
