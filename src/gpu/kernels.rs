//! Which kernels a device uses.

use super::{AdapterReport, DeviceOptions};

/// Ways to write the same kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelFamily {
    /// One invocation holds a tile in registers; no workgroup memory, no barriers.
    Register,
    /// As [`Register`](Self::Register), but a subgroup of 8 invocations shares a tile.
    Subgroup,
    /// As [`Register`](Self::Register), but with larger tiles, read four words at a time. For SwiftShader; drivers that
    /// optimise more take seconds to compile them.
    Tile,
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
            KernelFamily::Register | KernelFamily::Subgroup | KernelFamily::Tile => RowKernels::Invocation,
            KernelFamily::Workgroup => RowKernels::Workgroup,
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
            false => KernelFamily::Register,
        })
    }
}

impl DeviceOptions {
    /// The kernels of a device that is opened so on an adapter.
    pub fn kernels_on(&self, adapter: &AdapterReport) -> Kernels {
        self.family.map_or_else(|| Kernels::by_class(adapter), Kernels::from)
    }
}
