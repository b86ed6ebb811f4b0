// Batched matrix product with arbitrary strides: C[z] = alpha * A[z] B[z] (+ bias) (+ C[z]).
//
//   a, b   Real, any tensor: A[z](i, l) = a[base + outer * (z / inner) + inner_stride * (z % inner) + i * row + l * col]
//          B[z](l, j) likewise; A is m x k, B is k x n
//   bias   f32 [n], added to every row
//   c      Product, which is f32 or f16 like Real: C[z](i, j) with unit column stride
//   sums   f32 [m], in the kernels named after them instead of the bias: sums[i] = sum over l of A(i, l)
//
// A transposed operand is one with its strides exchanged, so the backward of y = x Wᵀ + bias is two more calls:
// dx = dy W and dW = dyᵀ x, whose sums are the gradient of the bias. Rows and columns past the edge are loaded from the last one and never stored.

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

// What is added to four neighbouring columns of every row.
fn added(col: u32) -> vec4f {
  if (p.has_bias == 0u) { return vec4f(); }
  let last = p.n - 1u;
  return vec4f(bias[min(col, last)], bias[min(col + 1u, last)], bias[min(col + 2u, last)], bias[min(col + 3u, last)]);
}

// Four neighbouring columns of what C held.
fn added_to(at: u32, more: u32) -> vec4f {
  return vec4f(f32(c[at]), f32(c[at + min(1u, more)]), f32(c[at + min(2u, more)]), f32(c[at + min(3u, more)]));
}

// Straight-line code: a loop over the elements would take llvmpipe a fifth of a product with k = 32.
fn store(origin: u32, row: u32, col: u32, sum: vec4f, add: vec4f) {
  if (row >= p.m || col >= p.n) { return; }
  let at = origin + row * p.c.row + col;
  let more = p.n - 1u - col;
  var value = p.alpha * sum + add;
  if (p.accumulate != 0u) { value += added_to(at, more); }
  c[at] = Product(value.x);
  if (more >= 3u) {
    c[at + 1u] = Product(value.y); c[at + 2u] = Product(value.z); c[at + 3u] = Product(value.w);
  } else {
    if (more >= 1u) { c[at + 1u] = Product(value.y); }
    if (more >= 2u) { c[at + 2u] = Product(value.z); }
  }
}

fn store_sums(row: u32, sum: vec4f) {
  if (row >= p.m) { return; }
  let more = p.m - 1u - row;
  sums[row] = sum.x;
  if (more >= 1u) { sums[row + 1u] = sum.y; }
  if (more >= 2u) { sums[row + 2u] = sum.z; }
  if (more >= 3u) { sums[row + 3u] = sum.w; }
}

// 8 rows by 8 columns of a product, and the sums of those rows of A.
struct Tile {
  z: u32, row: u32, col: u32,
  sums: vec4f, more_sums: vec4f,
  s0: vec4f, t0: vec4f, s1: vec4f, t1: vec4f, s2: vec4f, t2: vec4f, s3: vec4f, t3: vec4f,
  s4: vec4f, t4: vec4f, s5: vec4f, t5: vec4f, s6: vec4f, t6: vec4f, s7: vec4f, t7: vec4f,
}

fn store_tile(tile: Tile, add: vec4f, add_t: vec4f) {
  let origin = start(p.c, tile.z);
  let row = tile.row;
  let col = tile.col;
  store(origin, row + 0u, col, tile.s0, add); store(origin, row + 0u, col + 4u, tile.t0, add_t);
  store(origin, row + 1u, col, tile.s1, add); store(origin, row + 1u, col + 4u, tile.t1, add_t);
  store(origin, row + 2u, col, tile.s2, add); store(origin, row + 2u, col + 4u, tile.t2, add_t);
  store(origin, row + 3u, col, tile.s3, add); store(origin, row + 3u, col + 4u, tile.t3, add_t);
  store(origin, row + 4u, col, tile.s4, add); store(origin, row + 4u, col + 4u, tile.t4, add_t);
  store(origin, row + 5u, col, tile.s5, add); store(origin, row + 5u, col + 4u, tile.t5, add_t);
  store(origin, row + 6u, col, tile.s6, add); store(origin, row + 6u, col + 4u, tile.t6, add_t);
  store(origin, row + 7u, col, tile.s7, add); store(origin, row + 7u, col + 4u, tile.t7, add_t);
}

fn store_tile_and_sums(tile: Tile) {
  store_tile(tile, vec4f(), vec4f());
  if (tile.col == 0u) {
    store_sums(tile.row, tile.sums);
    store_sums(tile.row + 4u, tile.more_sums);
  }
}

// Register family: one invocation holds an 8 x 8 tile; no workgroup memory, no barriers.
override REGISTER_WORKGROUP: u32 = 32u;

