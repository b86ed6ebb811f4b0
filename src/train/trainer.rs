//! A step plan on a device: write weights, submit steps, read results.

use std::ops::Range;
use std::sync::Arc;

use super::pack::{Share, StepScalars, pack};
use super::{RunMemory, TrainError};
use crate::checkpoint::NamedTensor;
use crate::data::Batch;
use crate::gpu::{Gpu, GpuError, Program, Readback, Tensor, UploadRing};
use crate::model::config::BertConfig;
use crate::model::parameters::Arena;
use crate::model::{BatchShape, PartSums, StepKind, StepPlan};
use crate::ops::{NORM_WORDS, RECORD_WORDS};
use crate::optimizer::Culprit;

/// Uploads under way at once: the host prepares a batch while the device works on the one before.
pub(super) const UPLOADS: usize = 2;

/// Numbers of one step, as the device computed them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepMetrics {
    /// Number of the step, from 0.
    pub step: u32,
    /// Mean cross entropy of the masked tokens, nats; 0 when there are none.
    pub lm_example_loss: f32,
    /// Share of masked tokens guessed right.
    pub masked_lm_accuracy: f32,
    /// Mean cross entropy of the next-sentence task, nats; 0 without it.
    pub next_sentence_loss: f32,
    /// Share of its labels guessed right; 0 without it.
    pub next_sentence_accuracy: f32,
    /// Global norm of the gradients before clipping; 0 in a step without an update.
    pub grad_norm: f32,
    /// Why the update was left out, if it was.
    pub culprit: Option<Culprit>,
    /// What the loss of the next step is scaled with, where it is.
    pub loss_scale: Option<f32>,
}

/// A compiled step with its buffers.
pub struct Trainer {
    gpu: Arc<Gpu>,
    step: StepPlan,
    program: Program,
    /// Programs of the step's shorter plans.
    shorter: Vec<Program>,
    /// Which of them is for the batch that was uploaded last; none where the whole is.
    length: Option<usize>,
    upload: UploadRing,
    readback: Readback,
}

impl Trainer {
    /// Plan, allocate and compile a step on a device. Programs of one device share its compiled kernels.
    ///
    /// # Errors
    /// [`GpuError::TooLarge`] before anything is allocated, or what the device says.
    pub async fn new(
        gpu: Arc<Gpu>,
        config: &BertConfig,
        shape: BatchShape,
        kind: StepKind,
    ) -> Result<Self, GpuError> {
        let step = StepPlan::new(config, shape, kind, gpu.kernels, gpu.adapter.max_slab());
        Self::compile(gpu, step).await
    }

    /// Another step over this one's weights as they are at any time: no copy is made. It must have the same heads.
    ///
    /// # Errors
    /// As [`Trainer::new`].
    pub async fn sharing(
        &self,
        config: &BertConfig,
        shape: BatchShape,
        kind: StepKind,
    ) -> Result<Self, GpuError> {
        let slabs: Vec<_> = self.step.weights.slabs.iter().map(|slab| self.program.range(*slab)).collect();
        let step =
            StepPlan::sharing(config, shape, kind, self.gpu.kernels, self.gpu.adapter.max_slab(), &slabs);
        Self::compile(self.gpu.clone(), step).await
    }

