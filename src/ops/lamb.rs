//! LAMB over slabs of parameters: a direction for each weight, then one step length for each variable.

use super::{AdamInputs, Segments, Slab, WORKGROUP, grid, segment_sum};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "lamb", source: include_str!("../../shaders/lamb.wgsl") };

/// Append the update of all slabs, which leaves the directions where the gradients were.
///
/// A row of a slab's chunks is the start and length of a piece of a variable, the variable, and 1 where it
/// decays; pieces start at multiples of 4 words. The slabs' chunks follow each other in one table. A row of
/// `variables` is the first chunk of a variable, how many it has, the variable, and 1 where it decays.
pub fn lamb(plan: &mut Plan, slabs: &[(Slab, Segments)], variables: &[[u32; 4]], inputs: &AdamInputs) {
    let chunks: usize = slabs.iter().map(|(_, chunks)| chunks.count).sum();
    let partials = plan.transient("LAMB partials", 2 * chunks * WORKGROUP);
    for (slab, segments) in slabs {
        let mut params = inputs.params(*segments);
        params.push(chunks as u32);
        plan.dispatch(Dispatch {
            kernel: Kernel { shader: SHADER, entry: "moments", constants: vec![], types: vec![] },
            bindings: vec![
                (1, segments.table),
                (2, inputs.step.tensor),
                (3, inputs.norm),
                (4, slab.gradients),
                (5, slab.parameters),
                (6, slab.first_moments),
                (7, slab.second_moments),
                (8, partials),
            ],
            params,
            groups: grid(segments.count),
        });
    }
    let ratios = plan.transient("LAMB ratios", variables.len());
    append_ratios(plan, variables, chunks, partials, ratios);
    for (slab, segments) in slabs {
        plan.dispatch(Dispatch {
            kernel: Kernel { shader: SHADER, entry: "apply", constants: vec![], types: vec![] },
            bindings: vec![
                (1, segments.table),
                (2, inputs.step.tensor),
                (3, inputs.norm),
                (4, slab.gradients),
                (5, slab.parameters),
                (10, ratios),
            ],
            params: inputs.params(*segments),
            groups: grid(segments.count),
        });
    }
}

/// The norms of each variable's weights and directions, and their ratio.
fn append_ratios(plan: &mut Plan, variables: &[[u32; 4]], chunks: usize, partials: Tensor, ratios: Tensor) {
    // Each variable is two segments of the rows of partials: its weights' and, further down, its directions'.
    let directions =
        variables.iter().map(|[first, count, rest @ ..]| [first + chunks as u32, *count, rest[0], rest[1]]);
    let table = variables.iter().copied().chain(directions).flatten().collect();
    let table = plan.constant("LAMB variables", table);
    let sums = segment_sum(plan, "LAMB", partials, Segments::all(table));
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "ratio", constants: vec![], types: vec![] },
        bindings: vec![(1, table), (9, sums), (10, ratios)],
        params: vec![0, variables.len() as u32],
        groups: grid(variables.len().div_ceil(WORKGROUP)),
    });
}
