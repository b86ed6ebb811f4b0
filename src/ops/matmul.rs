//! Batched matrix product with arbitrary strides, and the three products of a linear layer.

use super::{grid, real, require};
use crate::gpu::{Dispatch, Kernel, KernelFamily, Plan, Precision, Shader, Tensor};

const SHADER: Shader = Shader { name: "matmul", source: include_str!("../../shaders/matmul.wgsl") };
const SUBGROUP_SHADER: Shader =
    Shader { name: "matmul_subgroup", source: include_str!("../../shaders/matmul_subgroup.wgsl") };

const TILE_SHADER: Shader =
    Shader { name: "matmul_tile", source: include_str!("../../shaders/matmul_tile.wgsl") };

const TEXTURE_SHADER: Shader =
    Shader { name: "matmul_texture", source: include_str!("../../shaders/matmul_texture.wgsl") };

/// Invocations of a workgroup of the register kernel.
const REGISTER_WORKGROUP: usize = 32;

/// Invocations of a workgroup of the tile kernel.
const TILE_WORKGROUP: usize = 8;

/// Invocations of a workgroup of the texture kernel.
const TEXTURE_WORKGROUP: usize = 32;

/// Rows and columns of the tile kernel's tiles; smaller products leave too much of them unused.
const TILE: usize = 16;

/// Narrower products leave too much of the subgroup kernel's tiles, which are 32 wide, unused.
const SUBGROUP_COLUMNS: usize = 24;

/// A matrix, or a batch of them, inside a tensor. All numbers in elements.
#[derive(Debug, Clone, Copy)]
pub struct Operand {
    /// Where it lies.
    pub tensor: Tensor,
    /// Its first element.
    pub base: usize,
    /// From one row to the next.
    pub row: usize,
    /// From one column to the next.
    pub col: usize,
    /// From one outer batch to the next.
    pub outer: usize,
    /// From one inner batch to the next.
    pub inner: usize,
}

impl Operand {
    /// A row-major matrix with `width` columns that fills a tensor from its start.
    pub fn rows(tensor: Tensor, width: usize) -> Self {
        Self { tensor, base: 0, row: width, col: 1, outer: 0, inner: 0 }
    }

    /// The same matrix, transposed.
    pub fn transposed(self) -> Self {
        Self { row: self.col, col: self.row, ..self }
    }

    /// How many elements its tensor must have.
    fn extent(&self, rows: usize, columns: usize, batch: (usize, usize)) -> usize {
        let batches = self.outer * (batch.0 - 1) + self.inner * (batch.1 - 1);
        self.base + batches + self.row * (rows - 1) + self.col * (columns - 1) + 1
    }

    /// Can it be read four elements at a time, from multiples of four on?
    fn in_fours(&self) -> bool {
        let strides = [self.base, self.outer, self.inner, self.row.max(self.col)];
        self.row.min(self.col) == 1 && strides.iter().all(|words| words.is_multiple_of(4))
    }

    /// The shader's `Operand`, 32 bytes long as uniform layout wants it.
    fn params(&self) -> [u32; 8] {
        [self.base, self.row, self.col, self.outer, self.inner, 0, 0, 0].map(|word| word as u32)
    }
}

/// `C[z] = alpha * A[z] B[z] (+ bias) (+ C[z])`, A being `m` x `k` and B `k` x `n`.
#[derive(Debug, Clone, Copy)]
pub struct Matmul {
    /// The left factor.
    pub a: Operand,
    /// The right factor.
    pub b: Operand,
    /// The result; its column stride must be 1. It may be of another precision than the factors.
    pub c: Operand,
    /// `[n]`, added to every row.
    pub bias: Option<Tensor>,
    /// `[m]`, overwritten with the sums of A's rows; not together with a bias, nor in a batch.
    pub sums: Option<Tensor>,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Summed dimension.
    pub k: usize,
    /// Outer and inner batches; z runs over their product.
    pub batch: (usize, usize),
    /// Factor of the product.
    pub alpha: f32,
    /// Add to what C holds instead of overwriting it.
    pub accumulate: bool,
}

impl Matmul {
    /// Can the kernels do it that read four words at a time?
    fn in_fours(&self) -> bool {
        let in_fours = [self.m, self.n, self.k].iter().all(|size| size.is_multiple_of(4));
        let operands = [self.a, self.b, self.c];
        let in_fours = in_fours && operands.iter().all(Operand::in_fours);
        in_fours && operands.iter().all(|operand| operand.tensor.precision() == Precision::F32)
    }

    /// Can the tile kernel do it, and is it worth it?
    fn fits_tiles(&self) -> bool {
        self.in_fours() && self.m >= TILE && self.n >= TILE
    }

    /// Can the texture kernel do it?
    fn fits_textures(&self) -> bool {
        self.in_fours() && [self.a, self.b].iter().all(|operand| operand.tensor.fits_texture())
    }

    /// What the kernels that read four words at a time need not decide themselves.
    fn constants(&self) -> Vec<(&'static str, u32)> {
        let flags = [
            ("A_TRANSPOSED", self.a.col != 1),
            ("B_TRANSPOSED", self.b.col != 1),
            ("ACCUMULATE", self.accumulate),
        ];
        flags.map(|(name, flag)| (name, u32::from(flag))).to_vec()
    }
}

