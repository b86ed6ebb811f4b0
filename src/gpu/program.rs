//! A plan with its buffers, pipelines and bind groups: encoded again for every step, creating nothing.

use super::buffer::{OwnedBuffer, OwnedTexture};
use super::plan::{ALIGNMENT_WORDS, Command, Kind, Plan, TEXTURE_ROW_BYTES, Tensor};
use super::{Gpu, GpuError, MemoryPlan, PlannedBuffer, Precision};

/// A range of a buffer on the device.
#[derive(Debug, Clone)]
pub struct BufferRange {
    /// The buffer.
    pub buffer: wgpu::Buffer,
    /// Start in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

enum Step {
    Dispatch { pipeline: wgpu::ComputePipeline, bind_group: wgpu::BindGroup, groups: [u32; 2] },
    Clear(BufferRange),
    Copy { from: BufferRange, to: wgpu::Texture },
}

impl Step {
    /// Append what runs in no pass.
    fn encode_transfer(&self, encoder: &mut wgpu::CommandEncoder) {
        match self {
            Self::Dispatch { .. } => {}
            Self::Clear(range) => encoder.clear_buffer(&range.buffer, range.offset, Some(range.bytes)),
            Self::Copy { from, to } => encode_copy(encoder, from, to),
        }
    }
}

/// Where a storage of the plan lies.
enum Place {
    Buffer(wgpu::Buffer),
    Texture(wgpu::Texture, wgpu::TextureView),
}

impl Place {
    /// The binding of a tensor that lies here.
    fn resource(&self, tensor: &Tensor) -> wgpu::BindingResource<'_> {
        match self {
            Self::Buffer(buffer) => wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer,
                offset: tensor.offset,
                size: wgpu::BufferSize::new(tensor.bytes()),
            }),
            Self::Texture(_, view) => wgpu::BindingResource::TextureView(view),
        }
    }
}

/// A compiled [`Plan`].
pub struct Program {
    buffers: Vec<OwnedBuffer>,
    textures: Vec<OwnedTexture>,
    /// Parameters of the dispatches.
    _params: OwnedBuffer,
    /// Which of the buffers hold constants.
    constants: Vec<usize>,
    places: Vec<Place>,
    steps: Vec<Step>,
    memory: MemoryPlan,
}

impl Plan {
    /// Allocate the plan's buffers (zeroed, but for constants) and textures, and create its pipelines and bind groups.
    ///
    /// # Errors
    /// [`GpuError::TooLarge`] and [`GpuError::NoShaderF16`] before anything is allocated; [`GpuError::OutOfMemory`] or
    /// [`GpuError::Rejected`] when the device refuses a buffer or a kernel.
    pub async fn compile(&self, gpu: &Gpu) -> Result<Program, GpuError> {
        let adapter = &gpu.adapter;
        if self.kernels().iter().any(|kernel| kernel.needs_f16())
            && !adapter.precisions().contains(&Precision::F16)
        {
            return Err(GpuError::NoShaderF16 { adapter: adapter.name.clone() });
        }
        let memory = self.memory(adapter.max_buffer_size, adapter.max_binding_size)?;
        let out_of_memory = gpu.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let buffer = |planned: &PlannedBuffer| {
            let names: Vec<_> = planned.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            gpu.buffer(&names.join(","), planned.bytes, usage)
        };
        let buffers: Vec<_> = memory.buffers.iter().map(buffer).collect();
        let texture = |planned: &PlannedBuffer| gpu.texture("operands", planned.bytes);
        let textures: Vec<_> = memory.textures.iter().map(texture).collect();
        let places = self.places(&memory, |index| &buffers[index], |index| &textures[index]);
        let params = self.write_params(gpu, memory.params);
        if out_of_memory.pop().await.is_some() {
            return Err(memory.out_of_memory(&adapter.name));
        }
        let constants = self.write_constants(gpu, &memory, &buffers);
        let steps = self.steps(gpu, &places, &params);
        gpu.check()?;
        Ok(Program { buffers, textures, _params: params, constants, places, steps, memory })
    }

    /// The plan in the buffers of another one's program, which must live as long. It allocates its parameters only.
    ///
    /// # Errors
    /// As [`Plan::compile`].
    ///
    /// # Panics
    /// When it does not [fit](Plan::fits_into) there: a mistake in the caller.
    pub fn compile_within(&self, gpu: &Gpu, whole: &Program) -> Result<Program, GpuError> {
        let memory = self.memory(gpu.adapter.max_buffer_size, gpu.adapter.max_binding_size)?;
        let fits = "a plan that fits into the other";
        let within = memory.within(&whole.memory).expect(fits);
        let textures = memory.textures_within(&whole.memory).expect(fits);
        let buffer = |index: usize| &whole.buffers[within[index]];
        let places = self.places(&memory, buffer, |index| &whole.textures[textures[index]]);
        let params = self.write_params(gpu, memory.params);
        let steps = self.steps(gpu, &places, &params);
        gpu.check()?;
        let (buffers, textures, constants) = Default::default();
        Ok(Program { buffers, textures, _params: params, constants, places, steps, memory })
    }

