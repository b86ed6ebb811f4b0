//! The run itself: guard, device, self-test, plan, steps.

use super::evaluate::{Deal, check_held_out};
use super::gradients::{AllReduceCallback, AllReduceCallbacks};
use super::layout::Layout;
use super::ledger::Ledger;
use super::on_device::Setup;
use super::plan::check;
use super::ranks::{check_alike, tell_team};
use super::recovery::Recovery;
use super::steps::Steps;
use super::{
    Callback, Control, Event, KnownKernels, OutputBiasInit, PretrainOptions, Running, Snapshot, StepScalars,
    TrainError, Trained, dropout_key, measure_kernels,
};
use crate::checkpoint::NamedTensor;
use crate::data::{BatchLimits, Batcher, TrainingData, UnigramBaseline};
use crate::gpu::AdapterReport;
use crate::model::BatchShape;
use crate::model::config::BertConfig;
use crate::model::initializer::initial_values;
use crate::model::parameters::ParameterTable;
use crate::strategy::{Strategy, StrategyError, Team};

/// Pre-train a BERT on `data`. The strategy comes first: without one nothing else is looked at.
///
/// `on_event` hears of the start, of every step before it is submitted, and of what every `steps_per_loop` steps
/// measured, one loop late, so that the device never waits for it. Any of its answers can end the run, and while it takes
/// its time the run is paused. Through [`Running`] it can ask
/// the model or take a snapshot. With `start`, a snapshot of a run with the same options and data, the run goes on from
/// there and ends with the same bits as if it had never stopped. `custom_callbacks` are called at the reference's
/// points, in their order: see [`Callback`].
///
/// When the device is lost, the run goes on on a new one and ends with the same bits: see [`Event::DeviceLost`]. For that
/// it keeps a copy of its weights and moments in the host's memory, 12 bytes for each parameter.
///
/// ```
/// use wgpu_bert::data::{Corpus, InstanceOptions, Tokenizer, create_instances, train_vocabulary};
/// use wgpu_bert::gpu::{DeviceOptions, Precision, survey};
/// use wgpu_bert::model::config::BertConfig;
/// use wgpu_bert::optimizer::{OptimizerKind, OptimizerOptions, Schedule};
/// use wgpu_bert::strategy::{StrategyRequest, get_distribution_strategy};
/// use wgpu_bert::train::{
///     Callback, CallbackResult, Control, Distribution, Event, Logs, OutputBiasInit, PretrainOptions, Running,
///     run_bert_pretrain,
/// };
///
/// let mut corpus = Corpus::default();
/// corpus.add("a text", b"the dog sees the cat\nthe cat runs\n\na bird sings\nthe dog sleeps", false)?;
/// let tokenizer = Tokenizer::new(train_vocabulary(corpus.sentences(), 50, true)?, true);
/// let documents = corpus.encode(&tokenizer)?;
/// let instances = InstanceOptions { max_seq_length: 12, max_predictions_per_seq: 2, ..Default::default() };
/// let features = create_instances(&documents, tokenizer.vocabulary(), &instances)?;
///
/// let config = BertConfig::preset("tiny", tokenizer.vocabulary().size())?;
/// let options = PretrainOptions {
///     config: BertConfig { hidden_size: 16, num_hidden_layers: 1, intermediate_size: 32, ..config },
///     batch_size: 4,
///     optimizer: OptimizerOptions::new(OptimizerKind::AdamW),
///     schedule: Schedule { init_lr: 1e-3, end_lr: 0.0, total_steps: 30, warmup_steps: 3.0, power: 1.0 },
///     steps_per_epoch: 3,
///     num_eval_per_epoch: 1,
///     use_next_sentence_label: true,
///     steps_per_loop: 2,
///     seed: 12345,
///     recompute: false,
///     precision: Precision::default(),
///     output_bias_init: OutputBiasInit::Zeros,
///     device: DeviceOptions::default(),
///     distribution: Distribution::default(),
/// };
/// let strategy = get_distribution_strategy(StrategyRequest::Auto, &pollster::block_on(survey()), None)?;
/// /// Stops a run of many epochs early.
/// struct AtMost(u64);
/// impl Callback for AtMost {
///     fn on_epoch_end(&mut self, epoch: u64, logs: &Logs) -> CallbackResult {
///         println!("epoch {epoch} ends with a loss of {}", logs.progress.loss);
///         Ok(if epoch == self.0 { Control::Stop } else { Control::Continue })
///     }
/// }
/// let on_event = async |event, _: &mut Running<'_>| {
///     if let Event::Progress(progress) = event {
///         println!("step {}: loss {}", progress.step, progress.loss);
///     }
///     Control::Continue
/// };
/// let callbacks: &mut [&mut dyn Callback] = &mut [&mut AtMost(2)];
/// let run = run_bert_pretrain(Some(&strategy), &options, features, None, callbacks, on_event);
/// let trained = pollster::block_on(run)?;
/// assert!(trained.stopped && trained.steps == 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`TrainError::Strategy`] without a strategy; then, before anything is allocated, wrong options and data, what
/// does not fit, and a device that computes wrong numbers; later what the device says, or [`TrainError::Diverged`],
/// and [`TrainError::LostAgain`] or [`TrainError::NotReplaced`] where there is no device to go on with.
pub async fn run_bert_pretrain(
    strategy: Option<&Strategy>,
    options: &PretrainOptions,
    data: impl Into<TrainingData>,
    start: Option<&Snapshot>,
    custom_callbacks: &mut [&mut dyn Callback],
    on_event: impl AsyncFnMut(Event, &mut Running<'_>) -> Control,
) -> Result<Trained, TrainError> {
    let mut before = Vec::new();
    let tell = |event| match event {
        Event::Compiling(_) => {}
        loss => before.push(loss),
    };
    let prepared = PretrainRun::prepare(strategy, options, data, start, tell).await?;
    prepared.train_after(before, custom_callbacks, on_event).await
}

/// A run up to its first step: the two halves of [`run_bert_pretrain`], for who wants to hear of the first one too.
pub struct PretrainRun<'a> {
    running: Running<'a>,
    recovery: Recovery<'a>,
}

