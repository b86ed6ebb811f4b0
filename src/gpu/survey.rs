//! Which adapters are there, and why none where there is none.

#[cfg(not(target_family = "wasm"))]
mod native;
#[cfg(target_family = "wasm")]
mod web;

#[cfg(not(target_family = "wasm"))]
use native as platform;
#[cfg(target_family = "wasm")]
use web as platform;

use super::{Browser, KernelFamily, Precision};

/// What kind of processor an adapter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU sharing the processor's memory.
    Integrated,
    /// A GPU lent by a hypervisor.
    Virtual,
    /// A driver that computes on the processor (llvmpipe, SwiftShader, WARP).
    Software,
    /// The driver does not say.
    Unknown,
}

impl AdapterKind {
    /// Is it hardware made for this, as far as the driver says?
    pub fn is_gpu(self) -> bool {
        !matches!(self, Self::Software)
    }

    /// The kind in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Virtual => "virtual GPU",
            Self::Software => "software",
            Self::Unknown => "unknown",
        }
    }
}

/// One adapter as its driver describes it.
#[derive(Debug, Clone)]
pub struct AdapterReport {
    /// Position in [`Survey::adapters`]; what `--adapter INDEX` means.
    pub index: usize,
    /// The adapter's name.
    pub name: String,
    /// The API it is reached through: `vulkan`, `metal`, `dx12`, `gl`, or `webgpu` in a browser.
    pub backend: String,
    /// What kind of processor it is.
    pub kind: AdapterKind,
    /// The driver and its version; in a browser, which tells none, the browser's.
    pub driver: String,
    /// The largest buffer, in bytes (`maxBufferSize`).
    pub max_buffer_size: u64,
    /// The largest range one binding may cover, in bytes (`maxStorageBufferBindingSize`).
    pub max_binding_size: u64,
    /// Storage buffers one kernel may bind (`maxStorageBuffersPerShaderStage`).
    pub max_storage_buffers: u32,
    /// Workgroup memory, in bytes (`maxComputeWorkgroupStorageSize`).
    pub max_workgroup_memory: u32,
    /// Invocations of a workgroup (`maxComputeInvocationsPerWorkgroup`).
    pub max_invocations: u32,
    /// Those of the features `shader-f16`, `subgroups`, `timestamp-query` it has.
    pub features: Vec<&'static str>,
    /// Can kernels use subgroups, always of 8 invocations? In a browser never: wgpu asks none for them.
    pub has_subgroups_of_8: bool,
    /// Can kernels read storage textures of four f32 in a texel?
    pub has_readable_textures: bool,
    /// The family whose matrix products are the fastest on it, where that was measured.
    pub fastest: Option<KernelFamily>,
    /// The adapter itself; none in a survey made by hand.
    pub handle: Option<wgpu::Adapter>,
}

impl AdapterReport {
    /// The most that one binding of one buffer may hold, in bytes.
    pub fn max_slab(&self) -> u64 {
        self.max_buffer_size.min(self.max_binding_size)
    }

    /// The precisions that its kernels can store.
    pub fn precisions(&self) -> Vec<Precision> {
        let f16 = self.features.contains(&"shader-f16").then_some(Precision::F16);
        std::iter::once(Precision::F32).chain(f16).collect()
    }

    /// Do this platform's adapters tell what is done when they are given work, and else late?
    pub(super) fn tell_when_given_work() -> bool {
        platform::tell_when_given_work()
    }

    /// Is it the software adapter that Chromium brings along?
    pub(super) fn is_swiftshader(&self) -> bool {
        self.name.to_lowercase().contains("swiftshader")
    }

