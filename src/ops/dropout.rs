//! Inverted dropout whose mask is computed, not stored.

use super::{Scalar, element_grid, real, require};
use crate::gpu::{Dispatch, Kernel, Plan, Shader, Tensor};

const SHADER: Shader = Shader { name: "dropout", source: include_str!("../../shaders/dropout.wgsl") };

/// Which elements are kept, and how much larger they become: 0 with a probability of `rate`, else `1 / (1 - rate)`,
/// decided by a hash of the element's number, site and key.
#[derive(Debug, Clone, Copy)]
pub struct DropoutMask {
    /// Probability of 0, at least 0 and less than 1.
    pub rate: f32,
    /// Which dropout of the model this is.
    pub site: u32,
    /// Two u32 words the host changes from step to step; equal words give equal masks.
    pub key: [Scalar; 2],
    /// u32, which part of a batch this is, from 0: equal parts have the masks of the batch as a whole. In one tensor with
    /// the key.
    pub part: Scalar,
    /// Tokens of a sequence.
    pub tokens: Tokens,
}

/// Of how many tokens a sequence consists, and of how many in the batch whose masks it has: without its padding it has
/// those that its tokens have with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// Here.
    pub here: usize,
    /// In the whole. Where those are more, both are multiples of 4.
    pub whole: usize,
}

impl Tokens {
    /// So many elements of the sequences here, in the whole.
    pub(super) fn in_whole(&self, len: usize) -> usize {
        len / self.here * self.whole
    }
}

impl DropoutMask {
    /// The tensor of the key and the part.
    ///
    /// # Panics
    /// When they lie in different ones, or a number is out of range: mistakes in the caller.
    pub(super) fn words(&self) -> Tensor {
        let (rate, words) = (self.rate, self.part.tensor);
        assert!((0.0..1.0).contains(&rate), "a dropout rate of {rate} keeps nothing or is no probability");
        let Tokens { here, whole } = self.tokens;
        let has_fours = here < whole && here.is_multiple_of(4) && whole.is_multiple_of(4);
        assert!(here == whole || has_fours, "of {here} tokens of {whole}, neighbours are dropped otherwise");
        assert!(self.key.iter().all(|key| key.tensor == words), "part and key must lie in one tensor");
        words
    }

    /// The words of the shaders' `Params` from `site` to `part`.
    fn params(&self) -> [u32; 6] {
        let threshold = (f64::from(self.rate) * 4_294_967_296.0) as u32;
        let [low, high] = self.key.map(|key| key.word);
        [self.site, threshold, (1.0 / (1.0 - self.rate)).to_bits(), low, high, self.part.word]
    }

    /// The same and what follows, of shaders whose `rows` come by sequences and have `columns` in the whole.
    pub(super) fn row_params(&self, rows: usize, columns: usize) -> impl Iterator<Item = u32> {
        let Tokens { here, whole } = self.tokens;
        let numbering = [self.tokens.in_whole(rows), columns.div_ceil(4), here, whole - here];
        self.params().into_iter().chain(numbering.map(|word| word as u32))
    }
}

/// `y[i] = x[i]` times its factor in the mask.
///
/// The backward is the same op, with the gradient of y as x and the gradient of x as y.
#[derive(Debug, Clone, Copy)]
pub struct Dropout {
    /// Read.
    pub x: Tensor,
    /// Written; not x, and as long as it.
    pub y: Tensor,
    /// Elements of a token.
    pub width: usize,
    /// What is kept.
    pub mask: DropoutMask,
}

/// Append a dropout.
///
/// # Panics
/// When the tensors differ in length, a number is out of range, or the part lies elsewhere: a mistake in the caller.
pub fn dropout(plan: &mut Plan, args: Dropout) {
    let Dropout { x, y, width, mask } = args;
    require("x", x, y.len());
    require("y", y, x.len());
    let Tokens { here, whole } = mask.tokens;
    let numbering = [mask.tokens.in_whole(x.len()), (here * width).div_ceil(4), (whole - here) * width / 4];
    let mut params = vec![x.len() as u32];
    params.extend(mask.params());
    params.extend(numbering.map(|word| word as u32));
    plan.dispatch(Dispatch {
        kernel: Kernel { shader: SHADER, entry: "dropout", constants: vec![], types: real(&[x, y]) },
        bindings: vec![(1, x), (2, y), (3, mask.words())],
        params,
        // A part may begin within four neighbours of the whole.
        groups: element_grid(x.len() + 3),
    });
}
