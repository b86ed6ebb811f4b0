//! A run: text and options in, events out, a model at the end.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use wasm_bindgen::prelude::*;

use super::callback::PageCallbacks;
use super::event::RunEvent;
use super::guesses::{ExampleView, GuessesView};
use super::model::Model;
use super::options::from_js;
use super::prepare::prepare;
use super::resolve::{Resolved, VocabularySource, resolve};
use super::survey::derive;
use super::{Rejection, kernels, to_js};
use crate::data::{Tokenizer, TrainingData};
use crate::strategy::Strategy;
use crate::train::{
    Callback, Compiling, Control, Event, PretrainRun, Running, Snapshot, TrainError, Trained,
};

#[wasm_bindgen]
extern "C" {
    /// The worker's side of a run: it passes events on, decides what is next, and keeps snapshots.
    pub type Conductor;

    /// What to train: a [`Setup`].
    #[wasm_bindgen(method, catch)]
    async fn prepare(this: &Conductor) -> Result<JsValue, JsValue>;

    /// What the run learns from: a [`Reading`](super::text::Reading).
    #[wasm_bindgen(method, catch)]
    pub async fn source(this: &Conductor) -> Result<JsValue, JsValue>;

    /// What it is evaluated on: likewise, or `undefined`.
    #[wasm_bindgen(method, catch)]
    pub async fn evaluation(this: &Conductor) -> Result<JsValue, JsValue>;

    /// Everything is known to be right; this is the vocabulary.
    #[wasm_bindgen(method, catch)]
    async fn begin(this: &Conductor, vocabulary: &str) -> Result<JsValue, JsValue>;

    /// Where to go on: a [`Kept`], or `undefined`.
    #[wasm_bindgen(method)]
    fn kept(this: &Conductor) -> JsValue;

    #[wasm_bindgen(method)]
    fn tell(this: &Conductor, event: JsValue);

    /// The [`Command`] after so many steps.
    #[wasm_bindgen(method, catch)]
    fn next(this: &Conductor, step: f64) -> Result<JsValue, JsValue>;

    /// Calls the page's callbacks at a point.
    #[wasm_bindgen(method, js_name = callBack)]
    pub fn call_back(this: &Conductor, point: JsValue);

    /// A question, or `Continue` or `Stop` once the callbacks have answered.
    #[wasm_bindgen(method, catch, js_name = nextInCallback)]
    pub async fn next_in_callback(this: &Conductor) -> Result<JsValue, JsValue>;

    /// Resolves when there may be another command.
    #[wasm_bindgen(method, catch)]
    async fn resumed(this: &Conductor) -> Result<JsValue, JsValue>;

    /// What the last command came to.
    #[wasm_bindgen(method)]
    fn answer(this: &Conductor, value: JsValue);

    /// Why the last command could not be done.
    #[wasm_bindgen(method)]
    fn refuse(this: &Conductor, rejection: JsValue);
}

/// What a run is made of.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Setup {
    #[serde(with = "serde_wasm_bindgen::preserve")]
    options: JsValue,
    /// Of a saved run.
    vocabulary: Option<String>,
    /// Whether the page wants to be called at certain points.
    has_callbacks: bool,
}

/// A snapshot in the worker's hands.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    step: u64,
    elapsed_seconds: f64,
    /// Was the evaluation made that is due after this step?
    #[serde(default)]
    evaluated: bool,
    bytes: ByteBuf,
}

/// What a run does next.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Command {
    Continue,
    /// Until [`Conductor::resumed`].
    Pause,
    Stop,
    /// To be answered with a [`Kept`].
    Snapshot,
    /// To be answered with guesses.
    FillMask {
        text: String,
        top_k: usize,
    },
    /// To be answered with examples.
    Examples {
        count: usize,
    },
}