// Which tile an invocation of the register family holds: its batch, row and column.
fn register_place(group: vec3u, groups: vec3u, lane: u32) -> vec3u {
  let tiles_n = (p.n + 7u) / 8u;
  let tiles_m = (p.m + 7u) / 8u;
  let tile = (group.y * groups.x + group.x) * REGISTER_WORKGROUP + lane;
  return vec3u(tile / (tiles_m * tiles_n), (tile / tiles_n) % tiles_m * 8u, tile % tiles_n * 8u);
}

fn register_tile(z: u32, row: u32, col: u32) -> Tile {
  let a_start = start(p.a, z);
  var a0 = a_start + min(row + 0u, p.m - 1u) * p.a.row;
  var a1 = a_start + min(row + 1u, p.m - 1u) * p.a.row;
  var a2 = a_start + min(row + 2u, p.m - 1u) * p.a.row;
  var a3 = a_start + min(row + 3u, p.m - 1u) * p.a.row;
  var a4 = a_start + min(row + 4u, p.m - 1u) * p.a.row;
  var a5 = a_start + min(row + 5u, p.m - 1u) * p.a.row;
  var a6 = a_start + min(row + 6u, p.m - 1u) * p.a.row;
  var a7 = a_start + min(row + 7u, p.m - 1u) * p.a.row;
  let b_start = start(p.b, z);
  var b0 = b_start + min(col + 0u, p.n - 1u) * p.b.col;
  var b1 = b_start + min(col + 1u, p.n - 1u) * p.b.col;
  var b2 = b_start + min(col + 2u, p.n - 1u) * p.b.col;
  var b3 = b_start + min(col + 3u, p.n - 1u) * p.b.col;
  var b4 = b_start + min(col + 4u, p.n - 1u) * p.b.col;
  var b5 = b_start + min(col + 5u, p.n - 1u) * p.b.col;
  var b6 = b_start + min(col + 6u, p.n - 1u) * p.b.col;
  var b7 = b_start + min(col + 7u, p.n - 1u) * p.b.col;
  var s0 = vec4f(); var t0 = vec4f();
  var s1 = vec4f(); var t1 = vec4f();
  var s2 = vec4f(); var t2 = vec4f();
  var s3 = vec4f(); var t3 = vec4f();
  var s4 = vec4f(); var t4 = vec4f();
  var s5 = vec4f(); var t5 = vec4f();
  var s6 = vec4f(); var t6 = vec4f();
  var s7 = vec4f(); var t7 = vec4f();
  var r = vec4f(); var q = vec4f();
  for (var l = 0u; l < p.k; l += 1u) {
    let x = vec4f(f32(b[b0]), f32(b[b1]), f32(b[b2]), f32(b[b3]));
    let y = vec4f(f32(b[b4]), f32(b[b5]), f32(b[b6]), f32(b[b7]));
    let v0 = f32(a[a0]); s0 += v0 * x; t0 += v0 * y; a0 += p.a.col;
    let v1 = f32(a[a1]); s1 += v1 * x; t1 += v1 * y; a1 += p.a.col;
    let v2 = f32(a[a2]); s2 += v2 * x; t2 += v2 * y; a2 += p.a.col;
    let v3 = f32(a[a3]); s3 += v3 * x; t3 += v3 * y; a3 += p.a.col;
    let v4 = f32(a[a4]); s4 += v4 * x; t4 += v4 * y; a4 += p.a.col;
    let v5 = f32(a[a5]); s5 += v5 * x; t5 += v5 * y; a5 += p.a.col;
    let v6 = f32(a[a6]); s6 += v6 * x; t6 += v6 * y; a6 += p.a.col;
    let v7 = f32(a[a7]); s7 += v7 * x; t7 += v7 * y; a7 += p.a.col;
    r += vec4f(v0, v1, v2, v3); q += vec4f(v4, v5, v6, v7);
    b0 += p.b.row; b1 += p.b.row; b2 += p.b.row; b3 += p.b.row; b4 += p.b.row; b5 += p.b.row; b6 += p.b.row; b7 += p.b.row;
  }
  return Tile(z, row, col, r, q, s0, t0, s1, t1, s2, t2, s3, t3, s4, t4, s5, t5, s6, t6, s7, t7);
}

@compute @workgroup_size(REGISTER_WORKGROUP)
fn register_8x8(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                @builtin(local_invocation_index) lane: u32) {
  let at = register_place(group, groups, lane);
  if (at.x >= p.batch) { return; }
  store_tile(register_tile(at.x, at.y, at.z), added(at.z), added(at.z + 4u));
}

@compute @workgroup_size(REGISTER_WORKGROUP)
fn register_8x8_sums(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                     @builtin(local_invocation_index) lane: u32) {
  let at = register_place(group, groups, lane);
  if (at.x >= p.batch) { return; }
  store_tile_and_sums(register_tile(at.x, at.y, at.z));
}

// Workgroup family: 64 invocations share a 64 x 64 tile through workgroup memory, 16 deep; each holds 8 x 8 of it.
const DEPTH = 16u;
var<workgroup> a_tile: array<vec4f, 256>; // [l][row / 4]
var<workgroup> b_tile: array<vec4f, 256>; // [l][col / 4]