    fn write_constants(&self, gpu: &Gpu, memory: &MemoryPlan, buffers: &[OwnedBuffer]) -> Vec<usize> {
        let write = |(storage, place): (&super::plan::Storage, &Option<usize>)| {
            let (content, index) = (storage.content.as_ref()?, (*place)?);
            gpu.queue.write_buffer(&buffers[index], 0, bytemuck::cast_slice(content));
            Some(index)
        };
        self.storages.iter().zip(&memory.place).filter_map(write).collect()
    }

    /// Where every storage lies. A transient tensor no command names has no buffer; any will do, since nothing can reach it.
    fn places<'a>(
        &self,
        memory: &MemoryPlan,
        buffer: impl Fn(usize) -> &'a OwnedBuffer,
        texture: impl Fn(usize) -> &'a OwnedTexture,
    ) -> Vec<Place> {
        let place = |(storage, place): (&super::plan::Storage, &Option<usize>)| match (&storage.kind, place) {
            (Kind::Imported(buffer), _) => Place::Buffer(buffer.clone()),
            (Kind::Texture, Some(place)) => {
                let texture = texture(*place).0.clone();
                let view = texture.create_view(&Default::default());
                Place::Texture(texture, view)
            }
            (_, place) => Place::Buffer(buffer(place.unwrap_or(0)).0.clone()),
        };
        self.storages.iter().zip(&memory.place).map(place).collect()
    }

    /// All dispatches' parameters in one uniform buffer, 256 bytes apart.
    fn write_params(&self, gpu: &Gpu, bytes: u64) -> OwnedBuffer {
        let mut words = Vec::new();
        for command in &self.commands {
            if let Command::Dispatch(dispatch) = command {
                words.extend_from_slice(&dispatch.params);
                words.resize(words.len() + ALIGNMENT_WORDS - dispatch.params.len(), 0);
            }
        }
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let buffer = gpu.buffer("params", bytes, usage);
        gpu.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&words));
        buffer
    }

    fn steps(&self, gpu: &Gpu, places: &[Place], params: &wgpu::Buffer) -> Vec<Step> {
        let mut params_offset = 0;
        let mut step = |command: &Command| match command {
            Command::Clear(tensor) => Step::Clear(range(places, tensor)),
            Command::Copy { from, to } => match &places[to.storage] {
                Place::Texture(to, _) => Step::Copy { from: range(places, from), to: to.clone() },
                Place::Buffer(_) => unreachable!("a plan copies into textures only"),
            },
            Command::Dispatch(dispatch) => {
                let pipeline = gpu.pipeline(&dispatch.kernel);
                let uniform = wgpu::BufferBinding {
                    buffer: params,
                    offset: params_offset,
                    size: wgpu::BufferSize::new(ALIGNMENT_WORDS as u64 * 4),
                };
                params_offset += ALIGNMENT_WORDS as u64 * 4;
                let mut entries = vec![wgpu::BindGroupEntry {
                    binding: 0,
                    resource: wgpu::BindingResource::Buffer(uniform),
                }];
                entries.extend(dispatch.bindings.iter().map(|(binding, tensor)| wgpu::BindGroupEntry {
                    binding: *binding,
                    resource: places[tensor.storage].resource(tensor),
                }));
                let bind_group = gpu.bind_group(&wgpu::BindGroupDescriptor {
                    label: Some(dispatch.kernel.entry),
                    layout: &pipeline.get_bind_group_layout(0),
                    entries: &entries,
                });
                Step::Dispatch { pipeline, bind_group, groups: dispatch.groups }
            }
        };
        self.commands.iter().map(&mut step).collect()
    }
}

/// Copy a tensor's texels: whole rows of the texture first, then what is left.
fn encode_copy(encoder: &mut wgpu::CommandEncoder, from: &BufferRange, to: &wgpu::Texture) {
    let texels = (from.bytes / 16) as u32;
    let (width, rows) = (to.width(), texels / to.width());
    let mut copy = |y, width, height| {
        if width == 0 || height == 0 {
            return;
        }
        let layout = wgpu::TexelCopyBufferLayout {
            offset: from.offset + u64::from(y) * TEXTURE_ROW_BYTES,
            bytes_per_row: Some(TEXTURE_ROW_BYTES as u32),
            rows_per_image: None,
        };
        let source = wgpu::TexelCopyBufferInfo { buffer: &from.buffer, layout };
        let target =
            wgpu::TexelCopyTextureInfo { origin: wgpu::Origin3d { x: 0, y, z: 0 }, ..to.as_image_copy() };
        encoder.copy_buffer_to_texture(
            source,
            target,
            wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
        );
    };
    copy(0, width, rows);
    copy(rows, texels % width, 1);
}

fn range(places: &[Place], tensor: &Tensor) -> BufferRange {
    let Place::Buffer(buffer) = &places[tensor.storage] else {
        unreachable!("a texture has no range of a buffer")
    };
    BufferRange { buffer: buffer.clone(), offset: tensor.offset, bytes: tensor.bytes() }
}

impl Program {
    /// Number of its commands.
    pub fn commands(&self) -> usize {
        self.steps.len()
    }

