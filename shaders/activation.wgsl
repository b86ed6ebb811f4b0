// Activation functions and their gradients, element by element.
//
//   forward    y[i] = f(x[i])
//   backward   dy[i] = dy[i] * f'(x[i])
//     x, y, dy   Real [len]
//
//   FUNCTION 0 gelu_tanh   f(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
//            1 gelu_erf    f(x) = x / 2 * (1 + erf(x / sqrt(2)))
//            2 relu        f(x) = max(x, 0)
//            3 silu        f(x) = x / (1 + exp(-x))
//            4 tanh        f(x) = tanh(x)
//
// An invocation takes 4 neighbours, without a loop, which processors are slow at. For those past the end it takes the
// last element, and stores the same again.

struct Params { len: u32 }

override FUNCTION: u32 = 0u;

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<Real>;
@group(0) @binding(2) var<storage, read_write> y: array<Real>;
@group(0) @binding(2) var<storage, read_write> dy: array<Real>;

// Some drivers compute tanh from exponentials that overflow; at 10 it is 1 in f32.
fn safe_tanh(v: vec4f) -> vec4f { return tanh(clamp(v, vec4f(-10.0), vec4f(10.0))); }

// WGSL has no erf. Below 1 an odd polynomial, above it 1 - exp(-polynomial), both minimax fits: within 2e-7.
fn erf(v: vec4f) -> vec4f {
  let s = v * v;
  let small = v * (1.12837887 + s * (-0.376119405 + s * (0.112780645 + s * (-0.02666381
            + s * (0.00487070344 + s * -0.000546292926)))));
  let t = min(abs(v), vec4f(4.0));
  let large = 1.0 - exp(-(0.0026717179 + t * (1.11743844 + t * (0.65448904 + t * (0.0886341184
            + t * (-0.0147781009 + t * 0.00115041947))))));
  return select(sign(v) * large, small, t < vec4f(1.0));
}

// sqrt(2 / pi) * (v + 0.044715 v^3)
fn gelu_inner(v: vec4f) -> vec4f { return 0.7978845608 * v * (1.0 + 0.044715 * v * v); }

// For arguments above -80, lest exp overflow; x times it is 0 below, in f32.
fn logistic(v: vec4f) -> vec4f { return 1.0 / (1.0 + exp(-v)); }

fn value(v: vec4f) -> vec4f {
  switch (FUNCTION) {
    case 0u: { return 0.5 * v * (1.0 + safe_tanh(gelu_inner(v))); }
    case 1u: { return 0.5 * v * (1.0 + erf(v * 0.7071067812)); }
    case 2u: { return max(v, vec4f()); }
    case 3u: {
      let c = max(v, vec4f(-80.0));
      return c * logistic(c);
    }
    default: { return safe_tanh(v); }
  }
}

// Where an argument is clamped the derivative is constant in f32; clamping keeps its terms finite.
fn derivative(v: vec4f) -> vec4f {
  switch (FUNCTION) {
    case 0u: {
      let c = clamp(v, vec4f(-10.0), vec4f(10.0));
      let t = safe_tanh(gelu_inner(c));
      return 0.5 * (1.0 + t) + 0.5 * c * (1.0 - t * t) * 0.7978845608 * (1.0 + 3.0 * 0.044715 * c * c);
    }
    case 1u: {
      let c = clamp(v, vec4f(-13.0), vec4f(13.0));
      return 0.5 * (1.0 + erf(c * 0.7071067812)) + c * 0.3989422804 * exp(-0.5 * c * c);
    }
    case 2u: { return select(vec4f(), vec4f(1.0), v > vec4f()); }
    case 3u: {
      let c = clamp(v, vec4f(-80.0), vec4f(80.0));
      let s = logistic(c);
      return s * (1.0 + c * (1.0 - s));
    }
    default: {
      let t = safe_tanh(v);
      return 1.0 - t * t;
    }
  }
}

fn load_x(i: vec4u) -> vec4f { return vec4f(f32(x[i.x]), f32(x[i.y]), f32(x[i.z]), f32(x[i.w])); }

@compute @workgroup_size(64)
fn forward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
           @builtin(local_invocation_index) lane: u32) {
  let first = ((group.y * groups.x + group.x) * 64u + lane) * 4u;
  if (first >= p.len) { return; }
  let i = min(first + vec4u(0u, 1u, 2u, 3u), vec4u(p.len - 1u));
  let v = value(load_x(i));
  y[i.x] = Real(v.x); y[i.y] = Real(v.y); y[i.z] = Real(v.z); y[i.w] = Real(v.w);
}

@compute @workgroup_size(64)
fn backward(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
            @builtin(local_invocation_index) lane: u32) {
  let first = ((group.y * groups.x + group.x) * 64u + lane) * 4u;
  if (first >= p.len) { return; }
  let i = min(first + vec4u(0u, 1u, 2u, 3u), vec4u(p.len - 1u));
  let d = vec4f(f32(dy[i.x]), f32(dy[i.y]), f32(dy[i.z]), f32(dy[i.w])) * derivative(load_x(i));
  dy[i.x] = Real(d.x); dy[i.y] = Real(d.y); dy[i.z] = Real(d.z); dy[i.w] = Real(d.w);
}
