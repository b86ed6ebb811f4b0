//! From the device to the host, without stalling the queue.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::buffer::OwnedBuffer;
use super::time::sleep;
use super::{BufferRange, Gpu, GpuError};

#[derive(Default)]
struct State {
    result: Option<Result<(), wgpu::BufferAsyncError>>,
    waker: Option<Waker>,
}

/// How long to wait for Firefox to tell what is done before it is asked. Timers may not be any finer.
const PATIENCE: Duration = Duration::from_millis(4);

/// A buffer that is being mapped. Natively somebody must poll the device for it to finish: the future does.
struct Mapping<'a> {
    gpu: &'a Gpu,
    pending: Pending,
}

/// The part of a mapping that may outlive a borrow of the device.
#[derive(Clone, Default)]
pub(super) struct Pending {
    state: Arc<Mutex<State>>,
    after: Option<wgpu::SubmissionIndex>,
}

impl Pending {
    /// Ask for a mapping of `buffer`, whose last use is in the submission `after`.
    pub(super) fn start(
        buffer: &wgpu::Buffer,
        mode: wgpu::MapMode,
        after: Option<wgpu::SubmissionIndex>,
    ) -> Self {
        let pending = Self { state: Arc::default(), after };
        let state = pending.state.clone();
        buffer.map_async(mode, .., move |result| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.result = Some(result);
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        });
        pending
    }

    /// Resolves when the buffer is mapped.
    pub(super) async fn finish(self, gpu: &Gpu) -> Result<(), GpuError> {
        let mut mapping = Mapping { gpu, pending: self };
        if !gpu.tells_when_given_work {
            return mapping.await;
        }
        loop {
            let mut patience = pin!(sleep(PATIENCE));
            let told = poll_fn(|context| match Pin::new(&mut mapping).poll(context) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending => patience.as_mut().poll(context).map(|()| None),
            });
            match told.await {
                Some(result) => return result,
                None => drop(gpu.queue.submit([])),
            }
        }
    }

    fn take(&self, context: &Context<'_>) -> Option<Result<(), wgpu::BufferAsyncError>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waker = Some(context.waker().clone());
        state.result.take()
    }
}

impl Future for Mapping<'_> {
    type Output = Result<(), GpuError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut result = self.pending.take(context);
        if result.is_none() {
            // Blocks natively until that submission is done; has no effect on the web, where the browser wakes us.
            let wait = wgpu::PollType::Wait { submission_index: self.pending.after.clone(), timeout: None };
            if let Err(error) = self.gpu.device.poll(wait) {
                return Poll::Ready(self.gpu.check().and(Err(GpuError::Lost { reason: error.to_string() })));
            }
            result = self.pending.take(context);
        }
        match result {
            None => Poll::Pending,
            Some(Ok(())) => Poll::Ready(self.gpu.check()),
            Some(Err(error)) => {
                Poll::Ready(self.gpu.check().and(Err(GpuError::Lost { reason: error.to_string() })))
            }
        }
    }
}

/// A staging buffer through which one range is read again and again.
///
/// [`Readback::copy`] goes into the encoder of the step that wrote the range, [`Readback::start`] follows its
/// submit, and [`Readback::finish`] may be awaited any time later.
pub struct Readback {
    source: BufferRange,
    staging: OwnedBuffer,
    pending: Option<Pending>,
}

impl Readback {
    /// Set up reading `source`.
    pub fn new(gpu: &Gpu, source: BufferRange) -> Self {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = gpu.buffer("readback", source.bytes, usage);
        Self { source, staging, pending: None }
    }

    /// Copy the range into the staging buffer, after what the encoder holds so far.
    pub fn copy(&self, encoder: &mut wgpu::CommandEncoder) {
        let BufferRange { buffer, offset, bytes } = &self.source;
        encoder.copy_buffer_to_buffer(buffer, *offset, &self.staging, 0, *bytes);
    }

    /// Ask for the copy. Call after the submit.
    pub fn start(&mut self, submission: wgpu::SubmissionIndex) {
        self.pending = Some(Pending::start(&self.staging, wgpu::MapMode::Read, Some(submission)));
    }

    /// Is a copy under way?
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Wait for the copy and hand over its words; nothing when none was started.
    ///
    /// # Errors
    /// When the device is lost or an error of it is pending.
    pub async fn finish(&mut self, gpu: &Gpu) -> Result<Vec<u32>, GpuError> {
        let mut words = Vec::new();
        if self.is_pending() {
            words.resize(self.source.bytes as usize / 4, 0);
            self.finish_into(gpu, &mut words).await?;
        }
        Ok(words)
    }

    /// The same, into words that are there already; they stay as they are when no copy was started.
    ///
    /// # Errors
    /// As [`Readback::finish`].
    ///
    /// # Panics
    /// When there are more or fewer of them than the range has.
    pub async fn finish_into<T: bytemuck::Pod>(
        &mut self,
        gpu: &Gpu,
        words: &mut [T],
    ) -> Result<(), GpuError> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        pending.finish(gpu).await?;
        let view = self.staging.get_mapped_range(..).map_err(|_| gpu.unmapped())?;
        bytemuck::cast_slice_mut(words).copy_from_slice(&view);
        drop(view);
        self.staging.unmap();
        Ok(())
    }
}

impl Gpu {
    /// Why a buffer that was mapped no longer is: the device that held it is gone, though nobody may have told yet.
    pub(super) fn unmapped(&self) -> GpuError {
        self.check().err().unwrap_or_else(|| GpuError::Lost { reason: "its buffers are gone".to_string() })
    }
}

/// Bytes read at a time, so that reading a large model needs little staging memory.
const CHUNK_BYTES: u64 = 64 << 20;

impl Gpu {
    /// Read a range as words, in chunks.
    ///
    /// # Errors
    /// When the device is lost or an error of it is pending.
    pub async fn read(&self, range: &BufferRange) -> Result<Vec<u32>, GpuError> {
        let mut words = Vec::with_capacity(range.bytes as usize / 4);
        let mut start = 0;
        while start < range.bytes {
            let bytes = CHUNK_BYTES.min(range.bytes - start);
            let part = BufferRange { buffer: range.buffer.clone(), offset: range.offset + start, bytes };
            let mut readback = Readback::new(self, part);
            let mut encoder = self.device.create_command_encoder(&Default::default());
            readback.copy(&mut encoder);
            readback.start(self.queue.submit([encoder.finish()]));
            words.extend(readback.finish(self).await?);
            start += bytes;
        }
        Ok(words)
    }

    /// Read a range as `f32`.
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub async fn read_f32(&self, range: &BufferRange) -> Result<Vec<f32>, GpuError> {
        Ok(self.read(range).await?.into_iter().map(f32::from_bits).collect())
    }

    /// Write words to the start of a range.
    ///
    /// # Panics
    /// When there are more words than the range holds.
    pub fn write<T: bytemuck::NoUninit>(&self, range: &BufferRange, data: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        assert!(bytes.len() as u64 <= range.bytes, "write past the end of a range");
        self.queue.write_buffer(&range.buffer, range.offset, bytes);
    }
}
