//! An open device: its queue, its limits, its pipelines, and the errors nobody asked for.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::buffer::{OwnedBuffer, OwnedTexture};
use super::plan::{TEXTURE_ROW_BYTES, Tensor};
use super::time::sleep;
use super::{AdapterReport, GpuError, Kernel, KernelFamily, Kernels, Precision};

/// How a device is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// All kernels of one family; by default the adapter decides.
    pub family: Option<KernelFamily>,
    /// Leave the driver-independent bounds checks of the shader compiler in. On the web they always are.
    pub runtime_checks: bool,
    /// Ask for timestamp queries, where the adapter has them.
    pub timestamps: bool,
}

/// How long the loss of a device may be told after the errors that it leads to: Firefox asks its devices ten times a
/// second. Natively one poll tells.
const LOSS_IS_TOLD: Duration = Duration::from_secs(if cfg!(target_family = "wasm") { 1 } else { 0 });

/// How many objects a device was asked to create. A step after the first must not move these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Created {
    /// Buffers.
    pub buffers: u64,
    /// Textures.
    pub textures: u64,
    /// Bind groups.
    pub bind_groups: u64,
    /// Compute pipelines.
    pub pipelines: u64,
}

#[derive(Default)]
struct Failure {
    rejected: Option<String>,
    lost: Option<String>,
    /// Who waits for a loss.
    waker: Option<Waker>,
}

/// A shader's name and types.
type ModuleKey = (&'static str, Vec<(&'static str, Precision)>);

/// An open device.
pub struct Gpu {
    /// The device.
    pub device: wgpu::Device,
    /// Its queue.
    pub queue: wgpu::Queue,
    /// What the adapter said of itself.
    pub adapter: AdapterReport,
    /// Which kernels its ops use.
    pub kernels: Kernels,
    /// Does it tell what is done when it is given work, and else late?
    pub(super) tells_when_given_work: bool,
    runtime_checks: bool,
    failure: Arc<Mutex<Failure>>,
    modules: Mutex<HashMap<ModuleKey, wgpu::ShaderModule>>,
    pipelines: Mutex<HashMap<Kernel, wgpu::ComputePipeline>>,
    created: Mutex<Created>,
}

