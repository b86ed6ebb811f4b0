// Sums over the segments of a table in a fixed order, without atomics and without barriers: every stage leaves
// 64 partial sums for each segment, and the next stage adds them up.
//
//   table      u32 [segments, 4]: start and length of each segment, in words of values; two words of no use here
//   values     f32
//   partials   f32 [segments, 64]
//   sums       f32 [segments]

struct Params { first: u32, count: u32 }

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> table: array<vec4u>;
@group(0) @binding(2) var<storage, read> values: array<f32>;
@group(0) @binding(3) var<storage, read_write> partials: array<f32>;
@group(0) @binding(4) var<storage, read> lanes: array<vec4f>; // the partials of the stage before
@group(0) @binding(5) var<storage, read_write> sums: array<f32>;

// partials[s, lane] = the sum of every 64th word of segment s, from its word `lane` on
@compute @workgroup_size(64)
fn spread(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
          @builtin(local_invocation_index) lane: u32) {
  let row = p.first + group.y * groups.x + group.x;
  if (row >= p.first + p.count) { return; }
  let segment = table[row];
  var sum = 0.0;
  for (var i = lane; i < segment.y; i += 64u) { sum += values[segment.x + i]; }
  partials[row * 64u + lane] = sum;
}

// sums[s] = the sum of lanes[s, ..]
@compute @workgroup_size(64)
fn fold(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let row = (group.y * groups.x + group.x) * 64u + lane;
  if (row >= p.count) { return; }
  var sum = vec4f();
  for (var i = 0u; i < 16u; i += 1u) { sum += lanes[row * 16u + i]; }
  sums[row] = (sum.x + sum.y) + (sum.z + sum.w);
}