/// `runBertPretrain(strategy, conductor)`: trains, and resolves to the model.
///
/// # Errors
/// A `StrategyError` when `strategy`, a strategy's kind, is none or cannot be had; an `OptionError` that names the
/// option; a `TextError`; a `RecordsError`; a `DeviceError`; a `DivergedError`.
#[wasm_bindgen(js_name = runBertPretrain)]
pub async fn run_bert_pretrain(strategy: Option<String>, conductor: Conductor) -> Result<Model, JsValue> {
    let strategy = strategy.as_deref();
    let mut strategy = derive(strategy).await.map_err(Rejection::from)?;
    let setup: Setup = serde_wasm_bindgen::from_value(conductor.prepare().await?)?;
    let mut run = resolve(from_js(setup.options)?)?;
    if let Some(text) = setup.vocabulary {
        run.vocabulary = VocabularySource::Given(text);
    }
    let (tokenizer, data) = prepare(&mut run, &conductor).await?;
    conductor.begin(&tokenizer.vocabulary().to_text()).await?;
    kernels::measure(&mut strategy, run.options.device).await;

    let callbacks =
        setup.has_callbacks.then_some(PageCallbacks { conductor: &conductor, tokenizer: &tokenizer });
    let trained = train(&strategy, &run, data, &tokenizer, &conductor, callbacks).await?;
    let Trained { tensors, steps, stopped, .. } = trained;
    tell(&conductor, &RunEvent::Done { step: steps, stopped })?;
    Ok(Model::new(run.into_folder(tensors, &tokenizer), tokenizer))
}

/// Trains from the snapshot that the worker has, if any.
async fn train(
    strategy: &Strategy,
    run: &Resolved,
    data: TrainingData,
    tokenizer: &Tokenizer,
    conductor: &Conductor,
    mut callbacks: Option<PageCallbacks<'_>>,
) -> Result<Trained, JsValue> {
    let start = match kept(conductor)? {
        Some(Kept { step, elapsed_seconds, evaluated, bytes }) => {
            let elapsed = Duration::try_from_secs_f64(elapsed_seconds).unwrap_or_default();
            let snapshot = Snapshot::from_safetensors(step, elapsed, &bytes, "the snapshot");
            Some(Snapshot { evaluated, ..snapshot.map_err(Rejection::from)? })
        }
        None => None,
    };
    let total_steps = run.options.schedule.total_steps;
    let mut failed = None;
    let on_event = async |event: Event, running: &mut Running<'_>| {
        let notice = match &event {
            Event::Started(started) => started.notice.clone(),
            Event::Progress(progress) => progress.left_out_notice(),
            _ => None,
        };
        let told = match &event {
            Event::Started(started) | Event::DeviceReplaced(started) => {
                Some(RunEvent::started(started.clone(), running.step(), total_steps))
            }
            Event::Progress(progress) => Some((*progress).into()),
            Event::Step(_) => None,
            Event::Suspicious(suspicion) => Some(RunEvent::Notice { message: suspicion.to_string() }),
            Event::DeviceLost { step, message } => Some(RunEvent::device_lost(*step, message)),
            Event::DeviceAwaited { why, after } => Some(RunEvent::device_awaited(why, *after)),
            Event::Evaluating { done, instances } => {
                Some(RunEvent::Evaluating { step: running.step(), done: *done, instances: *instances })
            }
            Event::Evaluated(evaluation) => {
                Some(RunEvent::Evaluation { step: running.step(), evaluation: (*evaluation).into() })
            }
            Event::Compiling(_) | Event::Ended => return Control::Continue,
        };
        let has_device = !matches!(event, Event::DeviceLost { .. } | Event::DeviceAwaited { .. });
        let obeyed = async {
            notice.map_or(Ok(()), |message| tell(conductor, &RunEvent::Notice { message }))?;
            told.map_or(Ok(()), |told| tell(conductor, &told))?;
            match has_device {
                true => obey(conductor, running, tokenizer).await,
                // Whatever is asked can be answered on the next device.
                false => Ok(Control::Continue),
            }
        };
        match obeyed.await {
            Ok(control) => control,
            Err(error) => {
                failed = Some(error);
                Control::Stop
            }
        }
    };
    let preparing = |event| {
        let told = match event {
            Event::Compiling(Compiling { done, total }) => RunEvent::Compiling { done, total },
            Event::DeviceLost { step, message } => RunEvent::device_lost(step, &message),
            Event::DeviceAwaited { why, after } => RunEvent::device_awaited(&why, after),
            _ => return,
        };
        // It cannot fail for numbers and texts.
        let _ = tell(conductor, &told);
    };
    let prepared = PretrainRun::prepare(Some(strategy), &run.options, data, start.as_ref(), preparing).await;
    drop(start);
    let mut callbacks: Vec<_> =
        callbacks.iter_mut().map(|callbacks| callbacks as &mut dyn Callback).collect();
    let run = prepared.map_err(Rejection::from)?;
    let trained = run.train(&mut callbacks, on_event).await.map_err(Rejection::from)?;
    failed.map_or(Ok(trained), Err)
}