    fn new(index: usize, adapter: wgpu::Adapter) -> Self {
        let info = adapter.get_info();
        let limits = adapter.limits();
        let granted = adapter.features();
        let features = [
            (wgpu::Features::SHADER_F16, "shader-f16"),
            (wgpu::Features::SUBGROUP, "subgroups"),
            (wgpu::Features::TIMESTAMP_QUERY, "timestamp-query"),
        ];
        Self {
            index,
            name: info.name,
            backend: info.backend.to_str().to_string(),
            kind: match info.device_type {
                wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
                wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
                wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
                wgpu::DeviceType::Cpu => AdapterKind::Software,
                wgpu::DeviceType::Other => AdapterKind::Unknown,
            },
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
            max_buffer_size: limits.max_buffer_size,
            max_binding_size: limits.max_storage_buffer_binding_size,
            max_storage_buffers: limits.max_storage_buffers_per_shader_stage,
            max_workgroup_memory: limits.max_compute_workgroup_storage_size,
            max_invocations: limits.max_compute_invocations_per_workgroup,
            features: features.iter().filter(|(f, _)| granted.contains(*f)).map(|(_, n)| *n).collect(),
            has_subgroups_of_8: granted.contains(wgpu::Features::SUBGROUP)
                && (info.subgroup_min_size, info.subgroup_max_size) == (8, 8),
            has_readable_textures: platform::has_readable_textures(&adapter),
            fastest: None,
            handle: Some(adapter),
        }
    }

    /// A discrete GPU that is not there.
    #[cfg(test)]
    pub(crate) fn made_up(index: usize, name: &str) -> Self {
        Self {
            index,
            name: name.into(),
            backend: "vulkan".into(),
            kind: AdapterKind::Discrete,
            driver: String::new(),
            max_buffer_size: 1 << 30,
            max_binding_size: 128 << 20,
            max_storage_buffers: 8,
            max_workgroup_memory: 16 << 10,
            max_invocations: 256,
            features: Vec::new(),
            has_subgroups_of_8: false,
            has_readable_textures: false,
            fastest: None,
            handle: None,
        }
    }

    /// The adapter to open a device on; none for a survey made by hand, or when it went away.
    pub(super) async fn to_open(&self) -> Option<wgpu::Adapter> {
        platform::to_open(self).await
    }

    /// The same adapter in a new survey, to open another device on when the one before was lost.
    pub(crate) async fn again(&self) -> Option<Self> {
        let again = survey().await.adapters.into_iter().find(|found| platform::is_same(self, found))?;
        Some(Self { fastest: self.fastest, ..again })
    }

    /// Can the kernels run on it? They need the limits every WebGPU implementation guarantees.
    pub fn is_usable(&self) -> bool {
        self.max_storage_buffers >= 8 && self.max_invocations >= 256 && self.max_workgroup_memory >= 16 << 10
    }
}

/// Why there is no adapter, as far as what to do depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbsenceCause {
    /// No driver of this system answered.
    NoDriver,
    /// The browser has no WebGPU.
    NoWebGpuApi(Browser),
    /// Browsers hide WebGPU from pages that came neither over https nor from this machine.
    InsecureContext,
    /// The browser has WebGPU, but no adapter for it.
    NoBrowserAdapter(Browser),
}

impl AbsenceCause {
    /// The cause as a word that stays the same from version to version.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoDriver | Self::NoBrowserAdapter(_) => "no_adapter",
            Self::NoWebGpuApi(_) => "no_webgpu_api",
            Self::InsecureContext => "insecure_context",
        }
    }
}

/// Why a backend gave no adapter.
#[derive(Debug, Clone)]
pub struct Absence {
    /// The backend asked.
    pub backend: String,
    /// The cause.
    pub cause: AbsenceCause,
    /// What it answered, in words.
    pub reason: String,
}

/// Every adapter found, and every backend that had none.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The adapters, in the order the backends list them.
    pub adapters: Vec<AdapterReport>,
    /// The backends without an adapter, and why.
    pub absences: Vec<Absence>,
}

/// Ask every backend of this platform for its adapters. In a browser it works on a page and in its workers.
///
/// ```no_run
/// let survey = pollster::block_on(wgpu_bert::gpu::survey());
/// for adapter in &survey.adapters {
///     println!("{} ({})", adapter.name, adapter.kind.name());
/// }
/// ```
pub async fn survey() -> Survey {
    platform::survey().await
}