impl<'a> PretrainRun<'a> {
    /// Check everything, and set the device up. `tell` hears of every kernel, which can take seconds each, and where a
    /// device is lost before the first step.
    ///
    /// # Errors
    /// As [`run_bert_pretrain`], before its first step.
    pub async fn prepare(
        strategy: Option<&Strategy>,
        options: &'a PretrainOptions,
        data: impl Into<TrainingData>,
        start: Option<&Snapshot>,
        tell: impl FnMut(Event),
    ) -> Result<Self, TrainError> {
        let strategy = strategy.ok_or(StrategyError::NotGiven)?;
        let prepared = Self::prepare_on(strategy.clone(), options, data.into(), start, tell).await;
        tell_team(strategy.team.as_ref(), prepared)
    }

    async fn prepare_on(
        mut strategy: Strategy,
        options: &'a PretrainOptions,
        mut data: TrainingData,
        start: Option<&Snapshot>,
        tell: impl FnMut(Event),
    ) -> Result<Self, TrainError> {
        let shape = BatchShape {
            batch_size: options.batch_size,
            seq_length: data.seq_length(),
            predictions: data.predictions(),
        };
        check(options, shape)?;
        let mut held_out = data.take_evaluation();
        if let Some(held_out) = &mut held_out {
            check_held_out(held_out, &batch_limits(options))?;
        }
        let known = &mut KnownKernels::default();
        measure_kernels(&mut strategy, options.device, known, AdapterReport::candidates).await;
        let (Layout { parts, part, .. }, _) = Layout::new(&strategy, options, shape)?;
        let team = strategy.team.clone();
        let batch_size = options.batch_size / strategy.workers();
        if let Some(team) = &team {
            let size = format!("{shape:?} {} {parts}", data.count());
            check_alike(team, options, start, &size)?;
            data = data.for_worker(team.rank(), team.count())?;
        }
        let evaluation = held_out.as_ref().map(|held_out| {
            Deal::new(held_out, &options.config, part.batch_size, options.use_next_sentence_label)
        });
        let unigram = data.unigram_baseline(options.config.vocab_size);
        let limits = batch_limits(options);
        let mut batcher = Batcher::in_parts(data, batch_size, parts, options.seed, limits)?;
        // The first batch is made before any device is opened, so that bad data is found first.
        batcher.parts(0)?;
        let setup = Setup { strategy, options, shape, evaluation };
        let start = match start {
            Some(snapshot) => snapshot.clone(),
            None => Snapshot::start_from(options, initial_weights(options, &unigram)),
        };
        let step = start.step;
        batcher.parts(step.min(options.schedule.total_steps - 1))?;
        let mut untrained = merge(initial_weights(options, &unigram), start.weights.clone());
        let evaluated = if start.evaluated { step } else { 0 };
        let tokens = batcher.batch_tokens() * team.as_ref().map_or(1, Team::count);
        let ledger = Ledger::new(options, tokens, &start);
        let mut recovery = Recovery::new(setup, start, ledger.clone());
        let mut device = recovery.first_device(tell).await?;
        if let (Some(team), Some(mirror)) = (&team, &mut device.mirror) {
            mirror.join(&device.trainer, team)?;
        }
        recovery.write_state(&device)?;
        let trained = &device.trainer.step().table.parameters;
        untrained.retain(|tensor| trained.iter().all(|parameter| parameter.name != tensor.name));
        let running = Running {
            options,
            batcher,
            held_out,
            device,
            team,
            all_reduce_callbacks: AllReduceCallbacks::default(),
            ledger,
            untrained,
            step,
            untold: 0,
            measured: Vec::new(),
            evaluated,
            unigram_loss: unigram.cross_entropy(),
        };
        Ok(Self { running, recovery })
    }

