//! The run itself: guard, device, self-test, plan, steps.

use std::sync::Arc;
use std::time::Duration;
use web_time::Instant;

use super::callback::call_all;
use super::evaluate::{Evaluator, Sums, check_held_out};
use super::ledger::Ledger;
use super::plan::{Wanted, check};
use super::predict::LivePredictor;
use super::self_test::{bundled, check_device};
use super::trainer::Trainer;
use super::{
    Callback, CallbackPoint, Compiling, Control, Evaluation, Event, Logs, OutputBiasInit, PretrainOptions,
    Progress, Running, Snapshot, Started, StepScalars, TrainError, Trained, dropout_key,
};
use crate::checkpoint::NamedTensor;
use crate::data::{BatchLimits, Batcher, TrainingData, UnigramBaseline};
use crate::model::BatchShape;
use crate::model::config::BertConfig;
use crate::model::initializer::initial_values;
use crate::model::parameters::ParameterTable;
use crate::strategy::{Strategy, StrategyError};

/// Pre-train a BERT on `data`. The strategy comes first: without one nothing else is looked at.
///
/// `on_event` hears of the start, of every step before it is submitted, and of what every `steps_per_loop` steps
/// measured, one loop late, so that the device never waits for it. Any of its answers can end the run, and while it takes
/// its time the run is paused. Through [`Running`] it can ask
/// the model or take a snapshot. With `start`, a snapshot of a run with the same options and data, the run goes on from
/// there and ends with the same bits as if it had never stopped. `custom_callbacks` are called at the reference's
/// points, in their order: see [`Callback`].
///
/// ```
/// use wgpu_bert::data::{Corpus, InstanceOptions, Tokenizer, create_instances, train_vocabulary};
/// use wgpu_bert::gpu::{DeviceOptions, survey};
/// use wgpu_bert::model::config::BertConfig;
/// use wgpu_bert::optimizer::{OptimizerKind, OptimizerOptions, Schedule};
/// use wgpu_bert::strategy::{StrategyRequest, get_distribution_strategy};
/// use wgpu_bert::train::{
///     Callback, CallbackResult, Control, Event, Logs, OutputBiasInit, PretrainOptions, Running,
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
///     output_bias_init: OutputBiasInit::Zeros,
///     device: DeviceOptions::default(),
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
/// does not fit, and a device that computes wrong numbers; later what the device says, or [`TrainError::Diverged`].
pub async fn run_bert_pretrain(
    strategy: Option<&Strategy>,
    options: &PretrainOptions,
    data: impl Into<TrainingData>,
    start: Option<&Snapshot>,
    custom_callbacks: &mut [&mut dyn Callback],
    on_event: impl AsyncFnMut(Event, &mut Running<'_>) -> Control,
) -> Result<Trained, TrainError> {
    let run = PretrainRun::prepare(strategy, options, data, start, |_| {}).await?;
    run.train(custom_callbacks, on_event).await
}

/// A run up to its first step: the two halves of [`run_bert_pretrain`], for who wants to hear of the first one too.
pub struct PretrainRun<'a> {
    options: &'a PretrainOptions,
    batcher: Batcher,
    trainer: Trainer,
    evaluator: Option<Evaluator<'static>>,
    /// Steps done, and the time they took.
    step: u64,
    elapsed: Duration,
    untrained: Vec<NamedTensor>,
    unigram_loss: f64,
}