/// A poisoned lock means another thread panicked while it held a map or a counter; both stay usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gpu {
    /// Open a device on an adapter of a survey, with every limit the adapter grants; of memory no more than the report
    /// says.
    ///
    /// # Errors
    /// [`GpuError::DeviceRefused`] when the driver says no.
    pub async fn open(adapter: &AdapterReport, options: DeviceOptions) -> Result<Self, GpuError> {
        let refused = |message: String| GpuError::DeviceRefused { adapter: adapter.name.clone(), message };
        let handle = adapter.to_open().await.ok_or_else(|| refused("there is no such adapter".into()))?;
        let kernels = options.kernels_on(adapter);
        if !adapter.families().contains(&kernels.products) {
            return Err(refused(format!("it cannot run the {} kernels", kernels.products.name())));
        }
        let mut features = wgpu::Features::empty();
        features.set(wgpu::Features::TIMESTAMP_QUERY, options.timestamps);
        features.set(wgpu::Features::SUBGROUP, adapter.has_subgroups_of_8);
        features.set(wgpu::Features::SHADER_F16, adapter.precisions().contains(&Precision::F16));
        let (device, queue) = handle
            .request_device(&wgpu::DeviceDescriptor {
                label: Some("wgpu-bert"),
                required_features: handle.features() & features,
                required_limits: wgpu::Limits {
                    max_buffer_size: adapter.max_buffer_size,
                    max_storage_buffer_binding_size: adapter.max_binding_size,
                    ..handle.limits()
                },
                memory_hints: wgpu::MemoryHints::Performance,
                ..Default::default()
            })
            .await
            .map_err(|e| refused(e.to_string()))?;
        let failure = Arc::new(Mutex::new(Failure::default()));
        let seen = failure.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            lock(&seen).rejected.get_or_insert(error.to_string());
        }));
        let seen = failure.clone();
        device.set_device_lost_callback(move |reason, message| {
            let mut seen = lock(&seen);
            seen.lost.get_or_insert(format!("{reason:?} {message}"));
            if let Some(waker) = seen.waker.take() {
                waker.wake();
            }
        });
        Ok(Self {
            device,
            queue,
            adapter: adapter.clone(),
            kernels,
            tells_when_given_work: AdapterReport::tell_when_given_work(),
            runtime_checks: options.runtime_checks,
            failure,
            modules: Mutex::default(),
            pipelines: Mutex::default(),
            created: Mutex::default(),
        })
    }

    /// The first error nobody asked for, if there was one: training must stop on it.
    ///
    /// # Errors
    /// [`GpuError::Lost`] when the device is gone, [`GpuError::Rejected`] with the text of an uncaptured error.
    pub fn check(&self) -> Result<(), GpuError> {
        if lock(&self.failure).rejected.is_some() {
            // A lost device rejects all that it is given, and natively tells why with the next poll only.
            let _ = self.device.poll(wgpu::PollType::Poll);
        }
        let failure = lock(&self.failure);
        match (&failure.lost, &failure.rejected) {
            (Some(reason), _) => Err(GpuError::Lost { reason: reason.clone() }),
            (None, Some(message)) => Err(GpuError::Rejected { message: message.clone() }),
            (None, None) => Ok(()),
        }
    }

    /// What `rest` resolves to, unless the device is lost before. Browsers tell of that at once, other systems when the
    /// device is next used.
    ///
    /// # Errors
    /// As [`Gpu::check`].
    pub async fn while_it_lives<T>(&self, rest: impl Future<Output = T>) -> Result<T, GpuError> {
        let mut rest = pin!(rest);
        poll_fn(|context| {
            lock(&self.failure).waker = Some(context.waker().clone());
            match self.check() {
                Ok(()) => rest.as_mut().poll(context).map(Ok),
                Err(error) => Poll::Ready(Err(error)),
            }
        })
        .await
    }

    /// The loss of the device, where it is lost or is told so in a moment. One that is lost rejects all that it is given,
    /// and some browsers tell of that first.
    pub(crate) async fn loss(&self) -> Option<GpuError> {
        let mut told = pin!(sleep(LOSS_IS_TOLD));
        poll_fn(|context| {
            lock(&self.failure).waker = Some(context.waker().clone());
            match self.check() {
                Err(error) if error.is_loss() => Poll::Ready(Some(error)),
                _ => told.as_mut().poll(context).map(|()| None),
            }
        })
        .await
    }

    /// How many objects were created so far.
    pub fn created(&self) -> Created {
        *lock(&self.created)
    }

    /// Bytes that the driver was asked for, where the backend counts them: all buffers of the device, rounded up to what
    /// it hands out.
    pub fn allocated_bytes(&self) -> Option<u64> {
        self.device.generate_allocator_report().map(|report| report.total_allocated_bytes)
    }

    pub(super) fn buffer(&self, name: &str, bytes: u64, usage: wgpu::BufferUsages) -> OwnedBuffer {
        lock(&self.created).buffers += 1;
        let descriptor =
            wgpu::BufferDescriptor { label: Some(name), size: bytes, usage, mapped_at_creation: false };
        OwnedBuffer(self.device.create_buffer(&descriptor))
    }

    /// A texture of four f32 in a texel that kernels can read.
    pub(super) fn texture(&self, name: &str, bytes: u64) -> OwnedTexture {
        lock(&self.created).textures += 1;
        let size = wgpu::Extent3d {
            width: Tensor::TEXTURE_WIDTH as u32,
            height: bytes.div_ceil(TEXTURE_ROW_BYTES) as u32,
            depth_or_array_layers: 1,
        };
        OwnedTexture(self.device.create_texture(&wgpu::TextureDescriptor {
            label: Some(name),
            size,
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: wgpu::TextureFormat::Rgba32Float,
            usage: wgpu::TextureUsages::STORAGE_BINDING | wgpu::TextureUsages::COPY_DST,
            view_formats: &[],
        }))
    }

    pub(super) fn bind_group(&self, descriptor: &wgpu::BindGroupDescriptor) -> wgpu::BindGroup {
        lock(&self.created).bind_groups += 1;
        self.device.create_bind_group(descriptor)
    }

    /// Compile kernels, one after another, so that their first use need not. Calls `compiled` with how many are done, from
    /// 0 on.
    ///
    /// # Errors
    /// [`GpuError::Rejected`] names the kernel that the device refuses.
    pub async fn compile(
        &self,
        kernels: &[&Kernel],
        mut compiled: impl FnMut(usize),
    ) -> Result<(), GpuError> {
        compiled(0);
        for (index, kernel) in kernels.iter().enumerate() {
            let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
            self.pipeline(kernel);
            // A browser compiles elsewhere, in order: when it has answered, it is done.
            if let Some(error) = scope.pop().await {
                let message = format!("{}, {}: {error}", kernel.shader.name, kernel.entry);
                return Err(GpuError::Rejected { message });
            }
            compiled(index + 1);
        }
        self.check()
    }

    /// The pipeline of a kernel, compiled at its first use.
    pub(super) fn pipeline(&self, kernel: &Kernel) -> wgpu::ComputePipeline {
        if let Some(found) = lock(&self.pipelines).get(kernel) {
            return found.clone();
        }
        let module = self.module(kernel);
        let constants: Vec<_> =
            kernel.constants.iter().map(|(name, value)| (*name, f64::from(*value))).collect();
        lock(&self.created).pipelines += 1;
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(kernel.entry),
            // Derived from the shader, so that it cannot disagree with it.
            layout: None,
            module: &module,
            entry_point: Some(kernel.entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &constants,
                // Every kernel writes workgroup memory before it reads it.
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        });
        lock(&self.pipelines).insert(kernel.clone(), pipeline.clone());
        pipeline
    }

    fn module(&self, kernel: &Kernel) -> wgpu::ShaderModule {
        let mut modules = lock(&self.modules);
        let name = kernel.shader.name;
        let module = modules.entry((name, kernel.types.clone())).or_insert_with(|| {
            let descriptor = wgpu::ShaderModuleDescriptor {
                label: Some(name),
                source: wgpu::ShaderSource::Wgsl(kernel.source().into()),
            };
            if self.runtime_checks {
                self.device.create_shader_module(descriptor)
            } else {
                // SAFETY: every kernel guards its stores and keeps its loads inside the bound ranges; the tests
                // run them with the checks on and off and compare.
                unsafe {
                    self.device
                        .create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
                }
            }
        });
        module.clone()
    }
}

/// Browsers keep a device's memory until they next collect garbage, unless it is destroyed.
impl Drop for Gpu {
    fn drop(&mut self) {
        self.device.destroy();
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("adapter", &self.adapter.name).field("kernels", &self.kernels).finish()
    }
}