    /// Calls functions on the gradients of an explicit all-reduce, which
    /// [`Distribution`](super::Distribution) asks for, on the host: `pre_allreduce_callbacks` in their order on those of
    /// every replica, `post_allreduce_callbacks` on their sum. The sum is clipped after all of them; with
    /// [`SeedCompat`](super::SeedCompat) every replica's gradients are before, and the sum never. Steps that are done again
    /// after a loss of the device are passed through them again. Where the loss is scaled, all callbacks see gradients
    /// without the scale. It is put back on behind them, so what they leave must be finite times the scale, too.
    ///
    /// ```
    /// use wgpu_bert::train::{AllReduceCallback, Control, PretrainRun, TrainError, Trained};
    ///
    /// /// Trains all but the embeddings.
    /// async fn train(run: PretrainRun<'_>) -> Result<Trained, TrainError> {
    ///     let freeze: AllReduceCallback<'_> = Box::new(|gradients| {
    ///         let frozen = gradients.iter_mut().filter(|gradient| gradient.name.starts_with("bert.embeddings."));
    ///         frozen.for_each(|gradient| gradient.data.fill(0.0));
    ///         Ok(())
    ///     });
    ///     let run = run.with_allreduce_callbacks(vec![], vec![freeze])?;
    ///     run.train(&mut [], async |_, _| Control::Continue).await
    /// }
    /// ```
    ///
    /// # Errors
    /// [`TrainError::ImplicitAllReduce`] where the run was not asked for an explicit one.
    pub fn with_allreduce_callbacks(
        mut self,
        pre_allreduce_callbacks: Vec<AllReduceCallback<'a>>,
        post_allreduce_callbacks: Vec<AllReduceCallback<'a>>,
    ) -> Result<Self, TrainError> {
        if !self.running.options.distribution.explicit_allreduce {
            return Err(TrainError::ImplicitAllReduce);
        }
        self.running.all_reduce_callbacks =
            AllReduceCallbacks { pre: pre_allreduce_callbacks, post: post_allreduce_callbacks };
        Ok(self)
    }

    /// Train; see [`run_bert_pretrain`].
    ///
    /// # Errors
    /// What the device says, or [`TrainError::Diverged`].
    pub async fn train(
        self,
        custom_callbacks: &mut [&mut dyn Callback],
        on_event: impl AsyncFnMut(Event, &mut Running<'_>) -> Control,
    ) -> Result<Trained, TrainError> {
        self.train_after(Vec::new(), custom_callbacks, on_event).await
    }

    /// Train, and tell first what was not told yet.
    async fn train_after(
        self,
        before: Vec<Event>,
        custom_callbacks: &mut [&mut dyn Callback],
        on_event: impl AsyncFnMut(Event, &mut Running<'_>) -> Control,
    ) -> Result<Trained, TrainError> {
        let Self { mut running, mut recovery } = self;
        running.ledger.clock.start();
        let steps = Steps::new(custom_callbacks, on_event, running.options.schedule.total_steps);
        let trained = steps.run(before, &mut running, &mut recovery).await;
        tell_team(running.team.as_ref(), trained)
    }
}

pub(super) fn batch_limits(options: &PretrainOptions) -> BatchLimits {
    let BertConfig { vocab_size, type_vocab_size, max_position_embeddings, .. } = options.config;
    BatchLimits { vocab_size, type_vocab_size, max_position_embeddings }
}

/// Everything but the batch of a step that writes its metrics to a slot of the ring.
pub(super) fn step_scalars(options: &PretrainOptions, step: u64, ring_slot: u32) -> StepScalars {
    StepScalars {
        step,
        ring_slot,
        dropout_key: dropout_key(options.seed, step),
        rates: options.optimizer.step_words(&options.schedule, step),
    }
}

fn initial_weights(options: &PretrainOptions, unigram: &UnigramBaseline) -> Vec<NamedTensor> {
    let mut tensors = initial_tensors(options);
    if options.output_bias_init == OutputBiasInit::Unigram {
        for tensor in tensors.iter_mut().filter(|t| t.name == "cls.predictions.bias") {
            tensor.data = unigram.log_frequencies();
        }
    }
    tensors
}

/// The weights as the seed makes them, whatever the data.
pub(super) fn initial_tensors(options: &PretrainOptions) -> Vec<NamedTensor> {
    let table = ParameterTable::new(&options.config, true, u64::MAX);
    let values = initial_values(&table, options.config.initializer_range, options.seed);
    table
        .parameters
        .into_iter()
        .zip(values)
        .map(|(parameter, data)| NamedTensor { name: parameter.name, shape: parameter.shape, data })
        .collect()
}

/// The trained tensors, and where there is none the one it started from.
pub(super) fn merge(start: Vec<NamedTensor>, mut trained: Vec<NamedTensor>) -> Vec<NamedTensor> {
    let pick = |tensor: NamedTensor| match trained.iter_mut().find(|t| t.name == tensor.name) {
        Some(trained) => {
            std::mem::replace(trained, NamedTensor { name: String::new(), shape: vec![], data: vec![] })
        }
        None => tensor,
    };
    start.into_iter().map(pick).collect()
}
