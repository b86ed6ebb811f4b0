//! The plan of one step: forward, and where wanted losses, backward and update.
//!
//! ```
//! use wgpu_bert::gpu::KernelFamily;
//! use wgpu_bert::model::config::BertConfig;
//! use wgpu_bert::model::{BatchShape, StepKind, StepPlan};
//!
//! let config = BertConfig::preset("tiny", 1000)?;
//! let shape = BatchShape { batch_size: 8, seq_length: 32, predictions: 5 };
//! let step = StepPlan::new(&config, shape, StepKind::gradients(true), KernelFamily::Register, 128 << 20);
//! let memory = step.plan.memory(256 << 20, 128 << 20)?;
//! println!("{} dispatches, {} bytes", step.plan.dispatches(), memory.bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::config::{Activation, BertConfig};
use super::inputs::{BatchShape, Inputs, StepWord};
use super::parameters::{Arena, ParameterTable, WeightAndBias};
use super::parts::{PartSums, Stages};
use crate::gpu::{BufferRange, Kernel, Kernels, Plan, Precision, Tensor};
use crate::ops::{
    Dropout, DropoutMask, Function, Linear, Metrics, NORM_WORDS, Operand, RECORD_WORDS, Tokens, activation,
    activation_backward, dropout, metrics,
};
use crate::optimizer::{
    Guarded, LossScaling, Norm, OptimizerOptions, Slab, Unscaled, Variable, decays, plan_loss_scale,
    plan_update,
};

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepKind {
    /// Build the pooler and the next-sentence head.
    pub next_sentence: bool,
    /// What follows the forward.
    pub task: Task,
    /// Records of the metrics ring: steps between two readings of it.
    pub records: usize,
    /// Do not keep what the layers' backward needs, but compute it again: less memory, up to a third more to compute, the
    /// same bits.
    pub recompute: bool,
    /// How activations and their gradients are stored, and what matrix products read. A step without gradients is always in
    /// f32: its results are to be read, and it reads the weights themselves.
    pub precision: Precision,
}

/// How far a step goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Task {
    /// Forward only, without dropout; the logits are the result.
    Predict,
    /// Losses too, without dropout; the logits are kept.
    Evaluate,
    /// Gradients of every parameter too; the logits become their gradient.
    Gradients,
    /// An update of every parameter too.
    Train(OptimizerOptions),
    /// The same for a batch that is done in parts, all of the plan's shape: see [`PartSums`].
    TrainInParts {
        /// The update rule.
        optimizer: OptimizerOptions,
        /// Does this device do several of the parts?
        several: bool,
    },
}

impl Task {
    /// The update rule, of a training step.
    pub fn optimizer(&self) -> Option<&OptimizerOptions> {
        match self {
            Self::Train(optimizer) | Self::TrainInParts { optimizer, .. } => Some(optimizer),
            Self::Predict | Self::Evaluate | Self::Gradients => None,
        }
    }
}

impl StepKind {
    /// Forward and backward without an update.
    pub fn gradients(next_sentence: bool) -> Self {
        Self { next_sentence, task: Task::Gradients, ..Self::predict(next_sentence) }
    }

    /// Forward only.
    pub fn predict(next_sentence: bool) -> Self {
        let precision = Precision::default();
        Self { next_sentence, task: Task::Predict, records: 1, recompute: false, precision }
    }
}

/// A step as a plan, and the tensors of it that the host writes or reads.
#[derive(Debug, Clone)]
pub struct StepPlan {
    /// The dispatches.
    pub plan: Plan,
    /// What the host uploads before every step.
    pub inputs: Inputs,
    /// Where every parameter lies.
    pub table: ParameterTable,
    /// The weights.
    pub weights: Arena,
    /// Copies of them that the matrix products read, of a step in another precision.
    pub matrices: Option<Arena>,
    /// Their gradients, unless the step has none. LAMB leaves its updates here.
    pub gradients: Option<Arena>,
    /// First and second moments, of a training step.
    pub moments: Option<[Arena; 2]>,
    /// The norm of the gradients and whether the update was left out, of a training step.
    pub norm: Option<Norm>,
    /// What the loss is scaled with, of a training step that does.
    pub loss_scaling: Option<LossScaling>,
    /// Dispatches of a layer, forward and backward; 0 backward in a step that has none.
    pub layer_dispatches: [usize; 2],
    /// What is summed over the parts of a batch, of a step that is done in parts.
    pub parts: Option<PartSums>,
    /// `[records, 8]`, see [`Metrics`].
    pub ring: Tensor,
    /// `[B·S, H]`. Valid after a step that has no backward.
    pub sequence_output: Tensor,
    /// `[B, H]`, with a next-sentence head. Valid likewise.
    pub pooled_output: Option<Tensor>,
    /// `[B·M, V]`, V padded to a multiple of 4, see [`StepPlan::without_padding`]. Valid likewise.
    pub mlm_logits: Tensor,
    /// `[B, 2]`, with a next-sentence head. Valid likewise.
    pub nsp_logits: Option<Tensor>,
    /// B, S and M.
    pub shape: BatchShape,
    /// The same step, in the same buffers, for batches whose sequences are all shorter, shortest first; of a training step.
    pub shorter: Vec<StepPlan>,
}