    /// Append the whole program to an encoder.
    pub fn encode(&self, encoder: &mut wgpu::CommandEncoder) {
        self.encode_range(encoder, 0..self.steps.len());
    }

    /// Append some of its commands to an encoder, by their [`position`](Plan::position) in the plan.
    ///
    /// # Panics
    /// When the program has not that many.
    pub fn encode_range(&self, encoder: &mut wgpu::CommandEncoder, commands: std::ops::Range<usize>) {
        let mut steps = self.steps[commands].iter().peekable();
        while let Some(step) = steps.peek() {
            if !matches!(step, Step::Dispatch { .. }) {
                step.encode_transfer(encoder);
                steps.next();
                continue;
            }
            let mut pass = encoder.begin_compute_pass(&Default::default());
            while let Some(Step::Dispatch { pipeline, bind_group, groups: [x, y] }) = steps.peek() {
                pass.set_pipeline(pipeline);
                pass.set_bind_group(0, bind_group, &[]);
                pass.dispatch_workgroups(*x, *y, 1);
                steps.next();
            }
        }
    }

    /// Append the whole program to an encoder, each dispatch in a pass of its own, with timestamps by its number.
    pub(super) fn encode_passes<'a>(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        timestamps: impl Fn(usize) -> wgpu::ComputePassTimestampWrites<'a>,
    ) {
        let mut dispatches = 0;
        for step in &self.steps {
            match step {
                Step::Dispatch { pipeline, bind_group, groups: [x, y] } => {
                    let timestamp_writes = Some(timestamps(dispatches));
                    let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
                    let mut pass = encoder.begin_compute_pass(&descriptor);
                    pass.set_pipeline(pipeline);
                    pass.set_bind_group(0, bind_group, &[]);
                    pass.dispatch_workgroups(*x, *y, 1);
                    dispatches += 1;
                }
                transfer => transfer.encode_transfer(encoder),
            }
        }
    }

    /// Append the whole program so many times, with timestamps at the start of the first pass and at the end of the last:
    /// there is one, unless something is copied or cleared between dispatches.
    pub(super) fn encode_runs(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        runs: u32,
        timestamp_writes: Option<wgpu::ComputePassTimestampWrites>,
    ) {
        let is_dispatch = |step: &&Step| matches!(step, Step::Dispatch { .. });
        let steps: Vec<_> = (0..runs).flat_map(|_| &self.steps).collect();
        let first = steps.iter().position(is_dispatch);
        let last = steps.iter().rposition(is_dispatch);
        let mut at = 0;
        for steps in steps.chunk_by(|a, b| is_dispatch(a) == is_dispatch(b)) {
            let (start, end) = (at, at + steps.len());
            at = end;
            if !is_dispatch(&steps[0]) {
                steps.iter().for_each(|step| step.encode_transfer(encoder));
                continue;
            }
            let timestamp_writes = timestamp_writes.clone().map(|writes| wgpu::ComputePassTimestampWrites {
                beginning_of_pass_write_index: writes
                    .beginning_of_pass_write_index
                    .filter(|_| first == Some(start)),
                end_of_pass_write_index: writes.end_of_pass_write_index.filter(|_| last == Some(end - 1)),
                ..writes
            });
            let is_timed = |writes: &wgpu::ComputePassTimestampWrites| {
                writes.beginning_of_pass_write_index.is_some() || writes.end_of_pass_write_index.is_some()
            };
            let timestamp_writes = timestamp_writes.filter(is_timed);
            let mut pass =
                encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
            for step in steps {
                if let Step::Dispatch { pipeline, bind_group, groups: [x, y] } = step {
                    pass.set_pipeline(pipeline);
                    pass.set_bind_group(0, bind_group, &[]);
                    pass.dispatch_workgroups(*x, *y, 1);
                }
            }
        }
    }

    /// Wait until the device has done all that was submitted: reading a word back takes that long.
    pub(super) async fn wait(&self, gpu: &Gpu) -> Result<(), GpuError> {
        let word = BufferRange { buffer: self.buffers[0].0.clone(), offset: 0, bytes: 4 };
        gpu.read(&word).await.map(drop)
    }

    /// Run the whole program once, by itself.
    pub fn run(&self, gpu: &Gpu) {
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        self.encode(&mut encoder);
        gpu.queue.submit([encoder.finish()]);
    }

    /// Where a tensor of the plan lies. Of a transient one the content is what its last user left.
    pub fn range(&self, tensor: Tensor) -> BufferRange {
        range(&self.places, &tensor)
    }

    /// The buffers as they were allocated.
    pub fn memory(&self) -> &MemoryPlan {
        &self.memory
    }

    /// Fill every buffer but the constants with a word; tests poison outputs with it.
    pub fn fill(&self, gpu: &Gpu, word: u32) {
        let written = self.buffers.iter().enumerate().filter(|(i, _)| !self.constants.contains(i));
        for (_, buffer) in written {
            gpu.queue.write_buffer(buffer, 0, bytemuck::cast_slice(&vec![word; buffer.size() as usize / 4]));
        }
    }
}
