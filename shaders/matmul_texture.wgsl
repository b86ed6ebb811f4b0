// The batched matrix product of matmul.wgsl, for software adapters without subgroups: one invocation holds a tile of
// 16 x 8, and operands are read from textures.
//
// Mesa's llvmpipe reads a buffer word by word, each of every invocation after a branch on its bounds; a texel of a storage
// texture is four words in one load, after one check of all invocations. Sums are taken in the order of matmul.wgsl, so
// results are the same.
//
// Parameters and bindings are those of matmul.wgsl but for a and b, which hold their tensors' words in order: a row has
// WIDTH texels of four words. m, n, k, bases and all strides that are not 1 must be multiples of 4. Rows and columns past
// the edge are loaded from the last four and never stored.

struct Operand { base: u32, row: u32, col: u32, outer: u32, inner: u32 }

struct Params {
  m: u32, n: u32, k: u32,
  batch: u32, batch_inner: u32,
  alpha: f32,
  has_bias: u32,
  accumulate: u32, // not read here
  @align(16) @size(32) a: Operand,
  @align(16) @size(32) b: Operand,
  @align(16) @size(32) c: Operand,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var a: texture_storage_2d<rgba32float, read>;
@group(0) @binding(2) var b: texture_storage_2d<rgba32float, read>;
@group(0) @binding(3) var<storage, read> bias: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> sums: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> c: array<vec4f>;

// Texels in a row of a texture.
const WIDTH = 1024u;

// 1 where neighbours in memory are neighbours along m, not k, and along k, not n.
override A_TRANSPOSED: u32 = 0u;
override B_TRANSPOSED: u32 = 0u;
// 1 where C is added to. A constant, for a branch at each of 32 stores takes long to compile.
override ACCUMULATE: u32 = 0u;

// In fours, as all indices here.
fn start(operand: Operand, z: u32) -> u32 {
  return (operand.base + operand.outer * (z / p.batch_inner) + operand.inner * (z % p.batch_inner)) / 4u;
}

fn texel(at: u32) -> vec2u { return vec2u(at % WIDTH, at / WIDTH); }

fn four_of_a(at: u32, next: u32) -> mat4x4f {
  return mat4x4f(textureLoad(a, texel(at)), textureLoad(a, texel(at + next)),
                 textureLoad(a, texel(at + 2u * next)), textureLoad(a, texel(at + 3u * next)));
}

fn four_of_b(at: u32, next: u32) -> mat4x4f {
  return mat4x4f(textureLoad(b, texel(at)), textureLoad(b, texel(at + next)),
                 textureLoad(b, texel(at + 2u * next)), textureLoad(b, texel(at + 3u * next)));
}

// A's words (row, l) to (row + 3, l + 3), a column of the matrix for each row.
fn load_a(origin: u32, row: u32, l: u32) -> mat4x4f {
  let first = min(row, p.m - 4u);
  if (A_TRANSPOSED != 0u) {
    let next = p.a.col / 4u;
    return transpose(four_of_a(origin + l * next + first / 4u, next));
  }
  let next = p.a.row / 4u;
  return four_of_a(origin + first * next + l / 4u, next);
}

// B's words (l, col) to (l + 3, col + 3), a column of the matrix for each column.
fn load_b(origin: u32, l: u32, col: u32) -> mat4x4f {
  let first = min(col, p.n - 4u);
  if (B_TRANSPOSED != 0u) {
    let next = p.b.col / 4u;
    return four_of_b(origin + first * next + l / 4u, next);
  }
  let next = p.b.row / 4u;
  return transpose(four_of_b(origin + l * next + first / 4u, next));
}

fn add_products(sum: f32, x: vec4f, y: vec4f) -> f32 { return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w; }

// Four columns of a row.
fn add_row(sum: vec4f, x: vec4f, y: mat4x4f) -> vec4f {
  return vec4f(add_products(sum.x, x, y[0]), add_products(sum.y, x, y[1]),
               add_products(sum.z, x, y[2]), add_products(sum.w, x, y[3]));
}

// Four rows of four columns.
fn add_block(sum: mat4x4f, x: mat4x4f, y: mat4x4f) -> mat4x4f {
  return mat4x4f(add_row(sum[0], x[0], y), add_row(sum[1], x[1], y), add_row(sum[2], x[2], y), add_row(sum[3], x[3], y));
}

// The sums of four rows.
fn add_words(sum: vec4f, x: mat4x4f) -> vec4f {
  let ones = vec4f(1.0);
  return vec4f(add_products(sum.x, x[0], ones), add_products(sum.y, x[1], ones),
               add_products(sum.z, x[2], ones), add_products(sum.w, x[3], ones));
}

// What is added to four columns of every row.
fn added(col: u32) -> vec4f {
  if (p.has_bias == 0u) { return vec4f(); }
  return bias[min(col, p.n - 4u) / 4u];
}

fn store_row(at: u32, sum: vec4f, add: vec4f) {
  let value = p.alpha * sum + add;
  if (ACCUMULATE != 0u) { c[at] = value + c[at]; } else { c[at] = value; }
}

fn store(origin: u32, row: u32, col: u32, sum: mat4x4f, add: vec4f) {
  if (row >= p.m || col >= p.n) { return; }
  let next = p.c.row / 4u;
  let at = origin + row * next + col / 4u;
  store_row(at, sum[0], add);
  store_row(at + next, sum[1], add);
  store_row(at + 2u * next, sum[2], add);
  store_row(at + 3u * next, sum[3], add);
}

fn store_sums(row: u32, sum: vec4f) {
  if (row < p.m) { sums[row / 4u] = sum; }
}

// Which tile an invocation holds: its batch, row and column.
fn place(group: vec3u, groups: vec3u, lane: u32) -> vec3u {
  let tiles_n = (p.n + 7u) / 8u;
  let tiles_m = (p.m + 15u) / 16u;
  let tile = (group.y * groups.x + group.x) * 32u + lane;
  return vec3u(tile / (tiles_m * tiles_n), (tile / tiles_n) % tiles_m * 16u, tile % tiles_n * 8u);
}

// Computes and stores a tile, and returns the sums of its rows of A, a column for four rows.
fn multiply(z: u32, row: u32, col: u32, add: vec4f, more_add: vec4f) -> mat4x4f {
  let a_start = start(p.a, z);
  let b_start = start(p.b, z);
  let k = p.k;
  var s0 = mat4x4f(); var s1 = mat4x4f(); var s2 = mat4x4f(); var s3 = mat4x4f();
  var t0 = mat4x4f(); var t1 = mat4x4f(); var t2 = mat4x4f(); var t3 = mat4x4f();
  var r = mat4x4f();
  for (var l = 0u; l < k; l += 4u) {
    let x0 = load_a(a_start, row + 0u, l);
    let x1 = load_a(a_start, row + 4u, l);
    let x2 = load_a(a_start, row + 8u, l);
    let x3 = load_a(a_start, row + 12u, l);
    r = mat4x4f(add_words(r[0], x0), add_words(r[1], x1), add_words(r[2], x2), add_words(r[3], x3));
    let y = load_b(b_start, l, col);
    s0 = add_block(s0, x0, y); s1 = add_block(s1, x1, y); s2 = add_block(s2, x2, y); s3 = add_block(s3, x3, y);
    let w = load_b(b_start, l, col + 4u);
    t0 = add_block(t0, x0, w); t1 = add_block(t1, x1, w); t2 = add_block(t2, x2, w); t3 = add_block(t3, x3, w);
  }
  let origin = start(p.c, z);
  store(origin, row + 0u, col, s0, add); store(origin, row + 0u, col + 4u, t0, more_add);
  store(origin, row + 4u, col, s1, add); store(origin, row + 4u, col + 4u, t1, more_add);
  store(origin, row + 8u, col, s2, add); store(origin, row + 8u, col + 4u, t2, more_add);
  store(origin, row + 12u, col, s3, add); store(origin, row + 12u, col + 4u, t3, more_add);
  return r;
}

@compute @workgroup_size(32)
fn texture_16x8(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.x >= p.batch) { return; }
  _ = multiply(at.x, at.y, at.z, added(at.z), added(at.z + 4u));
}

@compute @workgroup_size(32)
fn texture_16x8_sums(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                     @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.x >= p.batch) { return; }
  let rows = multiply(at.x, at.y, at.z, vec4f(), vec4f());
  if (at.z != 0u) { return; }
  store_sums(at.y, rows[0]);
  store_sums(at.y + 4u, rows[1]);
  store_sums(at.y + 8u, rows[2]);
  store_sums(at.y + 12u, rows[3]);
}