impl<'a> PretrainRun<'a> {
    /// Check everything, and set the device up. `compiling` hears of every kernel, which can take seconds each.
    ///
    /// # Errors
    /// As [`run_bert_pretrain`], before its first step.
    pub async fn prepare(
        strategy: Option<&Strategy>,
        options: &'a PretrainOptions,
        data: impl Into<TrainingData>,
        start: Option<&Snapshot>,
        mut compiling: impl FnMut(Compiling),
    ) -> Result<Self, TrainError> {
        let strategy = strategy.ok_or(StrategyError::NotGiven)?;
        let mut data = data.into();
        let shape = BatchShape {
            batch_size: options.batch_size,
            seq_length: data.seq_length(),
            predictions: data.predictions(),
        };
        check(options, shape)?;
        let held_out = data.take_evaluation();
        if let Some(features) = &held_out {
            check_held_out(features, &batch_limits(options))?;
        }
        let unigram = data.unigram_baseline(options.config.vocab_size);
        let mut batcher = Batcher::new(data, options.batch_size, options.seed, batch_limits(options))?;
        // The first batch is made before any device is opened, so that bad data is found first.
        batcher.batch(0)?;
        let plan = Wanted::training(&strategy.adapter, options).fitting(&strategy.adapter, shape)?;
        let gpu = Arc::new(strategy.open(options.device).await?);
        let kernels = plan.plan.kernels();
        let total = kernels.len();
        gpu.compile(&kernels, |done| compiling(Compiling { done, total })).await?;
        check_device(&gpu, &bundled()).await?;
        let trainer = Trainer::compile(gpu, plan).await?;
        let mut initial = initial_weights(options, &unigram);
        trainer.write_weights(&initial);
        let (mut step, mut elapsed) = (0, Duration::ZERO);
        if let Some(snapshot) = start {
            step = snapshot.restore(&trainer)?;
            elapsed = snapshot.elapsed;
            initial = merge(initial, snapshot.weights.clone());
        }
        let trained = &trainer.step().table.parameters;
        initial.retain(|tensor| trained.iter().all(|parameter| parameter.name != tensor.name));
        let untrained = initial;
        batcher.batch(step.min(options.schedule.total_steps - 1))?;
        let evaluator = match held_out {
            None => None,
            Some(features) => {
                let (config, next_sentence) = (&options.config, options.use_next_sentence_label);
                Some(
                    Evaluator::of_training(&trainer, features, config, options.batch_size, next_sentence)
                        .await?,
                )
            }
        };
        let unigram_loss = unigram.cross_entropy();
        Ok(Self { options, batcher, trainer, evaluator, step, elapsed, untrained, unigram_loss })
    }

