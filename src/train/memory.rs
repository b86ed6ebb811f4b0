//! What the memory of a step is for.

use super::trainer::UPLOADS;
use crate::gpu::{MemoryPlan, PlannedBuffer, PlannedTensor};
use crate::model::StepPlan;
use crate::model::parameters::Arena;

/// The buffers of a step on its device, as they are planned and allocated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunMemory {
    /// By their purpose; only purposes that have some.
    pub uses: Vec<MemoryUse>,
}

/// The buffers that serve one purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUse {
    /// Which: `weights`, `gradients`, `moments`, `activations` with their gradients, `textures` for the products'
    /// operands, `inputs and tables`, `parameters` of the dispatches, or `transfers` between host and device.
    pub purpose: &'static str,
    /// The buffers.
    pub buffers: Vec<PlannedBuffer>,
}

impl RunMemory {
    pub(super) fn new(step: &StepPlan, memory: &MemoryPlan) -> Self {
        let mut purposes: Vec<_> = (memory.buffers.iter())
            .map(|buffer| if buffer.shared { "activations" } else { "inputs and tables" })
            .collect();
        let mut name = |purpose, arena: &Arena| {
            let buffers = arena.slabs.iter().filter_map(|slab| memory.buffer_of(*slab));
            buffers.for_each(|buffer| purposes[buffer] = purpose);
        };
        name("weights", &step.weights);
        step.matrices.iter().for_each(|arena| name("weights", arena));
        step.gradients.iter().for_each(|arena| name("gradients", arena));
        step.parts.iter().for_each(|sums| name("gradients", &sums.gradients));
        step.moments.iter().flatten().for_each(|arena| name("moments", arena));
        let planned = |purpose| {
            let all = memory.buffers.iter().zip(&purposes);
            let buffers = all.filter(|(_, its)| **its == purpose).map(|(buffer, _)| buffer.clone()).collect();
            MemoryUse { purpose, buffers }
        };
        let mut transfers = vec![buffer("upload", step.inputs.all.len() as u64 * 4); UPLOADS];
        transfers.push(buffer("metrics", step.ring.len() as u64 * 4));

        let purposes = ["weights", "gradients", "moments", "activations", "inputs and tables"];
        let mut uses: Vec<_> = purposes.into_iter().map(planned).collect();
        uses.push(MemoryUse { purpose: "textures", buffers: memory.textures.clone() });
        let of_shorter = step.shorter.iter().map(|shorter| shorter.plan.params_bytes());
        let params = std::iter::once(memory.params).chain(of_shorter);
        let params = params.map(|bytes| buffer("parameters", bytes)).collect();
        uses.push(MemoryUse { purpose: "parameters", buffers: params });
        uses.push(MemoryUse { purpose: "transfers", buffers: transfers });
        uses.retain(|part| !part.buffers.is_empty());
        Self { uses }
    }

    /// Of several replicas together, with what their gradients go down and up through; `step` is that of the first.
    pub(super) fn of_replicas(memories: Vec<Self>, step: &StepPlan) -> Self {
        let (mut all, replicas) = (Self::default(), memories.len());
        for part in memories.into_iter().flat_map(|memory| memory.uses) {
            match all.uses.iter_mut().find(|there| there.purpose == part.purpose) {
                Some(there) => there.buffers.extend(part.buffers),
                None => all.uses.push(part),
            }
        }
        let transfers = all.uses.iter_mut().find(|part| part.purpose == "transfers");
        if let (Some(transfers), Some(sums), 2..) = (transfers, &step.parts, replicas) {
            for sum in sums.stages.iter().flat_map(|stage| &stage.sums) {
                let staging = buffer("sums of gradients", sum.len() as u64 * 4);
                transfers.buffers.extend(vec![staging; 2 * replicas]);
            }
        }
        all
    }

    /// Bytes of all buffers together.
    pub fn bytes(&self) -> u64 {
        self.uses.iter().map(MemoryUse::bytes).sum()
    }
}

/// A buffer for a single thing.
fn buffer(name: &str, bytes: u64) -> PlannedBuffer {
    let tensors = vec![PlannedTensor { name: name.into(), bytes }];
    PlannedBuffer { tensors, bytes, shared: false }
}

impl MemoryUse {
    /// Bytes of its buffers together.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.bytes).sum()
    }

    /// How many tensors lie in them, one after another where they share a buffer.
    pub fn tensors(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.tensors.len()).sum()
    }

    /// Bytes that the tensors would take, each in a buffer of its own.
    pub fn tensor_bytes(&self) -> u64 {
        self.buffers.iter().flat_map(|buffer| &buffer.tensors).map(|tensor| tensor.bytes).sum()
    }
}
