//! Which kernels a device uses.

use serde::{Deserialize, Serialize};

use super::{AdapterReport, DeviceOptions};

/// Ways to write the same kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelFamily {
    /// One invocation holds a tile in registers; no workgroup memory, no barriers.
    Register,
    /// As [`Register`](Self::Register), but a subgroup of 8 invocations shares a tile.
    Subgroup,
    /// As [`Register`](Self::Register), but with larger tiles, read four words at a time. For SwiftShader and GPUs;
    /// llvmpipe takes seconds to compile them.
    Tile,
    /// As [`Register`](Self::Register), but with larger tiles, of operands that are copied into textures and read from
    /// there. For llvmpipe in browsers, which have no subgroups.
    Texture,
    /// A workgroup shares tiles through workgroup memory.
    Workgroup,
}

impl KernelFamily {
    /// The family in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Subgroup => "subgroup",
            Self::Tile => "tile",
            Self::Texture => "texture",
            Self::Workgroup => "workgroup",
        }
    }
}

/// Who takes a row in a kernel that works by rows, such as layer norm or softmax. It decides the order of sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKernels {
    /// An invocation: no barriers.
    Invocation,
    /// A workgroup, which sums as a tree.
    Workgroup,
}

/// The kernels of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernels {
    /// Those of matrix products. All families sum in the same order.
    pub products: KernelFamily,
    /// Those of everything else.
    pub rows: RowKernels,
}

/// All kernels of one family.
impl From<KernelFamily> for Kernels {
    fn from(family: KernelFamily) -> Self {
        let rows = match family {
            KernelFamily::Workgroup => RowKernels::Workgroup,
            KernelFamily::Register | KernelFamily::Subgroup | KernelFamily::Tile | KernelFamily::Texture => {
                RowKernels::Invocation
            }
        };
        Self { products: family, rows }
    }
}

impl Kernels {
    /// Those for what an adapter says it is: barriers and workgroup memory cost most where the processor computes.
    fn by_class(adapter: &AdapterReport) -> Self {
        Self::from(match adapter.kind.is_gpu() {
            true => KernelFamily::Workgroup,
            false if adapter.has_subgroups_of_8 => KernelFamily::Subgroup,
            false if adapter.is_swiftshader() => KernelFamily::Tile,
            false if adapter.has_readable_textures => KernelFamily::Texture,
            false => KernelFamily::Register,
        })
    }
}

impl AdapterReport {
    /// The families of kernels that it can run.
    pub fn families(&self) -> Vec<KernelFamily> {
        let mut families = vec![KernelFamily::Register, KernelFamily::Workgroup];
        if self.has_subgroups_of_8 {
            families.push(KernelFamily::Subgroup);
        }
        if self.kind.is_gpu() || self.is_swiftshader() {
            families.push(KernelFamily::Tile);
        }
        if self.has_readable_textures {
            families.push(KernelFamily::Texture);
        }
        families
    }

    /// The families among which a measurement is to choose, the one of its class first. Of the software adapters, whose
    /// drivers take seconds to compile some of them, the fastest is known; what a GPU does best nobody can tell before.
    pub fn candidates(&self) -> Vec<KernelFamily> {
        let first = Kernels::by_class(self).products;
        let mut candidates = if self.kind.is_gpu() { self.families() } else { vec![first] };
        candidates.sort_by_key(|family| *family != first);
        candidates
    }
}

impl DeviceOptions {
    /// The kernels of a device that is opened so on an adapter.
    pub fn kernels_on(&self, adapter: &AdapterReport) -> Kernels {
        let by_class = Kernels::by_class(adapter);
        match (self.family, adapter.fastest) {
            (Some(family), _) => family.into(),
            (None, Some(products)) => Kernels { products, ..by_class },
            (None, None) => by_class,
        }
    }

    /// Why these: `asked for`, `measured fastest` or `by class`.
    pub fn why_on(&self, adapter: &AdapterReport) -> &'static str {
        match (self.family, adapter.fastest) {
            (Some(_), _) => "asked for",
            (None, Some(_)) => "measured fastest",
            (None, None) => "by class",
        }
    }

    /// The family of its matrix products and why this one, in words: `tile (measured fastest)`.
    pub fn told_on(&self, adapter: &AdapterReport) -> String {
        format!("{} ({})", self.kernels_on(adapter).products.name(), self.why_on(adapter))
    }
}
