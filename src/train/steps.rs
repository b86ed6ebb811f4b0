//! The steps of a run: loop by loop, with all that is told and called between them.

use web_time::Instant;

use super::evaluate::{Evaluator, Sums};
use super::ranks::{before_step, compare, meet};
use super::recovery::Recovery;
use super::run::step_scalars;
use super::{
    Callback, CallbackPoint, Control, Evaluation, Event, Logs, Progress, Running, Share, TrainError, Trained,
};

/// Does the steps of a run, and tells of them once, though some are done again after a loss of the device.
pub(super) struct Steps<'c, 'd, F> {
    callbacks: &'c mut [&'d mut dyn Callback],
    on_event: F,
    /// Steps after which the run ends.
    end: u64,
    /// Steps after which this process wants it to end; the others of several are told before the next step.
    wanted_end: u64,
    /// Is it the only one?
    is_alone: bool,
    /// Steps that were done when the device was lost. There may be a checkpoint of them, so the run does not end before.
    reached: u64,
    /// The last progress told.
    last: Option<Progress>,
    /// The last evaluation told.
    evaluation: Option<Evaluation>,
    /// The last point called: after how many steps, where among their points, and of which callback.
    called: Option<(u64, u8, usize)>,
}

impl<'c, 'd, F: AsyncFnMut(Event, &mut Running<'_>) -> Control> Steps<'c, 'd, F> {
    /// Of a run of `end` steps.
    pub fn new(callbacks: &'c mut [&'d mut dyn Callback], on_event: F, end: u64) -> Self {
        Self {
            callbacks,
            on_event,
            end,
            wanted_end: end,
            is_alone: true,
            reached: 0,
            last: None,
            evaluation: None,
            called: None,
        }
    }

    /// All that are left, on as many devices as it takes. What happened `before` is told first.
    pub async fn run<'a>(
        mut self,
        before: Vec<Event>,
        running: &mut Running<'a>,
        recovery: &mut Recovery<'a>,
    ) -> Result<Trained, TrainError> {
        let first = running.step;
        self.is_alone = running.team.is_none();
        for event in before {
            self.tell(event, running, first).await;
        }
        let started = running.started();
        self.tell(Event::Started(started), running, first).await;
        loop {
            match self.rest(running, recovery).await {
                Err(mut error) => {
                    for trainer in running.trainers() {
                        error = error.or_loss_of(trainer.gpu()).await;
                    }
                    // Others have done steps that this one would do again.
                    match error.is_loss() && self.is_alone {
                        true => self.replace_device(error, running, recovery).await?,
                        false => return Err(error),
                    }
                }
                done => return done,
            }
        }
    }

    async fn replace_device<'a>(
        &mut self,
        error: TrainError,
        running: &mut Running<'a>,
        recovery: &mut Recovery<'a>,
    ) -> Result<(), TrainError> {
        self.reached = self.reached.max(running.step);
        let step = recovery.step();
        let told = self.last.map_or(step, |progress| progress.step);
        let tell = async |event| self.tell(event, running, step).await;
        let device = recovery.another_device(told, error, tell).await?;
        recovery.restore(running, device)?;
        let (first, started) = (running.step, running.started());
        self.tell(Event::DeviceReplaced(started), running, first).await;
        Ok(())
    }

    /// The steps that are left, as long as the device lives.
    async fn rest<'a>(
        &mut self,
        running: &mut Running<'a>,
        recovery: &mut Recovery<'a>,
    ) -> Result<Trained, TrainError> {
        let first = running.step;
        self.call(CallbackPoint::TrainBegin, running, first).await?;
        // One that was broken off, or not asked for before.
        if running.owes_evaluation() {
            self.evaluate(running, first).await?;
        }
        while running.step < self.end {
            self.one_loop(running).await?;
            if running.step < self.end && self.is_alone {
                recovery.keep(running).await?;
            }
        }
        let (steps, total) = (running.step, running.options.schedule.total_steps);
        if running.untold > 0 {
            self.tell_progress(running, steps).await?;
        }
        self.tell(Event::Ended, running, steps).await;
        let tensors = running.model().await?;
        self.call(CallbackPoint::TrainEnd, running, steps).await?;
        if let Some(team) = &running.team {
            meet(team, running.trainer(), &[]).await?;
            compare(team, running.trainer()).await?;
        }
        let replicas = running.device.mirror.as_ref().map(|mirror| mirror.report(running.trainer()));
        Ok(Trained { tensors, steps, stopped: steps < total, last: self.last, replicas })
    }

    async fn one_loop(&mut self, running: &mut Running<'_>) -> Result<(), TrainError> {
        let options = running.options;
        let first = running.step;
        let mut end = options.end_of_loop(first).min(self.end);
        if let Some(epoch) = options.epoch_beginning_at(first) {
            self.call(CallbackPoint::EpochBegin { epoch }, running, end).await?;
        }
        self.call(CallbackPoint::BatchBegin { step: first }, running, end).await?;
        while running.step < end {
            let step = running.step;
            let parts = running.batcher.parts(step)?;
            self.tell(Event::Step(step), running, step + 1).await;
            let mut whole = Share::first_of(&parts);
            if let Some(team) = &running.team {
                let all = before_step(team, running.trainer(), self.wanted_end, &whole, parts.len()).await?;
                (self.end, whole) = (all.0.max(step + 1), all.1);
            }
            end = end.min(self.end);
            let scalars = step_scalars(options, step, (step - first) as u32);
            if step + 1 == end && running.untold > 0 {
                // The loop before is long done: telling of it now stalls nothing.
                self.tell_progress(running, end).await?;
            }
            running.step += 1;
            let Running { device, all_reduce_callbacks: callbacks, .. } = &mut *running;
            device.submit(&parts, &whole, &scalars, step + 1 == end, callbacks).await?;
        }
        running.untold = (end - first) as usize;
        running.ledger.submitted_loop();
        if running.owes_evaluation() || !self.callbacks.is_empty() {
            let progress = self.tell_progress(running, end).await?;
            if running.owes_evaluation() {
                self.evaluate(running, end).await?;
            }
            let evaluation = self.evaluation.filter(|_| running.evaluated == end);
            let logs = Logs { progress, evaluation };
            self.call(CallbackPoint::BatchEnd { step: end - 1, logs }, running, end).await?;
            if let Some(epoch) = options.epoch_ending_at(end) {
                self.call(CallbackPoint::EpochEnd { epoch, logs }, running, end).await?;
            }
        }
        Ok(())
    }

    /// Where the listener wants the run to stop, it ends after `end` steps.
    async fn tell(&mut self, event: Event, running: &mut Running<'_>, end: u64) {
        if (self.on_event)(event, running).await == Control::Stop {
            self.stop_after(end);
        }
    }

    fn stop_after(&mut self, end: u64) {
        self.wanted_end = self.wanted_end.min(end.max(self.reached));
        if self.is_alone {
            self.end = self.wanted_end;
        }
    }

    /// Calls all callbacks in their order, whatever each answers. Where one wants the run to stop, it ends after `end` steps.
    async fn call(
        &mut self,
        point: CallbackPoint,
        running: &mut Running<'_>,
        end: u64,
    ) -> Result<(), TrainError> {
        let mut stops = false;
        for (index, callback) in self.callbacks.iter_mut().enumerate() {
            let place = Some((running.step, point.place(), index));
            if place <= self.called {
                continue;
            }
            let failed = |source| TrainError::Callback { method: point.name(), source };
            if callback.call(point, running).await.map_err(failed)? == Control::Stop {
                stops = true;
            }
            self.called = place;
        }
        if stops {
            self.stop_after(end);
        }
        Ok(())
    }

    /// Tells what the last loop measured.
    async fn tell_progress(&mut self, running: &mut Running<'_>, end: u64) -> Result<Progress, TrainError> {
        let progress = running.progress().await?;
        let suspicion = running.ledger.suspicion.take();
        if self.last.is_none_or(|last| last.step < progress.step) {
            self.last = Some(progress);
            self.tell(Event::Progress(progress), running, end).await;
            if let Some(suspicion) = suspicion {
                self.tell(Event::Suspicious(suspicion), running, end).await;
            }
        }
        Ok(progress)
    }

    /// Evaluates the model as it is now, unless the listener breaks it off. The time is none of the run.
    async fn evaluate(&mut self, running: &mut Running<'_>, end: u64) -> Result<(), TrainError> {
        let Some(mut evaluator) = running.device.evaluator.take() else { return Ok(()) };
        let start = Instant::now();
        let evaluation = self.evaluate_by(&mut evaluator, running, end).await?;
        running.device.evaluator = Some(evaluator);
        running.ledger.clock.paused_since(start);
        if let Some(evaluation) = evaluation {
            running.evaluated = running.step;
            self.evaluation = Some(evaluation);
            self.tell(Event::Evaluated(evaluation), running, end).await;
        }
        Ok(())
    }

    async fn evaluate_by(
        &mut self,
        evaluator: &mut Evaluator,
        running: &mut Running<'_>,
        end: u64,
    ) -> Result<Option<Evaluation>, TrainError> {
        let mut sums = Sums::default();
        for batch in 0..evaluator.batches() {
            let event = Event::Evaluating { done: sums.instances, instances: evaluator.instances() };
            if (self.on_event)(event, running).await == Control::Stop {
                self.stop_after(end);
                return Ok(None);
            }
            let Some(held_out) = &mut running.held_out else { return Ok(None) };
            let examples = held_out.in_order(evaluator.instances_of(batch))?;
            evaluator.measure(&examples, &mut sums).await?;
        }
        // The weights are those of the last update, which no loss followed that would have told.
        let means = evaluator.means(&sums).map_err(|_| TrainError::BadWeights { step: running.step });
        means.map(Some)
    }
}
