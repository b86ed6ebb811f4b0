//! Where every tensor lies: persistent ones in buffers of their own, transient ones share by lifetime.

use super::GpuError;
use super::plan::{Command, Kind, Plan, Tensor};

/// A tensor in a buffer of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTensor {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A buffer of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedBuffer {
    /// The tensors that lie in it, in the order they use it.
    pub tensors: Vec<PlannedTensor>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Shared by transient tensors whose lifetimes do not meet?
    pub shared: bool,
}

/// The buffers of a plan, before any is allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The buffers of its tensors.
    pub buffers: Vec<PlannedBuffer>,
    /// The textures that its products read, shared likewise.
    pub textures: Vec<PlannedBuffer>,
    /// Bytes of one more buffer, which holds the parameters of all dispatches.
    pub params: u64,
    /// For each storage of the plan its buffer or texture; none for what belongs to another program.
    pub(super) place: Vec<Option<usize>>,
}

impl MemoryPlan {
    pub(super) fn new(plan: &Plan, max_buffer: u64, max_binding: u64) -> Result<Self, GpuError> {
        for storage in plan.storages.iter().filter(|s| !matches!(s.kind, Kind::Imported(_) | Kind::Texture)) {
            let limits = [("maxStorageBufferBindingSize", max_binding), ("maxBufferSize", max_buffer)];
            for (limit_name, limit) in limits {
                if storage.bytes > limit {
                    let what = storage.name.clone();
                    return Err(GpuError::TooLarge { what, bytes: storage.bytes, limit_name, limit });
                }
            }
        }
        let params = plan.params_bytes();
        let mut memory =
            Self { buffers: vec![], textures: vec![], params, place: vec![None; plan.storages.len()] };
        for (i, storage) in plan.storages.iter().enumerate().filter(|(_, s)| s.kind == Kind::Persistent) {
            memory.place[i] = Some(memory.buffers.len());
            let tensors = vec![PlannedTensor { name: storage.name.clone(), bytes: storage.bytes }];
            memory.buffers.push(PlannedBuffer { tensors, bytes: storage.bytes, shared: false });
        }
        share_by_lifetime(plan, &Kind::Transient, &mut memory.buffers, &mut memory.place);
        share_by_lifetime(plan, &Kind::Texture, &mut memory.textures, &mut memory.place);
        Ok(memory)
    }

    /// The error of an adapter that had no room for these buffers, whatever its limits promised.
    pub(super) fn out_of_memory(&self, adapter: &str) -> GpuError {
        GpuError::OutOfMemory {
            adapter: adapter.into(),
            bytes: self.bytes(),
            buffers: self.buffers.len() + self.textures.len() + 1,
            largest: self.buffers.iter().chain(&self.textures).map(|buffer| buffer.bytes).max().unwrap_or(0),
        }
    }

