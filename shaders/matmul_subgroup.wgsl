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
@group(0) @binding(1) var<storage, read> a: array<Real>;
@group(0) @binding(2) var<storage, read> b: array<Real>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read_write> sums: array<f32>;
@group(0) @binding(4) var<storage, read_write> c: array<Product>;

fn start(operand: Operand, z: u32) -> u32 {
  return operand.base + operand.outer * (z / p.batch_inner) + operand.inner * (z % p.batch_inner);
}

// What is added to the columns col, col + 8, col + 16 and col + 24 of every row.
fn added(col: u32) -> vec4f {
  if (p.has_bias == 0u) { return vec4f(); }
  let last = p.n - 1u;
  return vec4f(bias[min(col, last)], bias[min(col + 8u, last)], bias[min(col + 16u, last)], bias[min(col + 24u, last)]);
}

// Every eighth column of what C held.
fn added_to(at: u32, more: u32) -> vec4f {
  return vec4f(f32(c[at]), f32(c[at + min(8u, more)]), f32(c[at + min(16u, more)]), f32(c[at + min(24u, more)]));
}

fn store(origin: u32, row: u32, col: u32, sum: vec4f, add: vec4f) {
  if (row >= p.m || col >= p.n) { return; }
  let at = origin + row * p.c.row + col;
  let more = p.n - 1u - col;
  var value = p.alpha * sum + add;
  if (p.accumulate != 0u) { value += added_to(at, more); }
  c[at] = Product(value.x);
  if (more >= 8u) { c[at + 8u] = Product(value.y); }
  if (more >= 16u) { c[at + 16u] = Product(value.z); }
  if (more >= 24u) { c[at + 24u] = Product(value.w); }
}

// Which tile a subgroup holds: its batch, row and column.
fn place(group: vec3u, groups: vec3u) -> vec3u {
  let tiles_n = (p.n + 31u) / 32u;
  let tiles_m = (p.m + 15u) / 16u;
  let tile = group.y * groups.x + group.x;
  return vec3u(tile / (tiles_m * tiles_n), (tile / tiles_n) % tiles_m * 16u, tile % tiles_n * 32u);
}

// 16 rows by 4 columns of a product, and the sums of two of those rows of A.
struct Tile {
  sums: vec2f,
  s0: vec4f, s1: vec4f, s2: vec4f, s3: vec4f, s4: vec4f, s5: vec4f, s6: vec4f, s7: vec4f,
  s8: vec4f, s9: vec4f, sa: vec4f, sb: vec4f, sc: vec4f, sd: vec4f, se: vec4f, sf: vec4f,
}

fn multiply(z: u32, row: u32, col: u32, lane: u32) -> Tile {
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
  var r = vec2f();
  for (var l = 0u; l < p.k; l += 1u) {
    let v = f32(a[a0]); a0 += p.a.col;
    let w = f32(a[a1]); a1 += p.a.col;
    r += vec2f(v, w);
    let x = vec4f(f32(b[b0]), f32(b[b1]), f32(b[b2]), f32(b[b3]));
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
  return Tile(r, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, sa, sb, sc, sd, se, sf);
}

fn store_tile(tile: Tile, z: u32, row: u32, col: u32, add: vec4f) {
  let origin = start(p.c, z);
  store(origin, row + 0u, col, tile.s0, add); store(origin, row + 1u, col, tile.s1, add);
  store(origin, row + 2u, col, tile.s2, add); store(origin, row + 3u, col, tile.s3, add);
  store(origin, row + 4u, col, tile.s4, add); store(origin, row + 5u, col, tile.s5, add);
  store(origin, row + 6u, col, tile.s6, add); store(origin, row + 7u, col, tile.s7, add);
  store(origin, row + 8u, col, tile.s8, add); store(origin, row + 9u, col, tile.s9, add);
  store(origin, row + 10u, col, tile.sa, add); store(origin, row + 11u, col, tile.sb, add);
  store(origin, row + 12u, col, tile.sc, add); store(origin, row + 13u, col, tile.sd, add);
  store(origin, row + 14u, col, tile.se, add); store(origin, row + 15u, col, tile.sf, add);
}

@compute @workgroup_size(8)
fn subgroup_16x32(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                  @builtin(subgroup_invocation_id) lane: u32) {
  let at = place(group, groups);
  if (at.x >= p.batch) { return; }
  let col = at.z + lane;
  store_tile(multiply(at.x, at.y, col, lane), at.x, at.y, col, added(col));
}

@compute @workgroup_size(8)
fn subgroup_16x32_sums(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                       @builtin(subgroup_invocation_id) lane: u32) {
  let at = place(group, groups);
  if (at.x >= p.batch) { return; }
  let col = at.z + lane;
  let tile = multiply(at.x, at.y, col, lane);
  store_tile(tile, at.x, at.y, col, vec4f());
  if (at.z != 0u) { return; }
  let row = at.y + lane;
  if (row < p.m) { sums[row] = tile.sums.x; }
  if (row + 8u < p.m) { sums[row + 8u] = tile.sums.y; }
}
