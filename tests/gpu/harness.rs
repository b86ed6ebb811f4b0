//! One device per kernel family for all tests, random inputs, and comparison with plain f64.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use half::f16;
use wgpu_bert::gpu::{
    AdapterReport, DeviceOptions, Gpu, GpuError, KernelFamily, Plan, Precision, Program, Tensor, survey,
};
use wgpu_bert::ops::{DropoutMask, Function, Scalar, Tokens, activation};

/// Families that every adapter runs.
pub const FAMILIES: [KernelFamily; 2] = [KernelFamily::Register, KernelFamily::Workgroup];

/// Software adapters are slow enough: one test at a time, each with a device of its own.
static TURN: Mutex<()> = Mutex::new(());

/// An open device and the right to use it.
pub struct Device {
    pub gpu: Arc<Gpu>,
    _turn: MutexGuard<'static, ()>,
}

fn adapter() -> AdapterReport {
    let survey = pollster::block_on(survey());
    survey.adapters.into_iter().next().expect("no adapter: install a Vulkan driver")
}

/// All families that the adapter runs, for what differs between them.
pub fn families() -> Vec<KernelFamily> {
    adapter().families()
}

/// Open the first adapter; without a family with the one a run would use.
pub fn device(family: impl Into<Option<KernelFamily>>) -> Device {
    open(&adapter(), family.into())
}

/// The same, but buffers and bindings may not be larger than told.
pub fn device_within(max_buffer_size: u64, max_binding_size: u64) -> Device {
    open(&AdapterReport { max_buffer_size, max_binding_size, ..adapter() }, None)
}

fn open(adapter: &AdapterReport, family: Option<KernelFamily>) -> Device {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime_checks = std::env::var("WGPU_BERT_RUNTIME_CHECKS").as_deref() != Ok("0");
    let options = DeviceOptions { family, runtime_checks, ..DeviceOptions::default() };
    Device { gpu: Arc::new(pollster::block_on(Gpu::open(adapter, options)).expect("device")), _turn: turn }
}

/// The precisions that the device can store. Where fp16 is none of them, it says so of a plan that wants it.
pub fn precisions(device: &Device) -> Vec<Precision> {
    let precisions = device.gpu.adapter.precisions();
    if !precisions.contains(&Precision::F16) {
        let mut plan = Plan::new(device.gpu.kernels);
        let [x, y] = ["x", "y"].map(|name| plan.persistent_as(Precision::F16, name, 4));
        activation(&mut plan, Function::Relu, x, y);
        let refused = pollster::block_on(plan.compile(&device.gpu)).err();
        assert!(matches!(refused, Some(GpuError::NoShaderF16 { .. })), "{refused:?}");
    }
    precisions
}

/// What numbers are once they are stored.
pub fn stored(precision: Precision, mut values: Vec<f32>) -> Vec<f32> {
    if precision == Precision::F16 {
        values.iter_mut().for_each(|value| *value = f16::from_f32(*value).to_f32());
    }
    values
}

/// By how much a result may differ that is stored so, and computed with an error of `computed`: f16 has 11 bits.
pub fn tolerance(precision: Precision, computed: f64) -> f64 {
    match precision {
        Precision::F32 => computed,
        Precision::F16 => computed + 0.5f64.powi(11),
    }
}

/// A quiet NaN as poison, two of them in f16: whatever is not written shows.
pub const POISON: u32 = 0x7fc0_7fc1;

/// A plan with its inputs, run once and read back.
pub struct Bench {
    pub plan: Plan,
    inputs: Vec<(Tensor, Vec<u32>)>,
}

impl Bench {
    pub fn new(device: &Device) -> Self {
        Self { plan: Plan::new(device.gpu.kernels), inputs: Vec::new() }
    }

