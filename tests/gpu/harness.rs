//! One device per kernel family for all tests, random inputs, and comparison with plain f64.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wgpu_bert::gpu::{AdapterReport, DeviceOptions, Gpu, KernelFamily, Plan, Program, Tensor, survey};

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

/// A quiet NaN as poison: whatever is not written shows.
pub const POISON: u32 = 0x7fc0_dead;

/// A plan with its inputs, run once and read back.
pub struct Bench {
    pub plan: Plan,
    inputs: Vec<(Tensor, Vec<u32>)>,
}

impl Bench {
    pub fn new(device: &Device) -> Self {
        Self { plan: Plan::new(device.gpu.family), inputs: Vec::new() }
    }

    /// A tensor holding `values`.
    pub fn input(&mut self, name: &str, values: &[f32]) -> Tensor {
        self.words(name, &values.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
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
    pollster::block_on(device.gpu.read_f32(&program.range(tensor))).expect("read")
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