// Four neighbouring rows of A (or columns of B) at one l; zero past k, so that whole tiles can be summed.
fn load_a(origin: u32, row: u32, l: u32) -> vec4f {
  if (l >= p.k) { return vec4f(); }
  let at = origin + l * p.a.col;
  return vec4f(f32(a[at + min(row, p.m - 1u) * p.a.row]), f32(a[at + min(row + 1u, p.m - 1u) * p.a.row]),
               f32(a[at + min(row + 2u, p.m - 1u) * p.a.row]), f32(a[at + min(row + 3u, p.m - 1u) * p.a.row]));
}
fn load_b(origin: u32, col: u32, l: u32) -> vec4f {
  if (l >= p.k) { return vec4f(); }
  let at = origin + l * p.b.row;
  return vec4f(f32(b[at + min(col, p.n - 1u) * p.b.col]), f32(b[at + min(col + 1u, p.n - 1u) * p.b.col]),
               f32(b[at + min(col + 2u, p.n - 1u) * p.b.col]), f32(b[at + min(col + 3u, p.n - 1u) * p.b.col]));
}

// Which tile a workgroup holds: its batch, row and column.
fn workgroup_place(group: vec3u, groups: vec3u) -> vec3u {
  let tiles_n = (p.n + 63u) / 64u;
  let tiles_m = (p.m + 63u) / 64u;
  let tile = group.y * groups.x + group.x;
  return vec3u(tile / (tiles_m * tiles_n), (tile / tiles_n) % tiles_m * 64u, tile % tiles_n * 64u);
}

// An invocation's part of the workgroup's tile.
fn workgroup_tile(z: u32, row: u32, col: u32, lane: u32) -> Tile {
  let a_start = start(p.a, z);
  let b_start = start(p.b, z);
  let row_quad = lane / 8u * 2u;
  let col_quad = lane % 8u * 2u;

  var s0 = vec4f(); var t0 = vec4f();
  var s1 = vec4f(); var t1 = vec4f();
  var s2 = vec4f(); var t2 = vec4f();
  var s3 = vec4f(); var t3 = vec4f();
  var s4 = vec4f(); var t4 = vec4f();
  var s5 = vec4f(); var t5 = vec4f();
  var s6 = vec4f(); var t6 = vec4f();
  var s7 = vec4f(); var t7 = vec4f();
  var r = vec4f(); var q = vec4f();
  for (var l0 = 0u; l0 < p.k; l0 += DEPTH) {
    for (var i = 0u; i < 4u; i += 1u) {
      // Neighbouring invocations load neighbouring words, whichever stride is the short one.
      let e = lane + i * 64u;
      let a_at = select(vec2u(e / 16u, e % 16u), vec2u(e % 16u, e / 16u), p.a.col == 1u); // (l, quad)
      let b_at = select(vec2u(e / 16u, e % 16u), vec2u(e % 16u, e / 16u), p.b.row == 1u);
      a_tile[a_at.x * 16u + a_at.y] = load_a(a_start, row + a_at.y * 4u, l0 + a_at.x);
      b_tile[b_at.x * 16u + b_at.y] = load_b(b_start, col + b_at.y * 4u, l0 + b_at.x);
    }
    workgroupBarrier();
    for (var l = 0u; l < DEPTH; l += 1u) {
      let v = a_tile[l * 16u + row_quad];
      let w = a_tile[l * 16u + row_quad + 1u];
      let x = b_tile[l * 16u + col_quad];
      let y = b_tile[l * 16u + col_quad + 1u];
      r += v; q += w;
      s0 += v.x * x; t0 += v.x * y;
      s1 += v.y * x; t1 += v.y * y;
      s2 += v.z * x; t2 += v.z * y;
      s3 += v.w * x; t3 += v.w * y;
      s4 += w.x * x; t4 += w.x * y;
      s5 += w.y * x; t5 += w.y * y;
      s6 += w.z * x; t6 += w.z * y;
      s7 += w.w * x; t7 += w.w * y;
    }
    workgroupBarrier();
  }
  return Tile(z, row + row_quad * 4u, col + col_quad * 4u, r, q,
              s0, t0, s1, t1, s2, t2, s3, t3, s4, t4, s5, t5, s6, t6, s7, t7);
}

@compute @workgroup_size(64)
fn workgroup_64x64(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                   @builtin(local_invocation_index) lane: u32) {
  let at = workgroup_place(group, groups);
  if (at.x >= p.batch) { return; }
  let tile = workgroup_tile(at.x, at.y, at.z, lane);
  store_tile(tile, added(tile.col), added(tile.col + 4u));
}

@compute @workgroup_size(64)
fn workgroup_64x64_sums(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                        @builtin(local_invocation_index) lane: u32) {
  let at = workgroup_place(group, groups);
  if (at.x >= p.batch) { return; }
  store_tile_and_sums(workgroup_tile(at.x, at.y, at.z, lane));
}