/// What the parts of the model share while they are put into a plan.
pub(super) struct Builder<'a> {
    pub config: &'a BertConfig,
    pub shape: BatchShape,
    /// S of the batch that dropout masks are of.
    pub whole_length: usize,
    pub table: &'a ParameterTable,
    pub inputs: &'a Inputs,
    pub weights: &'a Arena,
    /// What matrix products read of them.
    pub matrices: &'a Arena,
    /// In a step without gradients never used, and the same as the weights.
    pub gradients: &'a Arena,
    pub training: bool,
    pub precision: Precision,
    pub loss_scaling: Option<LossScaling>,
}

impl StepPlan {
    /// Plan a step over batches of `shape`, its arenas in slabs of at most `max_slab_bytes`.
    pub fn new(
        config: &BertConfig,
        shape: BatchShape,
        kind: StepKind,
        kernels: impl Into<Kernels>,
        max_slab_bytes: u64,
    ) -> Self {
        let kernels = kernels.into();
        let build = |shape: BatchShape, whole_length| {
            Self::build(config, shape, whole_length, kind, kernels, max_slab_bytes, None)
        };
        let step = build(shape, shape.seq_length);
        let shorter = match kind.task {
            Task::Train(_) => shape.shorter(),
            // Losses and hits are added up by prediction, so every part has as many.
            Task::TrainInParts { .. } => shape.shorter_with_all_predictions(),
            Task::Predict | Task::Evaluate | Task::Gradients => vec![],
        };
        let shorter = shorter.into_iter().map(|shorter| build(shorter, shape.seq_length));
        Self { shorter: shorter.filter(|shorter| shorter.plan.fits_into(&step.plan)).collect(), ..step }
    }

    /// Plan a step over the weights of another program, made for the same model, heads and slab size.
    ///
    /// # Panics
    /// When the slabs are not those of such a program: a mistake in the caller.
    pub fn sharing(
        config: &BertConfig,
        shape: BatchShape,
        kind: StepKind,
        kernels: impl Into<Kernels>,
        max_slab_bytes: u64,
        weights: &[BufferRange],
    ) -> Self {
        Self::build(config, shape, shape.seq_length, kind, kernels, max_slab_bytes, Some(weights))
    }

    /// `[B·M, V]` of what was read of the masked-LM logits.
    pub fn without_padding(&self, logits: &[f32]) -> Vec<f32> {
        let columns = self.table.parameter("cls.predictions.bias").len();
        let rows = logits.chunks_exact(columns.next_multiple_of(4));
        rows.flat_map(|row| &row[..columns]).copied().collect()
    }

