//! The step as a list: tensors by name, dispatches over them. Made without a device.

use std::collections::HashSet;

use super::{GpuError, Kernels, MemoryPlan, Precision};

/// A WGSL file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shader {
    /// The file's name, unique.
    pub name: &'static str,
    /// Its text.
    pub source: &'static str,
}

/// An entry point of a shader with its pipeline-overridable constants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The file.
    pub shader: Shader,
    /// The entry point in it.
    pub entry: &'static str,
    /// Values of `override` constants.
    pub constants: Vec<(&'static str, u32)>,
    /// What the types are that the file leaves open: those of the tensors it is given.
    pub types: Vec<(&'static str, Precision)>,
}

impl Kernel {
    /// Its file as a compiler takes it.
    pub(super) fn source(&self) -> String {
        let alias = |(name, precision): &(&str, Precision)| format!("alias {name} = {};\n", precision.wgsl());
        let aliases: String = self.types.iter().map(alias).collect();
        let enable = if self.needs_f16() { "enable f16;\n" } else { "" };
        format!("{enable}{aliases}{}", self.shader.source)
    }

    /// Does it need the feature `shader-f16`?
    pub(super) fn needs_f16(&self) -> bool {
        self.types.iter().any(|(_, precision)| *precision == Precision::F16)
    }
}

/// A range of numbers in one storage of a [`Plan`]: words of 4 bytes, or of 2 where it is told so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tensor {
    pub(super) storage: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) precision: Precision,
}

impl Tensor {
    /// Words between the starts of tensors that share a storage: 256 bytes, what a binding's offset must be a
    /// multiple of everywhere.
    pub const ALIGNMENT_WORDS: usize = 64;

    /// Texels of four numbers in a row of a texture.
    pub const TEXTURE_WIDTH: usize = 1024;

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Is it empty? A plan holds no empty tensors.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How its elements are stored; words that are no numbers count as f32.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Its size in bytes: whole words of 4, which is what can be bound.
    pub fn bytes(&self) -> u64 {
        (self.len * self.precision.bytes() as u64).next_multiple_of(4)
    }

    /// Its first word, counted from the start of its storage.
    pub fn first_word(&self) -> usize {
        (self.offset / 4) as usize
    }

    /// Rows of a texture that holds it. Drivers give memory to four rows at a time.
    pub(super) fn texture_rows(&self) -> usize {
        (self.len() / 4).div_ceil(Self::TEXTURE_WIDTH).next_multiple_of(4)
    }

    /// Is it small enough for a texture, as large as they may be everywhere?
    pub fn fits_texture(&self) -> bool {
        self.texture_rows() <= MAX_TEXTURE_ROWS
    }

    fn overlaps(&self, other: &Tensor) -> bool {
        let ends_before = |a: &Tensor, b: &Tensor| a.offset + a.bytes() <= b.offset;
        self.storage == other.storage && !ends_before(self, other) && !ends_before(other, self)
    }

    /// Where in another one it starts, if it is part of it.
    pub(crate) fn start_in(&self, whole: &Tensor) -> Option<usize> {
        let start = self.first_word().checked_sub(whole.first_word())?;
        (self.storage == whole.storage && start + self.len() <= whole.len()).then_some(start)
    }

    /// A part of this tensor as a tensor of its own.
    ///
    /// # Panics
    /// When the part is not inside, or does not start at a multiple of [`Tensor::ALIGNMENT_WORDS`] words of 4 bytes.
    pub fn part(&self, start: usize, len: usize) -> Tensor {
        let bytes = start * self.precision.bytes();
        assert!(
            start + len <= self.len() && bytes.is_multiple_of(4 * ALIGNMENT_WORDS),
            "bad part of a tensor"
        );
        Tensor { offset: self.offset + bytes as u64, len: len as u64, ..*self }
    }
}

pub(super) const ALIGNMENT_WORDS: usize = Tensor::ALIGNMENT_WORDS;

/// Bytes of a texture's row.
pub(super) const TEXTURE_ROW_BYTES: u64 = Tensor::TEXTURE_WIDTH as u64 * 16;

/// Rows that a texture may have everywhere (`maxTextureDimension2D`).
const MAX_TEXTURE_ROWS: usize = 8192;

/// One dispatch of a kernel.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// What runs.
    pub kernel: Kernel,
    /// Bindings of buffers and textures: number in the shader (0 is the uniforms') and tensor.
    pub bindings: Vec<(u32, Tensor)>,
    /// The words of the shader's `Params`, bound as the uniform at 0; at most 64.
    pub params: Vec<u32>,
    /// Workgroups in x and y.
    pub groups: [u32; 2],
}

#[derive(Debug, Clone)]
pub(super) enum Command {
    Dispatch(Dispatch),
    Clear(Tensor),
    /// A tensor into a texture.
    Copy {
        from: Tensor,
        to: Tensor,
    },
}