fn kept(conductor: &Conductor) -> Result<Option<Kept>, JsValue> {
    Ok(serde_wasm_bindgen::from_value(conductor.kept())?)
}

pub fn tell(conductor: &Conductor, event: &RunEvent) -> Result<(), JsValue> {
    conductor.tell(to_js(event)?);
    Ok(())
}

/// Does what comes next, until that is to go on or to stop.
async fn obey(
    conductor: &Conductor,
    running: &mut Running<'_>,
    tokenizer: &Tokenizer,
) -> Result<Control, JsValue> {
    loop {
        let command = conductor.next(running.step() as f64)?;
        match serde_wasm_bindgen::from_value(command)? {
            Command::Continue => return Ok(Control::Continue),
            Command::Stop => return Ok(Control::Stop),
            Command::Pause => match running.pause(conductor.resumed()).await {
                Ok(resumed) => drop(resumed?),
                // The run looks for another device, and rests there.
                Err(error) if error.is_loss() => return Ok(Control::Continue),
                Err(error) => return Err(Rejection::from(error).into()),
            },
            question => answer(conductor, running, tokenizer, question).await,
        }
    }
}

/// Answers a question.
pub async fn answer(
    conductor: &Conductor,
    running: &mut Running<'_>,
    tokenizer: &Tokenizer,
    question: Command,
) {
    let answer = match question {
        Command::Continue | Command::Stop | Command::Pause => return,
        Command::Snapshot => snapshot(running).await,
        Command::FillMask { text, top_k } => fill_mask(running, tokenizer, &text, top_k).await,
        Command::Examples { count } => examples(running, tokenizer, count).await,
    };
    match answer {
        Ok(value) => conductor.answer(value),
        Err(rejection) => conductor.refuse(rejection.into()),
    }
}

async fn snapshot(running: &Running<'_>) -> Result<JsValue, Rejection> {
    let snapshot = running.snapshot().await?;
    let (step, elapsed_seconds, evaluated) =
        (snapshot.step, snapshot.elapsed.as_secs_f64(), snapshot.evaluated);
    if !snapshot.is_finite() {
        return Err(TrainError::BadWeights { step }.into());
    }
    // As `Uint8Array`, which `to_js` does not make.
    let kept = Kept { step, elapsed_seconds, evaluated, bytes: ByteBuf::from(snapshot.into_safetensors()?) };
    Ok(kept.serialize(&serde_wasm_bindgen::Serializer::new())?)
}

async fn fill_mask(
    running: &mut Running<'_>,
    tokenizer: &Tokenizer,
    text: &str,
    top_k: usize,
) -> Result<JsValue, Rejection> {
    let guesses = running.fill_masks(tokenizer, &[text], top_k).await?;
    let views: Vec<GuessesView> = guesses.into_iter().map(Into::into).collect();
    to_js(&views.first())
}

async fn examples(
    running: &mut Running<'_>,
    tokenizer: &Tokenizer,
    count: usize,
) -> Result<JsValue, Rejection> {
    to_js(&ExampleView::all(running.examples(tokenizer.vocabulary(), count).await?))
}
