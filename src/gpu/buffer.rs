//! Buffers and textures with an owner.

use std::ops::Deref;

/// A buffer that is destroyed with its owner. Browsers keep the memory of one that is merely dropped until they next
/// collect garbage, which may be never while a run makes none.
pub(super) struct OwnedBuffer(pub wgpu::Buffer);

impl Deref for OwnedBuffer {
    type Target = wgpu::Buffer;

    fn deref(&self) -> &wgpu::Buffer {
        &self.0
    }
}

impl Drop for OwnedBuffer {
    fn drop(&mut self) {
        self.0.destroy();
    }
}

/// A texture likewise.
pub(super) struct OwnedTexture(pub wgpu::Texture);

impl Drop for OwnedTexture {
    fn drop(&mut self) {
        self.0.destroy();
    }
}
