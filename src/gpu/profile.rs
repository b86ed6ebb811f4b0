//! How long kernels take, by the device's own clock where it has timestamp queries.

use std::time::Duration;

use web_time::Instant;

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
            sets[dispatch / DISPATCHES_PER_SET].around(dispatch % DISPATCHES_PER_SET)
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

    /// How long the device takes to run the program so many times, one after the other. Where it was opened without
    /// [timestamps](super::DeviceOptions::timestamps), or has none, that is until the host knows of the end.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Panics
    /// When the program does not consist of dispatches alone: a mistake in the caller.
    pub async fn time(&self, gpu: &Gpu, runs: u32) -> Result<Duration, GpuError> {
        let has_clock = gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY);
        let timestamps = has_clock.then(|| Timestamps::new(gpu, 1));
        let start = Instant::now();
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        self.encode_runs(&mut encoder, runs, timestamps.as_ref().map(|timestamps| timestamps.around(0)));
        timestamps.iter().for_each(|timestamps| timestamps.resolve(&mut encoder));
        gpu.queue.submit([encoder.finish()]);
        let by_device = match &timestamps {
            Some(timestamps) => Duration::from_secs_f64(timestamps.read(gpu).await?[0]),
            None => Duration::ZERO,
        };
        // A clock that stands still is none.
        if by_device.is_zero() {
            self.wait(gpu).await?;
            return Ok(start.elapsed());
        }
        Ok(by_device)
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

    /// Those of one dispatch, before it and after it.
    fn around(&self, dispatch: usize) -> wgpu::ComputePassTimestampWrites<'_> {
        let first = dispatch as u32 * 2;
        wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        }
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
