// The batched matrix product of matmul.wgsl, for adapters whose subgroups are always of 8 invocations.
//
// Software adapters load every invocation's operands one by one. Here a subgroup holds a tile of 16 x 32: an invocation
// loads two rows of A for all of them and four columns of B for itself, so 64 products need 6 loads instead of 16.
// Bindings and parameters are those of matmul.wgsl. Natively only: browsers want an `enable subgroups` that naga
// refuses, and wgpu asks no browser for subgroups.

struct Operand { base: u32, row: u32, col: u32, outer: u32, inner: u32 }

struct Params {
  m: u32, n: u32, k: u32,
  batch: u32, batch_inner: u32,
  alpha: f32,
  has_bias: u32,
  accumulate: u32,
  @align(16) @size(32) a: Operand,
  @align(16) @size(32) b: Operand,
  @align(16) @size(32) c: Operand,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> c: array<f32>;

fn start(operand: Operand, z: u32) -> u32 {
  return operand.base + operand.outer * (z / p.batch_inner) + operand.inner * (z % p.batch_inner);
}

// What is added to the columns col, col + 8, col + 16 and col + 24 of every row.
fn added(col: u32) -> vec4f {
  if (p.has_bias == 0u) { return vec4f(); }
  let last = p.n - 1u;
  return vec4f(bias[min(col, last)], bias[min(col + 8u, last)], bias[min(col + 16u, last)], bias[min(col + 24u, last)]);
}

fn store(origin: u32, row: u32, col: u32, sum: vec4f, add: vec4f) {
  if (row >= p.m || col >= p.n) { return; }
  let at = origin + row * p.c.row + col;
  let more = p.n - 1u - col;
  var value = p.alpha * sum + add;
  if (p.accumulate != 0u) { value += vec4f(c[at], c[at + min(8u, more)], c[at + min(16u, more)], c[at + min(24u, more)]); }
  c[at] = value.x;
  if (more >= 8u) { c[at + 8u] = value.y; }
  if (more >= 16u) { c[at + 16u] = value.z; }
  if (more >= 24u) { c[at + 24u] = value.w; }
}

@compute @workgroup_size(8)
fn subgroup_16x32(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                  @builtin(subgroup_invocation_id) lane: u32) {
  let tiles_n = (p.n + 31u) / 32u;
  let tiles_m = (p.m + 15u) / 16u;
  let tile = group.y * groups.x + group.x;
  let z = tile / (tiles_m * tiles_n);
  if (z >= p.batch) { return; }
  let row = (tile / tiles_n) % tiles_m * 16u;
  let col = tile % tiles_n * 32u + lane;

  let a_start = start(p.a, z);
  var a0 = a_start + min(row + lane, p.m - 1u) * p.a.row;
  var a1 = a_start + min(row + lane + 8u, p.m - 1u) * p.a.row;
  let b_start = start(p.b, z);
  var b0 = b_start + min(col + 0u, p.n - 1u) * p.b.col;
  var b1 = b_start + min(col + 8u, p.n - 1u) * p.b.col;
  var b2 = b_start + min(col + 16u, p.n - 1u) * p.b.col;
  var b3 = b_start + min(col + 24u, p.n - 1u) * p.b.col;
  var s0 = vec4f(); var s1 = vec4f(); var s2 = vec4f(); var s3 = vec4f();
  var s4 = vec4f(); var s5 = vec4f(); var s6 = vec4f(); var s7 = vec4f();
  var s8 = vec4f(); var s9 = vec4f(); var sa = vec4f(); var sb = vec4f();
  var sc = vec4f(); var sd = vec4f(); var se = vec4f(); var sf = vec4f();
  for (var l = 0u; l < p.k; l += 1u) {
    let v = a[a0]; a0 += p.a.col;
    let w = a[a1]; a1 += p.a.col;
    let x = vec4f(b[b0], b[b1], b[b2], b[b3]);
    b0 += p.b.row; b1 += p.b.row; b2 += p.b.row; b3 += p.b.row;
    s0 += subgroupBroadcast(v, 0u) * x; s8 += subgroupBroadcast(w, 0u) * x;
    s1 += subgroupBroadcast(v, 1u) * x; s9 += subgroupBroadcast(w, 1u) * x;
    s2 += subgroupBroadcast(v, 2u) * x; sa += subgroupBroadcast(w, 2u) * x;
    s3 += subgroupBroadcast(v, 3u) * x; sb += subgroupBroadcast(w, 3u) * x;
    s4 += subgroupBroadcast(v, 4u) * x; sc += subgroupBroadcast(w, 4u) * x;
    s5 += subgroupBroadcast(v, 5u) * x; sd += subgroupBroadcast(w, 5u) * x;
    s6 += subgroupBroadcast(v, 6u) * x; se += subgroupBroadcast(w, 6u) * x;
    s7 += subgroupBroadcast(v, 7u) * x; sf += subgroupBroadcast(w, 7u) * x;
  }
  let origin = start(p.c, z);
  let add = added(col);
  store(origin, row + 0u, col, s0, add); store(origin, row + 1u, col, s1, add);
  store(origin, row + 2u, col, s2, add); store(origin, row + 3u, col, s3, add);
  store(origin, row + 4u, col, s4, add); store(origin, row + 5u, col, s5, add);
  store(origin, row + 6u, col, s6, add); store(origin, row + 7u, col, s7, add);
  store(origin, row + 8u, col, s8, add); store(origin, row + 9u, col, s9, add);
  store(origin, row + 10u, col, sa, add); store(origin, row + 11u, col, sb, add);
  store(origin, row + 12u, col, sc, add); store(origin, row + 13u, col, sd, add);
  store(origin, row + 14u, col, se, add); store(origin, row + 15u, col, sf, add);
}