    /// Train; see [`run_bert_pretrain`].
    ///
    /// # Errors
    /// What the device says, or [`TrainError::Diverged`].
    pub async fn train(
        self,
        custom_callbacks: &mut [&mut dyn Callback],
        mut on_event: impl AsyncFnMut(Event, &mut Running<'_>) -> Control,
    ) -> Result<Trained, TrainError> {
        let Self { options, batcher, trainer, mut evaluator, step, elapsed, untrained, unigram_loss } = self;
        let evaluation_bytes = evaluator.as_ref().map_or(0, Evaluator::bytes);
        let started = Started {
            adapter: trainer.gpu().adapter.name.clone(),
            parameters: trainer.step().table.elements(),
            bytes: trainer.program().memory().bytes() + evaluation_bytes,
            dispatches: trainer.step().plan.dispatches(),
            uniform_loss: (options.config.vocab_size as f64).ln(),
            unigram_loss,
        };
        let ledger = Ledger::new(options, batcher.batch_tokens(), step, elapsed);
        let predictor = LivePredictor::new(options.use_next_sentence_label);
        let mut running = Running { options, batcher, trainer, ledger, predictor, untrained, step };
        let total = options.schedule.total_steps;
        let mut stopped = stops(&mut on_event, Event::Started(started), &mut running).await;
        stopped |= call_all(custom_callbacks, CallbackPoint::TrainBegin, &mut running).await?;
        let mut last = None;
        // Steps of a loop whose measurements are on their way.
        let mut untold = 0;
        while running.step < total && !stopped {
            let first = running.step;
            if let Some(epoch) = options.epoch_beginning_at(first) {
                stopped |=
                    call_all(custom_callbacks, CallbackPoint::EpochBegin { epoch }, &mut running).await?;
            }
            stopped |=
                call_all(custom_callbacks, CallbackPoint::BatchBegin { step: first }, &mut running).await?;
            let mut end = options.end_of_loop(first);
            while running.step < end {
                let step = running.step;
                let batch = running.batcher.batch(step)?;
                if stops(&mut on_event, Event::Step(step), &mut running).await {
                    stopped = true;
                    end = step + 1;
                }
                let scalars = step_scalars(options, step, (step - first) as u32);
                if step + 1 == end && untold > 0 {
                    // The loop before is long done: telling of it now stalls nothing.
                    let (progress, stop) =
                        tell_progress(&mut on_event, &mut running, std::mem::take(&mut untold)).await?;
                    last = Some(progress);
                    stopped |= stop;
                }
                running.step += 1;
                running.trainer.submit(&batch, &scalars, step + 1 == end).await?;
            }
            untold = (end - first) as usize;
            running.ledger.submitted_loop();
            let evaluator = evaluator.as_mut().filter(|_| options.evaluates_after(end));
            if evaluator.is_some() || !custom_callbacks.is_empty() {
                let (progress, stop) =
                    tell_progress(&mut on_event, &mut running, std::mem::take(&mut untold)).await?;
                last = Some(progress);
                stopped |= stop;
                let mut logs = Logs { progress, evaluation: None };
                if let Some(evaluator) = evaluator {
                    logs.evaluation = evaluate_now(evaluator, &mut running, &mut on_event).await?;
                    stopped |= match logs.evaluation {
                        Some(evaluation) => {
                            stops(&mut on_event, Event::Evaluated(evaluation), &mut running).await
                        }
                        None => true,
                    };
                }
                let batch_end = CallbackPoint::BatchEnd { step: end - 1, logs };
                stopped |= call_all(custom_callbacks, batch_end, &mut running).await?;
                if let Some(epoch) = options.epoch_ending_at(end) {
                    let epoch_end = CallbackPoint::EpochEnd { epoch, logs };
                    stopped |= call_all(custom_callbacks, epoch_end, &mut running).await?;
                }
            }
        }
        if untold > 0 {
            last = Some(tell_progress(&mut on_event, &mut running, untold).await?.0);
        }
        stops(&mut on_event, Event::Ended, &mut running).await;
        let tensors = running.model().await?;
        call_all(custom_callbacks, CallbackPoint::TrainEnd, &mut running).await?;
        let steps = running.step;
        Ok(Trained { tensors, steps, stopped: steps < total, last })
    }
}

/// Does the listener want the run to stop?
async fn stops(
    on_event: &mut impl AsyncFnMut(Event, &mut Running<'_>) -> Control,
    event: Event,
    running: &mut Running<'_>,
) -> bool {
    on_event(event, running).await == Control::Stop
}

/// Tells what a loop of `steps` measured, and whether the listener wants the run to stop.
async fn tell_progress(
    on_event: &mut impl AsyncFnMut(Event, &mut Running<'_>) -> Control,
    running: &mut Running<'_>,
    steps: usize,
) -> Result<(Progress, bool), TrainError> {
    let progress = running.progress(steps).await?;
    let mut stop = stops(on_event, Event::Progress(progress), running).await;
    if let Some(suspicion) = running.ledger.suspicion.take() {
        stop |= stops(on_event, Event::Suspicious(suspicion), running).await;
    }
    Ok((progress, stop))
}

/// The model as it is now; `None` where the listener broke it off. The time is none of the run.
async fn evaluate_now(
    evaluator: &mut Evaluator<'_>,
    running: &mut Running<'_>,
    on_event: &mut impl AsyncFnMut(Event, &mut Running<'_>) -> Control,
) -> Result<Option<Evaluation>, TrainError> {
    let start = Instant::now();
    let mut sums = Sums::default();
    let mut broken_off = false;
    for batch in 0..evaluator.batches() {
        let event = Event::Evaluating { done: sums.instances, instances: evaluator.instances() };
        broken_off = stops(on_event, event, running).await;
        if broken_off {
            break;
        }
        evaluator.measure(batch, &mut sums).await?;
    }
    running.ledger.clock.paused_since(start);
    if broken_off {
        return Ok(None);
    }
    // The weights are those of the last update, which no loss followed that would have told.
    let means = evaluator.means(&sums).map_err(|_| TrainError::BadWeights { step: running.step });
    means.map(Some)
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