    /// For each buffer the one of `others` in which its tensors can lie: persistent ones in those of the same name, in
    /// their order. None where there is no room.
    pub(super) fn within(&self, others: &Self) -> Option<Vec<usize>> {
        let buffers = |memory: &Self, shared| {
            let of_kind =
                memory.buffers.iter().enumerate().filter(move |(_, buffer)| buffer.shared == shared);
            of_kind.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let largest_first = |memory: &Self| {
            let mut shared = buffers(memory, true);
            shared.sort_by_key(|index| std::cmp::Reverse(memory.buffers[*index].bytes));
            shared
        };
        let [own, theirs] = [self, others].map(|memory| [buffers(memory, false), largest_first(memory)]);
        if own[0].len() != theirs[0].len() || own[1].len() > theirs[1].len() {
            return None;
        }
        let mut places = vec![0; self.buffers.len()];
        for (own, theirs) in own.into_iter().flatten().zip(theirs.into_iter().flatten()) {
            let (buffer, there) = (&self.buffers[own], &others.buffers[theirs]);
            let same = buffer.shared || buffer.tensors[0].name == there.tensors[0].name;
            if !same || buffer.bytes > there.bytes {
                return None;
            }
            places[own] = theirs;
        }
        Some(places)
    }

    /// The same for its textures.
    pub(super) fn textures_within(&self, others: &Self) -> Option<Vec<usize>> {
        let largest_first = |memory: &Self| {
            let mut all: Vec<_> = (0..memory.textures.len()).collect();
            all.sort_by_key(|index| std::cmp::Reverse(memory.textures[*index].bytes));
            all
        };
        let (own, theirs) = (largest_first(self), largest_first(others));
        let fits =
            |(own, theirs): (&usize, &usize)| self.textures[*own].bytes <= others.textures[*theirs].bytes;
        if own.len() > theirs.len() || !own.iter().zip(&theirs).all(fits) {
            return None;
        }
        let mut places = vec![0; own.len()];
        own.into_iter().zip(theirs).for_each(|(own, theirs)| places[own] = theirs);
        Some(places)
    }

    /// Bytes of all buffers together.
    pub fn bytes(&self) -> u64 {
        self.params + self.buffers.iter().chain(&self.textures).map(|b| b.bytes).sum::<u64>()
    }

    /// The buffer in which a tensor of the plan lies, by its number; none for what belongs to another program.
    pub fn buffer_of(&self, tensor: Tensor) -> Option<usize> {
        self.place[tensor.storage]
    }
}

/// Each transient tensor of a kind, in the order of first use, takes the free buffer that fits best, or grows the
/// largest free one, or opens a new one. Tensors of one command never share: their lifetimes meet there.
fn share_by_lifetime(
    plan: &Plan,
    kind: &Kind,
    buffers: &mut Vec<PlannedBuffer>,
    place: &mut [Option<usize>],
) {
    let mut free_after: Vec<(usize, usize)> = Vec::new(); // (buffer, last command that uses it)
    for (storage, first, last) in lifetimes(plan, kind) {
        let bytes = plan.storages[storage].bytes;
        let free = free_after.iter_mut().filter(|(_, busy_until)| *busy_until < first);
        let best = free.min_by_key(|(buffer, _)| {
            let size = buffers[*buffer].bytes;
            if size >= bytes { (0, size - bytes) } else { (1, bytes - size) }
        });
        let buffer = match best {
            Some((buffer, busy_until)) => {
                *busy_until = last;
                *buffer
            }
            None => {
                free_after.push((buffers.len(), last));
                buffers.push(PlannedBuffer { tensors: Vec::new(), bytes: 0, shared: true });
                buffers.len() - 1
            }
        };
        place[storage] = Some(buffer);
        buffers[buffer].bytes = buffers[buffer].bytes.max(bytes);
        let name = plan.storages[storage].name.clone();
        buffers[buffer].tensors.push(PlannedTensor { name, bytes });
    }
}

/// Transient storages of a kind with the first and last command that names them, in order of first use.
fn lifetimes(plan: &Plan, kind: &Kind) -> Vec<(usize, usize, usize)> {
    let mut span: Vec<Option<(usize, usize)>> = vec![None; plan.storages.len()];
    for (at, command) in plan.commands.iter().enumerate() {
        let tensors = match command {
            Command::Dispatch(dispatch) => dispatch.bindings.iter().map(|(_, t)| *t).collect(),
            Command::Clear(tensor) => vec![*tensor],
            Command::Copy { from, to } => vec![*from, *to],
        };
        for tensor in tensors {
            let (first, _) = span[tensor.storage].unwrap_or((at, at));
            let last = if plan.storages[tensor.storage].kept { usize::MAX } else { at };
            span[tensor.storage] = Some((first, last));
        }
    }
    let mut lives: Vec<_> = span
        .into_iter()
        .enumerate()
        .filter(|(storage, _)| plan.storages[*storage].kind == *kind)
        .filter_map(|(storage, span)| span.map(|(first, last)| (storage, first, last)))
        .collect();
    lives.sort_by_key(|(storage, first, _)| (*first, *storage));
    lives
}

#[cfg(test)]
mod tests {
    use super::super::{Dispatch, Kernel, KernelFamily, Plan, Shader, Tensor};