/// Append a matrix product.
///
/// # Panics
/// When a tensor is too short, the column stride of C is not 1, or sums are wanted with a bias or of a batch: mistakes in
/// the caller.
pub fn matmul(plan: &mut Plan, args: Matmul) {
    let Matmul { a, b, c, bias, sums, m, n, k, batch, alpha, accumulate } = args;
    assert_eq!(c.col, 1, "the result's columns must be neighbours");
    let batches = batch.0 * batch.1;
    assert!(sums.is_none() || bias.is_none() && batches == 1, "sums are of one product without a bias");
    for (what, operand, rows, columns) in [("a", a, m, k), ("b", b, k, n), ("c", c, m, n)] {
        require(what, operand.tensor, operand.extent(rows, columns, batch));
    }
    for (what, tensor, len) in [("bias", bias, n), ("sums", sums, m)] {
        tensor.into_iter().for_each(|tensor| require(what, tensor, len));
    }
    let mut params = [m, n, k, batches, batch.1].map(|word| word as u32).to_vec();
    params.extend([alpha.to_bits(), bias.is_some().into(), accumulate.into()]);
    params.extend([a, b, c].iter().flat_map(Operand::params));
    let mut types = real(&[a.tensor, b.tensor]);
    types.push(("Product", c.tensor.precision()));
    let tiles = |rows: usize, columns: usize| batches * m.div_ceil(rows) * n.div_ceil(columns);
    let (mut constants, mut operands) = (vec![], [a.tensor, b.tensor]);
    let (shader, entries, groups) = match plan.kernels.products {
        KernelFamily::Workgroup => (SHADER, ["workgroup_64x64", "workgroup_64x64_sums"], tiles(64, 64)),
        KernelFamily::Tile if args.fits_tiles() => {
            constants = args.constants();
            types.clear();
            (TILE_SHADER, ["tile_16x16", "tile_16x16_sums"], tiles(TILE, TILE).div_ceil(TILE_WORKGROUP))
        }
        KernelFamily::Texture if args.fits_textures() => {
            constants = args.constants();
            types.clear();
            operands = operands.map(|tensor| plan.texture(tensor));
            let groups = tiles(16, 8).div_ceil(TEXTURE_WORKGROUP);
            (TEXTURE_SHADER, ["texture_16x8", "texture_16x8_sums"], groups)
        }
        KernelFamily::Subgroup if n >= SUBGROUP_COLUMNS => {
            (SUBGROUP_SHADER, ["subgroup_16x32", "subgroup_16x32_sums"], tiles(16, 32))
        }
        KernelFamily::Register | KernelFamily::Subgroup | KernelFamily::Tile | KernelFamily::Texture => {
            (SHADER, ["register_8x8", "register_8x8_sums"], tiles(8, 8).div_ceil(REGISTER_WORKGROUP))
        }
    };
    let entry = entries[usize::from(sums.is_some())];
    plan.dispatch(Dispatch {
        kernel: Kernel { shader, entry, constants, types },
        // Without a bias or sums something must still be bound in its place; B is never written here.
        bindings: vec![
            (1, operands[0]),
            (2, operands[1]),
            (3, bias.or(sums).unwrap_or(b.tensor)),
            (4, c.tensor),
        ],
        params,
        groups: grid(groups),
    });
}

/// A linear layer `y = x Wᵀ + bias` with Hugging Face's layout: W is `[outputs, inputs]`.
#[derive(Debug, Clone, Copy)]
pub struct Linear {
    /// Rows of x and y.
    pub rows: usize,
    /// Columns of x and W.
    pub inputs: usize,
    /// Columns of y, rows of W.
    pub outputs: usize,
}

impl Linear {
    fn product(&self, a: Operand, b: Operand, c: Operand, (m, n, k): (usize, usize, usize)) -> Matmul {
        Matmul { a, b, c, bias: None, sums: None, m, n, k, batch: (1, 1), alpha: 1.0, accumulate: false }
    }

    /// `y = x Wᵀ + bias`.
    pub fn forward(&self, plan: &mut Plan, x: Operand, weight: Tensor, bias: Tensor, y: Tensor) {
        let weight = Operand::rows(weight, self.inputs).transposed();
        let y = Operand::rows(y, self.outputs);
        let product = self.product(x, weight, y, (self.rows, self.outputs, self.inputs));
        matmul(plan, Matmul { bias: Some(bias), ..product });
    }

    /// `dx = dy W`, added to dx when `accumulate`.
    pub fn input_gradient(&self, plan: &mut Plan, dy: Tensor, weight: Tensor, dx: Operand, accumulate: bool) {
        let dy = Operand::rows(dy, self.outputs);
        let weight = Operand::rows(weight, self.inputs);
        let product = self.product(dy, weight, dx, (self.rows, self.inputs, self.outputs));
        matmul(plan, Matmul { accumulate, ..product });
    }

    /// `dW = dyᵀ x` and `dbias`, the sums of dy's columns, overwriting both.
    pub fn weight_gradient(&self, plan: &mut Plan, dy: Tensor, x: Operand, d_weight: Tensor, d_bias: Tensor) {
        let dy = Operand::rows(dy, self.outputs).transposed();
        let d_weight = Operand::rows(d_weight, self.inputs);
        let product = self.product(dy, x, d_weight, (self.outputs, self.inputs, self.rows));
        matmul(plan, Matmul { sums: Some(d_bias), ..product });
    }
}