    fn build(
        config: &BertConfig,
        shape: BatchShape,
        whole_length: usize,
        kind: StepKind,
        kernels: impl Into<Kernels>,
        max_slab_bytes: u64,
        shared: Option<&[BufferRange]>,
    ) -> Self {
        let mut plan = Plan::new(kernels);
        let table = ParameterTable::new(config, kind.next_sentence, max_slab_bytes);
        let inputs = Inputs::new(&mut plan, shape, config);
        let weights = match shared {
            Some(slabs) => Arena::import(&mut plan, "weights", &table, slabs),
            None => Arena::new(&mut plan, "weights", &table),
        };
        let training = kind.task == Task::Gradients || kind.task.optimizer().is_some();
        let precision = if training { kind.precision } else { Precision::F32 };
        let matrices = (precision != Precision::F32).then(|| Arena::copies(&mut plan, precision, &weights));
        let gradients = training.then(|| Arena::new(&mut plan, "gradients", &table));
        let ring = plan.persistent("metrics ring", kind.records * RECORD_WORDS);
        let unscaled = Unscaled {
            step: inputs.scalar(StepWord::Step),
            factors: [StepWord::MlmScale, StepWord::NspScale].map(|word| inputs.scalar(word)),
            rates: inputs.scalar(StepWord::LearningRate),
        };
        let optimizer = kind.task.optimizer();
        let loss_scaling = optimizer.and_then(|options| plan_loss_scale(&mut plan, options, unscaled));
        let builder = Builder {
            config,
            shape,
            whole_length,
            table: &table,
            inputs: &inputs,
            weights: &weights,
            matrices: matrices.as_ref().unwrap_or(&weights),
            gradients: gradients.as_ref().unwrap_or(&weights),
            training,
            precision,
            loss_scaling,
        };

        let embeddings = builder.embeddings(&mut plan);
        let mut layers = Vec::with_capacity(config.num_hidden_layers);
        let mut sequence_output = embeddings.output;
        let mut layer_dispatches = [0; 2];
        for layer in 0..config.num_hidden_layers {
            let before = plan.dispatches();
            layers.push(builder.layer(&mut plan, layer, sequence_output));
            sequence_output = layers[layer].output.y;
            layer_dispatches[0] = plan.dispatches() - before;
        }
        let mlm = builder.mlm_head(&mut plan, sequence_output);
        let nsp = kind.next_sentence.then(|| builder.nsp_head(&mut plan, sequence_output));

        let (mut moments, mut update, mut parts) = (None, None, None);
        if kind.task != Task::Predict {
            let mut mlm_rows = builder.mlm_loss(&mut plan, mlm.logits, training);
            let mut nsp_rows = nsp.as_ref().map(|nsp| builder.nsp_loss(&mut plan, nsp.logits, training));
            let step = inputs.scalar(StepWord::Step);
            if let (Task::TrainInParts { several, .. }, Some(gradients)) = (kind.task, &gradients) {
                let sums =
                    PartSums::new(&mut plan, &table, gradients, several, inputs.scalar(StepWord::Adds));
                mlm_rows = parts.insert(sums).rows(&mut plan, "masked-LM", mlm_rows);
                nsp_rows = match (nsp_rows, &mut parts) {
                    (Some(rows), Some(sums)) => Some(sums.rows(&mut plan, "next-sentence", rows)),
                    (rows, _) => rows,
                };
            }
            if training {
                let mut d_output = builder.mlm_head_backward(&mut plan, &mlm);
                if let Some(nsp) = &nsp {
                    builder.nsp_head_backward(&mut plan, nsp, sequence_output, d_output);
                }
                parts.stage(&mut plan, &table, &["bert.pooler.", "cls."]);
                for (layer, tape) in layers.iter().enumerate().rev() {
                    let before = plan.dispatches();
                    // The last layer's tensors are still there; those of the others end with its forward.
                    let again = kind.recompute && layer + 1 < layers.len();
                    let again = again.then(|| builder.layer(&mut plan, layer, tape.input));
                    let tape = again.as_ref().unwrap_or(tape);
                    d_output = builder.layer_backward(&mut plan, layer, tape, d_output);
                    layer_dispatches[1] = plan.dispatches() - before;
                    parts.stage(&mut plan, &table, &[&format!("bert.encoder.layer.{layer}.")]);
                }
                builder.embeddings_backward(&mut plan, &embeddings, d_output);
                parts.stage(&mut plan, &table, &["bert.embeddings."]);
            }
            if let Some(options) = optimizer {
                let arenas =
                    ["first moments", "second moments"].map(|name| Arena::new(&mut plan, name, &table));
                let (mlm_loss, nsp_loss) = (mlm_rows.row_loss, nsp_rows.map(|rows| rows.row_loss));
                let guarded = Guarded { mlm_loss, nsp_loss, step };
                let gradients = parts.as_ref().map_or(builder.gradients, |sums| &sums.gradients);
                update = Some(builder.update(&mut plan, options, gradients, &arenas, guarded));
                moments = Some(arenas);
            }
            let norm = match update {
                Some(norm) => norm.tensor,
                None => plan.constant("no gradient norm", vec![0; NORM_WORDS]),
            };
            let slot = inputs.scalar(StepWord::RingSlot);
            metrics(&mut plan, Metrics { mlm: mlm_rows, nsp: nsp_rows, norm, step, slot, ring });
        }
        if !training {
            // Keep what a caller may read to the end of the plan.
            let results = [Some(sequence_output), Some(mlm.logits)];
            let results =
                results.into_iter().chain([nsp.as_ref().map(|n| n.pooled), nsp.as_ref().map(|n| n.logits)]);
            results.flatten().for_each(|tensor| plan.keep(tensor));
        }
        Self {
            sequence_output,
            pooled_output: nsp.as_ref().map(|nsp| nsp.pooled),
            mlm_logits: mlm.logits,
            nsp_logits: nsp.map(|nsp| nsp.logits),
            plan,
            inputs,
            table,
            weights,
            matrices,
            gradients,
            moments,
            norm: update,
            loss_scaling,
            layer_dispatches,
            parts,
            ring,
            shape,
            shorter: vec![],
        }
    }

    /// The kernels of the step and of the shorter ones, each once.
    pub fn kernels(&self) -> Vec<&Kernel> {
        let mut kernels = self.plan.kernels();
        for kernel in self.shorter.iter().flat_map(|shorter| shorter.plan.kernels()) {
            if !kernels.contains(&kernel) {
                kernels.push(kernel);
            }
        }
        kernels
    }
}