    /// Allocate and compile a step that was planned for the device's adapter and kernels.
    pub(super) async fn compile(gpu: Arc<Gpu>, step: StepPlan) -> Result<Self, GpuError> {
        let program = step.plan.compile(&gpu).await?;
        let shorter = step.shorter.iter().map(|shorter| shorter.plan.compile_within(&gpu, &program));
        let shorter = shorter.collect::<Result<_, _>>()?;
        let upload = UploadRing::new(&gpu, program.range(step.inputs.all), UPLOADS);
        let readback = Readback::new(&gpu, program.range(step.ring));
        Ok(Self { gpu, step, program, shorter, length: None, upload, readback })
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The plan it runs.
    pub fn step(&self) -> &StepPlan {
        &self.step
    }

    /// Its buffers by their purpose. Weights of another trainer are not among them.
    pub fn memory(&self) -> RunMemory {
        RunMemory::new(&self.step, self.program.memory())
    }

    /// The plan's buffers, which are those of the shorter plans, too.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Are all parameters of the plan among the tensors, in their shapes?
    ///
    /// # Errors
    /// [`TrainError::OtherModel`] names the first that is not.
    pub fn check_fit(&self, tensors: &[NamedTensor]) -> Result<(), TrainError> {
        for parameter in &self.step.table.parameters {
            let found = tensors.iter().find(|tensor| tensor.name == parameter.name);
            if found.is_none_or(|tensor| tensor.shape != parameter.shape) {
                return Err(TrainError::OtherModel { parameter: parameter.name.clone() });
            }
        }
        Ok(())
    }

    /// Write the weights. Tensors the plan has no parameter for are passed over: a plan without a next-sentence
    /// head needs not all of a model's.
    ///
    /// # Panics
    /// When a parameter is missing or has another shape: ask [`Trainer::check_fit`] first.
    pub fn write_weights(&self, tensors: &[NamedTensor]) {
        self.write_arena(&self.step.weights, tensors);
    }

    /// Write an arena of the plan, likewise.
    ///
    /// # Panics
    /// As [`Trainer::write_weights`].
    pub fn write_arena(&self, arena: &Arena, tensors: &[NamedTensor]) {
        for parameter in &self.step.table.parameters {
            let tensor = tensors.iter().find(|t| t.name == parameter.name);
            let tensor = tensor.unwrap_or_else(|| panic!("no tensor {}", parameter.name));
            assert_eq!(tensor.shape, parameter.shape, "shape of {}", parameter.name);
            // Not every parameter starts where a binding could, but a write can go anywhere.
            let mut range = self.program.range(arena.slabs[parameter.slab]);
            range.offset += parameter.offset as u64 * 4;
            range.bytes = parameter.len() as u64 * 4;
            self.gpu.write(&range, &tensor.data);
        }
    }

    /// Upload a batch and submit one step. Waits only when the device is more than two steps behind.
    ///
    /// With `read_metrics` the ring is copied after the step; [`Trainer::metrics`] then waits for it.
    ///
    /// # Errors
    /// What the device says of earlier steps.
    pub async fn submit(
        &mut self,
        batch: &Batch,
        scalars: &StepScalars,
        read_metrics: bool,
    ) -> Result<(), GpuError> {
        self.submit_parts(std::slice::from_ref(batch), scalars, read_metrics).await
    }

    /// The same for a batch that comes in equal parts, each of the plan's shape.
    ///
    /// # Errors
    /// As [`Trainer::submit`].
    ///
    /// # Panics
    /// When there is not one part for a plan that does not sum over parts: a mistake in the caller.
    pub async fn submit_parts(
        &mut self,
        parts: &[Batch],
        scalars: &StepScalars,
        read_metrics: bool,
    ) -> Result<(), GpuError> {
        let first = Share::first_of(parts);
        assert!(self.step.parts.is_some() || parts.len() == 1, "a plan for a whole batch");
        for (part, batch) in parts.iter().enumerate() {
            let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
            self.upload(&mut encoder, batch, &Share { part, adds: part > 0, ..first }, scalars).await?;
            let is_last = part + 1 == parts.len();
            let end = if is_last { self.program.commands() } else { self.update_at() };
            self.encode(&mut encoder, 0..end);
            if read_metrics && is_last {
                self.readback.copy(&mut encoder);
            }
            let submission = self.gpu.queue.submit([encoder.finish()]);
            self.upload.submitted(submission.clone());
            if read_metrics && is_last {
                self.readback.start(submission);
            }
        }
        self.gpu.check()
    }

    /// Upload a part of a batch.
    pub(super) async fn upload_part(
        &mut self,
        batch: &Batch,
        share: &Share,
        scalars: &StepScalars,
    ) -> Result<(), GpuError> {
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        self.upload(&mut encoder, batch, share, scalars).await?;
        let submission = self.gpu.queue.submit([encoder.finish()]);
        self.upload.submitted(submission);
        Ok(())
    }

    /// Which of the shorter steps does for a batch, if any.
    fn length_of(&self, batch: &Batch) -> Option<usize> {
        let (tokens, predictions) = batch.used();
        let fits = |shape: &BatchShape| tokens <= shape.seq_length && predictions <= shape.predictions;
        self.step.shorter.iter().position(|shorter| fits(&shorter.shape))
    }

    /// What a step on a batch computes: less padding than the batch has, where its sequences are short.
    pub fn shape_of(&self, batch: &Batch) -> BatchShape {
        self.length_of(batch).map_or(self.step.shape, |length| self.step.shorter[length].shape)
    }

    async fn upload(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        batch: &Batch,
        share: &Share,
        scalars: &StepScalars,
    ) -> Result<(), GpuError> {
        self.length = self.length_of(batch);
        let words = match self.length.map(|length| &self.step.shorter[length]) {
            None => pack(&self.step.inputs, batch, share, scalars),
            Some(StepPlan { inputs, shape, .. }) => {
                pack(inputs, &batch.trimmed(shape.seq_length, shape.predictions), share, scalars)
            }
        };
        self.upload.upload(&self.gpu, encoder, &words).await
    }

    /// Encodes some of the plan's commands, or those of the shorter plan that come to the same: it may have more or fewer
    /// of them between two ends of stages.
    fn encode(&self, encoder: &mut wgpu::CommandEncoder, commands: Range<usize>) {
        let Some(length) = self.length else { return self.program.encode_range(encoder, commands) };
        let ends = |step: &StepPlan| {
            let stages = step.parts.iter().flat_map(|sums| &sums.stages).map(|stage| stage.end);
            std::iter::once(0).chain(stages).chain([step.plan.position()]).collect::<Vec<_>>()
        };
        let (whole, shorter) = (ends(&self.step), ends(&self.step.shorter[length]));
        let there = |end| shorter[whole.iter().position(|at| *at == end).expect("the end of a stage")];
        self.shorter[length].encode_range(encoder, there(commands.start)..there(commands.end));
    }

    /// Submit some of the plan's commands, and what is to follow them.
    pub(super) fn submit_range(
        &mut self,
        commands: Range<usize>,
        then: impl FnOnce(&mut wgpu::CommandEncoder),
    ) -> wgpu::SubmissionIndex {
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        self.encode(&mut encoder, commands);
        then(&mut encoder);
        self.gpu.queue.submit([encoder.finish()])
    }

    /// Where the update begins in the plan of a batch in parts.
    pub(super) fn update_at(&self) -> usize {
        self.step.parts.as_ref().map_or(0, PartSums::update)
    }

    /// Submit the update of a batch in parts, with the ring copied after it if it is to be read.
    pub(super) fn submit_update(&mut self, read_metrics: bool) {
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        self.encode(&mut encoder, self.update_at()..self.program.commands());
        if read_metrics {
            self.readback.copy(&mut encoder);
        }
        let submission = self.gpu.queue.submit([encoder.finish()]);
        if read_metrics {
            self.readback.start(submission);
        }
    }

    /// The records of the last step that asked for them; none when no reading is under way.
    ///
    /// # Errors
    /// What the device says.
    pub async fn metrics(&mut self) -> Result<Vec<StepMetrics>, GpuError> {
        let words = self.readback.finish(&self.gpu).await?;
        let record = |record: &[u32]| {
            let value = |word: usize| f32::from_bits(record[word]);
            StepMetrics {
                step: record[5],
                lm_example_loss: value(0),
                masked_lm_accuracy: value(1),
                next_sentence_loss: value(2),
                next_sentence_accuracy: value(3),
                grad_norm: value(4),
                culprit: Culprit::from_word(record[6]),
                loss_scale: Some(value(7)).filter(|scale| *scale != 0.0),
            }
        };
        Ok(words.chunks_exact(RECORD_WORDS).map(record).collect())
    }

    /// The step, from 0, after which nothing was updated any more, and why; `None` while all is well, and where such
    /// steps are skipped.
    ///
    /// # Errors
    /// What the device says.
    pub async fn halted(&self) -> Result<Option<(u64, Culprit)>, GpuError> {
        let Some(norm) = self.step.norm.filter(|norm| norm.halts) else { return Ok(None) };
        let [.., why, step, _] = self.read_words::<NORM_WORDS>(norm.tensor).await?;
        Ok(Culprit::from_word(why).map(|culprit| (step.into(), culprit)))
    }

    /// Read an arena: weights, gradients or moments, by parameter.
    ///
    /// # Errors
    /// What the device says.
    pub async fn read_arena(&self, arena: &Arena) -> Result<Vec<NamedTensor>, GpuError> {
        let mut slabs = Vec::with_capacity(arena.slabs.len());
        for slab in &arena.slabs {
            slabs.push(self.read(*slab).await?);
        }
        let tensor = |p: &crate::model::parameters::Parameter| NamedTensor {
            name: p.name.clone(),
            shape: p.shape.clone(),
            data: slabs[p.slab][p.offset..][..p.len()].to_vec(),
        };
        Ok(self.step.table.parameters.iter().map(tensor).collect())
    }

    /// Read a small tensor of the plan, whose words need not be floats.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Panics
    /// When it has another length: a mistake in the caller.
    pub(super) async fn read_words<const N: usize>(&self, tensor: Tensor) -> Result<[u32; N], GpuError> {
        let words = self.gpu.read(&self.program.range(tensor)).await?;
        Ok(words.try_into().expect("as many words as the tensor has"))
    }

    /// Read a tensor of the plan.
    ///
    /// # Errors
    /// What the device says.
    pub async fn read(&self, tensor: Tensor) -> Result<Vec<f32>, GpuError> {
        self.gpu.read_f32(&self.program.range(tensor)).await
    }
}