    fn touch(plan: &mut Plan, tensors: &[Tensor]) {
        let shader = Shader { name: "none", source: "" };
        plan.dispatch(Dispatch {
            kernel: Kernel { shader, entry: "main", constants: vec![], types: vec![] },
            bindings: tensors.iter().enumerate().map(|(i, t)| (i as u32 + 1, *t)).collect(),
            params: vec![],
            groups: [1, 1],
        });
    }

    #[test]
    fn a_chain_of_tensors_needs_two_buffers() {
        let mut plan = Plan::new(KernelFamily::Register);
        let chain: Vec<_> = (0..6).map(|i| plan.transient(&format!("x{i}"), 100 + i)).collect();
        for pair in chain.windows(2) {
            touch(&mut plan, pair);
        }
        let memory = plan.memory(1 << 20, 1 << 20).unwrap();
        assert_eq!(memory.buffers.len(), 2);
        assert_eq!(memory.bytes(), 4 * (104 + 105) + 5 * 256, "the last are parameters of five dispatches");
    }

    #[test]
    fn tensors_alive_together_never_share() {
        let mut plan = Plan::new(KernelFamily::Register);
        let weights = plan.persistent("weights", 64);
        let kept = plan.transient("kept", 10);
        let a = plan.transient("a", 10);
        let b = plan.transient("b", 10);
        touch(&mut plan, &[weights, kept]);
        touch(&mut plan, &[kept, a]);
        touch(&mut plan, &[b, kept]);
        let memory = plan.memory(1 << 20, 1 << 20).unwrap();
        assert_eq!(memory.place[2], memory.place[3], "a is dead when b is born");
        assert_ne!(memory.place[1], memory.place[3]);
        assert_ne!(memory.place[0], memory.place[1]);
    }

    #[test]
    fn the_tensor_that_exceeds_a_limit_is_named() {
        let mut plan = Plan::new(KernelFamily::Register);
        plan.transient("logits", 100);
        let error = plan.memory(1 << 20, 256).unwrap_err();
        assert!(error.to_string().contains("logits needs 400 bytes"), "{error}");
    }

    #[test]
    fn a_smaller_plan_lies_in_the_buffers_of_a_larger_one() {
        let plan = |weights: &str, sizes: [usize; 3]| {
            let mut plan = Plan::new(KernelFamily::Register);
            let persistent = plan.persistent(weights, 64);
            let [a, b, c] = sizes.map(|size| plan.transient("x", size));
            touch(&mut plan, &[persistent, a, b]);
            touch(&mut plan, &[b, c]);
            plan
        };
        let memory = |plan: &Plan| plan.memory(1 << 20, 1 << 20).unwrap();
        let whole = plan("weights", [100, 10, 50]);
        let within = |plan: &Plan| memory(plan).within(&memory(&whole));
        assert_eq!(within(&plan("weights", [9, 90, 8])), Some(vec![0, 2, 1]), "the largest into the largest");
        assert_eq!(within(&plan("weights", [99, 11, 1])), None, "one is too large");
        assert_eq!(within(&plan("moments", [9, 9, 9])), None, "another tensor");
        assert!(plan("weights", [9, 90, 8]).fits_into(&whole));
        let mut other = plan("weights", [9, 9, 9]);
        other.constant("table", vec![1]);
        assert!(!other.fits_into(&whole));
    }

    #[test]
    fn an_adapter_without_room_is_told_with_the_plans_numbers() {
        let mut plan = Plan::new(KernelFamily::Register);
        plan.persistent("weights", 128);
        plan.persistent("moments", 64);
        let error = plan.memory(1 << 20, 1 << 20).unwrap().out_of_memory("llvmpipe").to_string();
        let told = "llvmpipe has no room for 1024 bytes in 3 buffers, the largest of them 512 bytes";
        assert!(error.contains(told), "{error}");
    }
}