impl Builder<'_> {
    pub fn weight(&self, name: &str) -> Tensor {
        self.weights.tensor(self.table, name)
    }

    /// A weight as matrix products read it.
    pub fn matrix(&self, name: &str) -> Tensor {
        self.matrices.tensor(self.table, name)
    }

    /// A linear layer's weight, likewise, and its bias.
    pub fn weight_and_bias(&self, name: &str) -> WeightAndBias {
        let weight = self.matrices.pair(self.table, name).weight;
        WeightAndBias { weight, ..self.weights.pair(self.table, name) }
    }

    /// Those of query, key and value of a layer.
    pub fn query_key_value(&self, layer: usize) -> Vec<WeightAndBias> {
        let [matrices, weights] =
            [self.matrices, self.weights].map(|arena| arena.query_key_value(self.table, layer));
        let both = matrices.into_iter().zip(weights);
        both.map(|(matrix, weight)| WeightAndBias { weight: matrix.weight, ..weight }).collect()
    }

    /// A tensor of activations, or of their gradients.
    pub fn transient(&self, plan: &mut Plan, name: &str, len: usize) -> Tensor {
        plan.transient_as(self.precision, name, len)
    }

    pub fn gradient(&self, name: &str) -> Tensor {
        self.gradients.tensor(self.table, name)
    }

    /// A linear layer by its name, into a new tensor.
    pub fn linear(
        &self,
        plan: &mut Plan,
        name: &str,
        x: Tensor,
        rows: usize,
        inputs: usize,
        outputs: usize,
    ) -> Tensor {
        let y = self.transient(plan, name, rows * outputs);
        let weights = self.weight_and_bias(name);
        let layer = Linear { rows, inputs, outputs };
        layer.forward(plan, Operand::rows(x, inputs), weights.weight, weights.bias, y);
        y
    }

    /// The gradients of a linear layer's weight and bias.
    pub fn linear_backward(&self, plan: &mut Plan, name: &str, layer: &Linear, dy: Tensor, x: Operand) {
        let gradients = self.gradients.pair(self.table, name);
        layer.weight_gradient(plan, dy, x, gradients.weight, gradients.bias);
    }

    fn hidden_function(&self) -> Function {
        match self.config.hidden_act {
            Activation::GeluTanh => Function::GeluTanh,
            Activation::GeluErf => Function::GeluErf,
            Activation::Relu => Function::Relu,
            Activation::Silu => Function::Silu,
        }
    }

    pub fn activation(&self, plan: &mut Plan, x: Tensor) -> Tensor {
        let y = self.transient(plan, "activated", x.len());
        activation(plan, self.hidden_function(), x, y);
        y
    }

    pub fn activation_backward(&self, plan: &mut Plan, x: Tensor, dy: Tensor) {
        activation_backward(plan, self.hidden_function(), x, dy);
    }

    /// What a dropout keeps; none where nothing is dropped.
    pub fn dropout_mask(&self, rate: f64, site: u32) -> Option<DropoutMask> {
        let key = [StepWord::DropoutKeyLow, StepWord::DropoutKeyHigh].map(|word| self.inputs.scalar(word));
        let part = self.inputs.scalar(StepWord::Part);
        let drops = self.training && rate > 0.0;
        let tokens = Tokens { here: self.shape.seq_length, whole: self.whole_length };
        drops.then_some(DropoutMask { rate: rate as f32, site, key, part, tokens })
    }

    /// Dropout, or its backward; the tensor itself where nothing is dropped.
    pub fn dropout(&self, plan: &mut Plan, x: Tensor, mask: Option<DropoutMask>) -> Tensor {
        let Some(mask) = mask else { return x };
        let y = self.transient(plan, "dropped", x.len());
        dropout(plan, Dropout { x, y, width: x.len() / self.shape.tokens(), mask });
        y
    }

    /// Clip and update.
    fn update(
        &self,
        plan: &mut Plan,
        options: &OptimizerOptions,
        gradients: &Arena,
        moments: &[Arena; 2],
        guarded: Guarded,
    ) -> Norm {
        let slabs: Vec<_> = (0..self.weights.slabs.len())
            .map(|slab| Slab {
                parameters: self.weights.slabs[slab],
                gradients: gradients.slabs[slab],
                first_moments: moments[0].slabs[slab],
                second_moments: moments[1].slabs[slab],
            })
            .collect();
        let variables: Vec<_> = (self.table.parameters.iter())
            .map(|p| Variable { slab: p.slab, offset: p.offset, len: p.len(), decay: decays(&p.name) })
            .collect();
        let scaled = self.loss_scaling.as_ref();
        let rates = scaled.map_or(self.inputs.scalar(StepWord::LearningRate), |scaled| scaled.rates);
        plan_update(plan, options, &slabs, &variables, rates, guarded, scaled)
    }
}
