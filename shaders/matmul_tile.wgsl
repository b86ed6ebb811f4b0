// The batched matrix product of matmul.wgsl, for SwiftShader: one invocation holds a tile of 16 x 16.
//
// SwiftShader loads every word of every invocation by itself, and takes longer to store a variable than to multiply.
// Here 64 products need 8 loads instead of 16, one bounds check serves four words, and a sum stays in a register for
// four products before it is stored. Sums are taken in the order of matmul.wgsl, so results are the same.
//
// Bindings and parameters are those of matmul.wgsl too, but tensors are read in fours: m, n, k, bases and all strides
// that are not 1 must be multiples of 4. Rows and columns past the edge are loaded from the last four and never stored.

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
@group(0) @binding(1) var<storage, read> a: array<vec4f>;
@group(0) @binding(2) var<storage, read> b: array<vec4f>;
@group(0) @binding(3) var<storage, read> bias: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> sums: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> c: array<vec4f>;

// 1 where neighbours in memory are neighbours along m, not k, and along k, not n.
override A_TRANSPOSED: u32 = 0u;
override B_TRANSPOSED: u32 = 0u;
// 1 where C is added to. A constant, for a branch at each of 64 stores takes long to compile.
override ACCUMULATE: u32 = 0u;

// In fours, as all indices here.
fn start(operand: Operand, z: u32) -> u32 {
  return (operand.base + operand.outer * (z / p.batch_inner) + operand.inner * (z % p.batch_inner)) / 4u;
}

// A's words (row, l) to (row + 3, l + 3), a column of the matrix for each row.
fn load_a(origin: u32, row: u32, l: u32) -> mat4x4f {
  let first = min(row, p.m - 4u);
  if (A_TRANSPOSED != 0u) {
    let at = origin + l * (p.a.col / 4u) + first / 4u;
    let next = p.a.col / 4u;
    return transpose(mat4x4f(a[at], a[at + next], a[at + 2u * next], a[at + 3u * next]));
  }
  let next = p.a.row / 4u;
  let at = origin + first * next + l / 4u;
  return mat4x4f(a[at], a[at + next], a[at + 2u * next], a[at + 3u * next]);
}

// B's words (l, col) to (l + 3, col + 3), a column of the matrix for each column.
fn load_b(origin: u32, l: u32, col: u32) -> mat4x4f {
  let first = min(col, p.n - 4u);
  if (B_TRANSPOSED != 0u) {
    let next = p.b.col / 4u;
    let at = origin + first * next + l / 4u;
    return mat4x4f(b[at], b[at + next], b[at + 2u * next], b[at + 3u * next]);
  }
  let next = p.b.row / 4u;
  let at = origin + l * next + first / 4u;
  return transpose(mat4x4f(b[at], b[at + next], b[at + 2u * next], b[at + 3u * next]));
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

// What is added to the columns of every row.
fn added(col: u32) -> mat4x4f {
  if (p.has_bias == 0u) { return mat4x4f(); }
  let last = p.n / 4u - 1u;
  let at = col / 4u;
  return mat4x4f(bias[at], bias[min(at + 1u, last)], bias[min(at + 2u, last)], bias[min(at + 3u, last)]);
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
  let tiles_n = (p.n + 15u) / 16u;
  let tiles_m = (p.m + 15u) / 16u;
  let tile = (group.y * groups.x + group.x) * 8u + lane;
  return vec3u(tile / (tiles_m * tiles_n), (tile / tiles_n) % tiles_m * 16u, tile % tiles_n * 16u);
}

// Computes and stores a tile, and returns the sums of its rows of A, a column for four rows.
fn multiply(z: u32, row: u32, col: u32, add: mat4x4f) -> mat4x4f {
  let a_start = start(p.a, z);
  let b_start = start(p.b, z);
  let k = p.k;
  var s00 = mat4x4f(); var s01 = mat4x4f(); var s02 = mat4x4f(); var s03 = mat4x4f();
  var s10 = mat4x4f(); var s11 = mat4x4f(); var s12 = mat4x4f(); var s13 = mat4x4f();
  var s20 = mat4x4f(); var s21 = mat4x4f(); var s22 = mat4x4f(); var s23 = mat4x4f();
  var s30 = mat4x4f(); var s31 = mat4x4f(); var s32 = mat4x4f(); var s33 = mat4x4f();
  var r = mat4x4f();
  for (var l = 0u; l < k; l += 4u) {
    let x0 = load_a(a_start, row + 0u, l);
    let x1 = load_a(a_start, row + 4u, l);
    let x2 = load_a(a_start, row + 8u, l);
    let x3 = load_a(a_start, row + 12u, l);
    r = mat4x4f(add_words(r[0], x0), add_words(r[1], x1), add_words(r[2], x2), add_words(r[3], x3));
    let y0 = load_b(b_start, l, col + 0u);
    s00 = add_block(s00, x0, y0); s10 = add_block(s10, x1, y0);
    s20 = add_block(s20, x2, y0); s30 = add_block(s30, x3, y0);
    let y1 = load_b(b_start, l, col + 4u);
    s01 = add_block(s01, x0, y1); s11 = add_block(s11, x1, y1);
    s21 = add_block(s21, x2, y1); s31 = add_block(s31, x3, y1);
    let y2 = load_b(b_start, l, col + 8u);
    s02 = add_block(s02, x0, y2); s12 = add_block(s12, x1, y2);
    s22 = add_block(s22, x2, y2); s32 = add_block(s32, x3, y2);
    let y3 = load_b(b_start, l, col + 12u);
    s03 = add_block(s03, x0, y3); s13 = add_block(s13, x1, y3);
    s23 = add_block(s23, x2, y3); s33 = add_block(s33, x3, y3);
  }
  let origin = start(p.c, z);
  store(origin, row + 0u, col + 0u, s00, add[0]); store(origin, row + 4u, col + 0u, s10, add[0]);
  store(origin, row + 8u, col + 0u, s20, add[0]); store(origin, row + 12u, col + 0u, s30, add[0]);
  store(origin, row + 0u, col + 4u, s01, add[1]); store(origin, row + 4u, col + 4u, s11, add[1]);
  store(origin, row + 8u, col + 4u, s21, add[1]); store(origin, row + 12u, col + 4u, s31, add[1]);
  store(origin, row + 0u, col + 8u, s02, add[2]); store(origin, row + 4u, col + 8u, s12, add[2]);
  store(origin, row + 8u, col + 8u, s22, add[2]); store(origin, row + 12u, col + 8u, s32, add[2]);
  store(origin, row + 0u, col + 12u, s03, add[3]); store(origin, row + 4u, col + 12u, s13, add[3]);
  store(origin, row + 8u, col + 12u, s23, add[3]); store(origin, row + 12u, col + 12u, s33, add[3]);
  return r;
}

@compute @workgroup_size(8)
fn tile_16x16(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
              @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.x >= p.batch) { return; }
  _ = multiply(at.x, at.y, at.z, added(at.z));
}

@compute @workgroup_size(8)
fn tile_16x16_sums(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                   @builtin(local_invocation_index) lane: u32) {
  let at = place(group, groups, lane);
  if (at.x >= p.batch) { return; }
  let rows = multiply(at.x, at.y, at.z, mat4x4f());
  if (at.z != 0u) { return; }
  store_sums(at.y, rows[0]);
  store_sums(at.y + 4u, rows[1]);
  store_sums(at.y + 8u, rows[2]);
  store_sums(at.y + 12u, rows[3]);
}
