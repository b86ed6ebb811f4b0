//! How long each kernel takes, where the device has timestamp queries.

use super::plan::Command;
use super::{BufferRange, Gpu, GpuError, Plan, Program};

/// All dispatches of one kernel in a program, whatever its constants.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelTime {
    /// The name of its shader.
    pub shader: &'static str,
    /// Its entry point.
    pub entry: &'static str,
    /// How often it runs.
    pub dispatches: usize,
    /// How long all of them take together.
    pub seconds: f64,
}

/// Dispatches whose two timestamps fit one query set.
const DISPATCHES_PER_SET: usize = wgpu::QUERY_SET_MAX_QUERIES as usize / 2;

impl Program {
    /// Run the program that was compiled from `plan` once, each dispatch in a pass of its own, and tell how long every
    /// kernel took, the longest first. `None` where the device was opened without
    /// [timestamps](super::DeviceOptions::timestamps), or its adapter has none.
    ///
    /// # Errors
    /// What the device says.
    pub async fn profile(&self, gpu: &Gpu, plan: &Plan) -> Result<Option<Vec<KernelTime>>, GpuError> {
        if !gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Ok(None);
        }
        let kernels: Vec<_> = plan.commands.iter().filter_map(Command::kernel).collect();
        let counts: Vec<_> = kernels.chunks(DISPATCHES_PER_SET).map(<[_]>::len).collect();
        let sets: Vec<_> = counts.iter().map(|dispatches| Timestamps::new(gpu, *dispatches)).collect();
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        self.encode_passes(&mut encoder, |dispatch| {
            let first = (dispatch % DISPATCHES_PER_SET) as u32 * 2;
            wgpu::ComputePassTimestampWrites {
                query_set: &sets[dispatch / DISPATCHES_PER_SET].queries,
                beginning_of_pass_write_index: Some(first),
                end_of_pass_write_index: Some(first + 1),
            }
        });
        sets.iter().for_each(|set| set.resolve(&mut encoder));
        gpu.queue.submit([encoder.finish()]);
        let mut seconds = Vec::with_capacity(kernels.len());
        for set in &sets {
            seconds.extend(set.read(gpu).await?);
        }
        let mut times: Vec<KernelTime> = Vec::new();
        for (kernel, seconds) in kernels.into_iter().zip(seconds) {
            let (shader, entry) = (kernel.shader.name, kernel.entry);
            match times.iter_mut().find(|time| (time.shader, time.entry) == (shader, entry)) {
                Some(time) => {
                    time.dispatches += 1;
                    time.seconds += seconds;
                }
                None => times.push(KernelTime { shader, entry, dispatches: 1, seconds }),
            }
        }
        times.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Ok(Some(times))
    }
}

/// Two timestamps for each of some dispatches.
struct Timestamps {
    queries: wgpu::QuerySet,
    resolved: BufferRange,
    count: u32,
}

impl Timestamps {
    fn new(gpu: &Gpu, dispatches: usize) -> Self {
        let count = dispatches as u32 * 2;
        let descriptor = wgpu::QuerySetDescriptor { label: None, ty: wgpu::QueryType::Timestamp, count };
        let bytes = u64::from(count) * u64::from(wgpu::QUERY_SIZE);
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("timestamps"),
            size: bytes,
            usage,
            mapped_at_creation: false,
        });
        let resolved = BufferRange { buffer, offset: 0, bytes };
        Self { queries: gpu.device.create_query_set(&descriptor), resolved, count }
    }

    fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.resolve_query_set(&self.queries, 0..self.count, &self.resolved.buffer, 0);
    }

    /// Seconds between the two of every pair.
    async fn read(&self, gpu: &Gpu) -> Result<Vec<f64>, GpuError> {
        let words = gpu.read(&self.resolved).await?;
        let period = f64::from(gpu.queue.get_timestamp_period()) * 1e-9;
        let ticks = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        // A clock that was set back between the two shows no time at all.
        let seconds =
            |pair: &[u32]| ticks(pair[2], pair[3]).saturating_sub(ticks(pair[0], pair[1])) as f64 * period;
        Ok(words.chunks_exact(4).map(seconds).collect())
    }
}
