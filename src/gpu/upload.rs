//! From the host to the device, once a step, through buffers made once.

use super::buffer::OwnedBuffer;
use super::readback::Pending;
use super::{BufferRange, Gpu, GpuError};

/// Mappable buffers used in turn. A buffer is mapped again when the device has read it, so waiting for the
/// next one also keeps the host from running more than `depth` steps ahead of the device.
pub struct UploadRing {
    target: BufferRange,
    slots: Vec<(OwnedBuffer, Option<Pending>)>,
    next: usize,
}

impl UploadRing {
    /// A ring of `depth` buffers for uploads into `target`.
    pub fn new(gpu: &Gpu, target: BufferRange, depth: usize) -> Self {
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let slot = |_| {
            let buffer = gpu.buffer("upload", target.bytes, usage);
            let pending = Pending::start(&buffer, wgpu::MapMode::Write, None);
            (buffer, Some(pending))
        };
        let slots = (0..depth).map(slot).collect();
        Self { target, slots, next: 0 }
    }

    /// Write `words` to the next buffer and encode its copy to the start of the target.
    ///
    /// # Errors
    /// When the device is lost or an error of it is pending.
    ///
    /// # Panics
    /// When there are more words than the target holds.
    pub async fn upload(
        &mut self,
        gpu: &Gpu,
        encoder: &mut wgpu::CommandEncoder,
        words: &[u32],
    ) -> Result<(), GpuError> {
        let (buffer, pending) = &mut self.slots[self.next];
        if let Some(pending) = pending.take() {
            pending.finish(gpu).await?;
        }
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let range = buffer.get_mapped_range_mut(..bytes.len() as u64);
        let mut view = range.map_err(|_| gpu.unmapped())?;
        view.copy_from_slice(bytes);
        drop(view);
        buffer.unmap();
        encoder.copy_buffer_to_buffer(buffer, 0, &self.target.buffer, self.target.offset, bytes.len() as u64);
        Ok(())
    }

    /// Call after the submit of the encoder the upload went into.
    pub fn submitted(&mut self, submission: wgpu::SubmissionIndex) {
        let (buffer, pending) = &mut self.slots[self.next];
        *pending = Some(Pending::start(buffer, wgpu::MapMode::Write, Some(submission)));
        self.next = (self.next + 1) % self.slots.len();
    }
}