impl Command {
    /// What runs, if anything does.
    pub fn kernel(&self) -> Option<&Kernel> {
        match self {
            Self::Dispatch(dispatch) => Some(&dispatch.kernel),
            Self::Clear(_) | Self::Copy { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Lives as long as the program.
    Persistent,
    /// Lives from the first command that names it to the last; shares its buffer with others.
    Transient,
    /// As a transient one, but in a texture.
    Texture,
    /// Belongs to another program.
    Imported(wgpu::Buffer),
}

#[derive(Debug, Clone)]
pub(super) struct Storage {
    pub name: String,
    pub bytes: u64,
    pub kind: Kind,
    /// What the host writes into it once, before the first step.
    pub content: Option<Vec<u32>>,
    /// Must a transient one keep its content to the end?
    pub kept: bool,
}

/// Tensors and the commands over them, in order.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which kernels the ops put into it.
    pub kernels: Kernels,
    pub(super) storages: Vec<Storage>,
    pub(super) commands: Vec<Command>,
    /// Tensors and the textures that hold what they hold.
    textures: Vec<(Tensor, Tensor)>,
}

impl Plan {
    /// An empty plan for these kernels, or for those of one family.
    pub fn new(kernels: impl Into<Kernels>) -> Self {
        let (storages, commands, textures) = Default::default();
        Self { kernels: kernels.into(), storages, commands, textures }
    }

    fn storage(&mut self, name: &str, len: usize, precision: Precision, kind: Kind) -> Tensor {
        assert!(len > 0, "tensor {name} is empty");
        let tensor = Tensor { storage: self.storages.len(), offset: 0, len: len as u64, precision };
        let bytes = tensor.bytes();
        self.storages.push(Storage { name: name.into(), bytes, kind, content: None, kept: false });
        tensor
    }

    /// A tensor that keeps its content from step to step, in a buffer of its own.
    pub fn persistent(&mut self, name: &str, words: usize) -> Tensor {
        self.persistent_as(Precision::F32, name, words)
    }

    /// The same, of numbers that are stored so.
    pub fn persistent_as(&mut self, precision: Precision, name: &str, len: usize) -> Tensor {
        self.storage(name, len, precision, Kind::Persistent)
    }

    /// A persistent tensor with content of its own before the first step: a table that nobody writes, or a state.
    pub fn constant(&mut self, name: &str, content: Vec<u32>) -> Tensor {
        let tensor = self.persistent(name, content.len());
        self.storages[tensor.storage].content = Some(content);
        tensor
    }

    /// A tensor that lives from the command that writes it to the last that reads it.
    pub fn transient(&mut self, name: &str, words: usize) -> Tensor {
        self.transient_as(Precision::F32, name, words)
    }

    /// The same, of numbers that are stored so.
    pub fn transient_as(&mut self, precision: Precision, name: &str, len: usize) -> Tensor {
        self.storage(name, len, precision, Kind::Transient)
    }

    /// Let a transient tensor keep its content to the end of the plan, for the host to read.
    pub fn keep(&mut self, tensor: Tensor) {
        self.storages[tensor.storage].kept = true;
    }

    /// A tensor of another program, shared with it.
    pub fn import(&mut self, name: &str, range: &super::BufferRange) -> Tensor {
        let words = range.bytes as usize / 4;
        let tensor = self.storage(name, words, Precision::F32, Kind::Imported(range.buffer.clone()));
        Tensor { offset: range.offset, ..tensor }
    }

    /// The numbers of a tensor as a texture: four in a texel, [`TEXTURE_WIDTH`](Tensor::TEXTURE_WIDTH) texels in a row.
    /// Appends a copy, unless the dispatch before was given the same.
    ///
    /// # Panics
    /// When the tensor is too large for a texture, holds less than a texel or is not of f32: a mistake in an op.
    pub fn texture(&mut self, tensor: Tensor) -> Tensor {
        assert!(tensor.precision == Precision::F32 && tensor.len() >= 4, "no tensor for a texture");
        assert!(tensor.fits_texture(), "a tensor too large for a texture");
        if let Some((_, texture)) = self.textures.iter().find(|(source, _)| *source == tensor) {
            return *texture;
        }
        let name = self.storages[tensor.storage].name.clone();
        let words = tensor.texture_rows() * Tensor::TEXTURE_WIDTH * 4;
        let storage = self.storage(&name, words, Precision::F32, Kind::Texture);
        let texture = Tensor { len: tensor.len / 4 * 4, ..storage };
        self.commands.push(Command::Copy { from: tensor, to: texture });
        self.textures.push((tensor, texture));
        texture
    }

    /// Append a dispatch.
    ///
    /// # Panics
    /// When it has more parameters than fit (64 words) or no workgroups: a mistake in an op.
    pub fn dispatch(&mut self, dispatch: Dispatch) {
        assert!(dispatch.params.len() <= ALIGNMENT_WORDS && dispatch.groups.iter().all(|g| *g > 0));
        let is_bound = |tensor: &Tensor| dispatch.bindings.iter().any(|(_, bound)| bound.overlaps(tensor));
        self.textures.retain(|(source, texture)| is_bound(texture) && !is_bound(source));
        self.commands.push(Command::Dispatch(dispatch));
    }

    /// Append a command that fills a tensor with zeros.
    pub fn clear(&mut self, tensor: Tensor) {
        self.textures.retain(|(source, _)| !source.overlaps(&tensor));
        self.commands.push(Command::Clear(tensor));
    }

    /// Number of commands so far: where the next one will be.
    pub fn position(&self) -> usize {
        self.commands.len()
    }

    /// Number of dispatches.
    pub fn dispatches(&self) -> usize {
        self.commands.iter().filter(|c| matches!(c, Command::Dispatch(_))).count()
    }

    /// Bytes of the buffer of all dispatches' parameters.
    pub fn params_bytes(&self) -> u64 {
        (self.dispatches().max(1) * ALIGNMENT_WORDS) as u64 * 4
    }

    /// The kernels of the dispatches, each once, in the order of first use.
    pub fn kernels(&self) -> Vec<&Kernel> {
        let mut seen = HashSet::new();
        self.commands.iter().filter_map(Command::kernel).filter(|kernel| seen.insert(*kernel)).collect()
    }

    /// Bytes that the dispatches are given to read and write, each tensor once per dispatch that it is bound to: a table
    /// of which a kernel reads some rows counts as a whole, and what is updated in place once. Copies into textures read
    /// and write, too.
    pub fn moved_bytes(&self) -> u64 {
        let bound = |command: &Command| match command {
            Command::Dispatch(dispatch) => {
                let tensors: HashSet<_> = dispatch.bindings.iter().map(|(_, tensor)| tensor).collect();
                tensors.iter().map(|tensor| tensor.bytes()).sum::<u64>()
            }
            Command::Clear(tensor) => tensor.bytes(),
            Command::Copy { to, .. } => 2 * to.bytes(),
        };
        self.commands.iter().map(bound).sum()
    }

    /// Can a program of this plan lie in the buffers of one of another plan, with the same persistent tensors?
    pub fn fits_into(&self, whole: &Self) -> bool {
        let contents =
            |plan: &Self| plan.storages.iter().filter_map(|s| s.content.clone()).collect::<Vec<_>>();
        let [own, theirs] = [self, whole].map(|plan| plan.memory(u64::MAX, u64::MAX));
        let (Ok(own), Ok(theirs)) = (own, theirs) else { return false };
        own.within(&theirs).is_some()
            && own.textures_within(&theirs).is_some()
            && contents(self) == contents(whole)
    }

    /// Lay the tensors into buffers.
    ///
    /// # Errors
    /// [`GpuError::TooLarge`] names the first tensor that exceeds a limit of the adapter.
    pub fn memory(&self, max_buffer_size: u64, max_binding_size: u64) -> Result<MemoryPlan, GpuError> {
        MemoryPlan::new(self, max_buffer_size, max_binding_size)
    }
}

#[cfg(test)]
mod tests {
    use super::super::KernelFamily;
    use super::*;

    fn bind(plan: &mut Plan, tensors: &[Tensor]) {
        let shader = Shader { name: "none", source: "" };
        plan.dispatch(Dispatch {
            kernel: Kernel { shader, entry: "main", constants: vec![], types: vec![] },
            bindings: tensors.iter().enumerate().map(|(i, t)| (i as u32 + 1, *t)).collect(),
            params: vec![],
            groups: [1, 1],
        });
    }

    #[test]
    fn dispatches_in_a_row_share_a_texture_until_its_tensor_is_bound() {
        let mut plan = Plan::new(KernelFamily::Texture);
        let [x, y] = ["x", "y"].map(|name| plan.transient(name, 10_000));
        let first = plan.texture(x);
        bind(&mut plan, &[first, y]);
        assert_eq!(plan.texture(x), first);
        bind(&mut plan, &[first, x]);
        let second = plan.texture(x);
        assert_ne!(second, first, "x may have been written");
        bind(&mut plan, &[second, y]);
        bind(&mut plan, &[y]);
        let third = plan.texture(x);
        assert_ne!(third, second, "it would have to be kept");
        plan.clear(x);
        assert_ne!(plan.texture(x), third);
        let memory = plan.memory(1 << 20, 1 << 20).unwrap();
        assert_eq!(memory.textures.iter().map(|texture| texture.bytes).collect::<Vec<_>>(), [4 * 16_384]);
    }
}