    /// A tensor holding `values`.
    pub fn input(&mut self, name: &str, values: &[f32]) -> Tensor {
        self.words(name, &values.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
    }

    /// A tensor holding `values`, stored so.
    pub fn real(&mut self, precision: Precision, name: &str, values: &[f32]) -> Tensor {
        if precision == Precision::F32 {
            return self.input(name, values);
        }
        let half = |value: &f32| u32::from(f16::from_f32(*value).to_bits());
        let pair = |pair: &[f32]| half(&pair[0]) | pair.get(1).map_or(0, half) << 16;
        let tensor = self.plan.persistent_as(precision, name, values.len());
        self.inputs.push((tensor, values.chunks(2).map(pair).collect()));
        tensor
    }

    /// A tensor to be written, stored so.
    pub fn real_output(&mut self, precision: Precision, name: &str, len: usize) -> Tensor {
        self.plan.persistent_as(precision, name, len)
    }

    /// A tensor holding words.
    pub fn words(&mut self, name: &str, words: &[u32]) -> Tensor {
        let tensor = self.plan.persistent(name, words.len());
        self.inputs.push((tensor, words.to_vec()));
        tensor
    }

    /// A tensor to be written; poisoned before the run.
    pub fn output(&mut self, name: &str, words: usize) -> Tensor {
        self.plan.persistent(name, words)
    }

    /// Poison everything, write the inputs, run, and return the program for reading.
    pub fn run(&self, device: &Device) -> Program {
        let program = pollster::block_on(self.plan.compile(&device.gpu)).expect("compile");
        program.fill(&device.gpu, POISON);
        for (tensor, words) in &self.inputs {
            device.gpu.write(&program.range(*tensor), words);
        }
        program.run(&device.gpu);
        program
    }
}

/// The content of a tensor after a run.
pub fn read(device: &Device, program: &Program, tensor: Tensor) -> Vec<f32> {
    let words = pollster::block_on(device.gpu.read(&program.range(tensor))).expect("read");
    match tensor.precision() {
        Precision::F32 => words.into_iter().map(f32::from_bits).collect(),
        Precision::F16 => {
            let halves = words.into_iter().flat_map(|word| [word as u16, (word >> 16) as u16]);
            halves.take(tensor.len()).map(|half| f16::from_bits(half).to_f32()).collect()
        }
    }
}

/// Random numbers for inputs: xorshift, uniform in -1..1.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn vec(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.next()).collect()
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() + 1.0) * 0.5 * limit as f32) as usize % limit
    }
}

/// Every element within `tolerance` of the largest magnitude expected (at least 1e-3).
#[track_caller]
pub fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    let scale = want.iter().fold(1e-3_f64, |max, w| max.max(w.abs()));
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(*g) - w).abs() / scale;
        assert!(
            error <= tolerance,
            "{what}[{i}]: got {g}, want {w}, error {error:.2e} of the maximum {scale:.3}"
        );
    }
}

/// pcg4d as published, on the host.
pub fn pcg4d(key: [u32; 4]) -> [u32; 4] {
    let [mut x, mut y, mut z, mut w] = key.map(|v| v.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let mut mix = |shift: bool| {
        x = x.wrapping_add(y.wrapping_mul(w));
        y = y.wrapping_add(z.wrapping_mul(x));
        z = z.wrapping_add(x.wrapping_mul(y));
        w = w.wrapping_add(y.wrapping_mul(z));
        if shift {
            [x, y, z, w] = [x, y, z, w].map(|v| v ^ (v >> 16));
        }
        [x, y, z, w]
    };
    mix(true);
    mix(false)
}

/// Sequences that have lost no padding.
pub const WHOLE: Tokens = Tokens { here: 1, whole: 1 };

/// A dropout of 1/4 of the second part of a batch, and by which factors it multiplies `rows` of `width` elements.
pub fn dropout_of_rows(bench: &mut Bench, rows: usize, width: usize) -> (DropoutMask, Vec<f32>) {
    let (site, low, high, part) = (5, 0xdead_beef, 41, 1);
    let words = bench.words("words", &[low, 7, high, part]);
    let [low_at, _, high_at, part_at] = [0, 1, 2, 3].map(|word| Scalar { tensor: words, word });
    let mask = DropoutMask { rate: 0.25, site, key: [low_at, high_at], part: part_at, tokens: WHOLE };
    let factor = |e: usize| {
        let (row, col) = (part as usize * rows + e / width, e % width);
        let hash = pcg4d([(row * width.div_ceil(4) + col / 4) as u32, site, low, high])[col % 4];
        if hash >= 1 << 30 { 1.0 / 0.75 } else { 0.0 }
    };
    (mask, (0..rows * width).map(factor).collect())
}
