//! Several replicas of a model, each on a device of its own, that take the same steps.
//!
//! Every replica computes the gradients of its part of a batch. The host adds them up and gives all replicas the sum, of
//! which each makes the same update. Two makes of adapters round differently in their last digits; there the first replica
//! makes the update, and the others take its weights.

use std::time::Duration;

use web_time::Instant;

use super::gradients::AllReduceCallbacks;
use super::ranks::meet;
use super::reduction::Reduction;
use super::{Distribution, Share, StepScalars, TrainError, Trainer};
use crate::checkpoint::NamedTensor;
use crate::data::Batch;
use crate::gpu::{Gpu, GpuError, Kernels, Readback, Tensor, UploadRing};
use crate::model::Stage;
use crate::optimizer::LossScaleState;
use crate::strategy::{Team, WorkersError, packs};

/// What the replicas of a run took.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaReport {
    /// For each replica its adapter, and the mean time from the start of a step until its gradients were there.
    pub replicas: Vec<(String, Duration)>,
    /// Share of the time of all steps in which gradients were added up and sent back.
    pub reduction_share: f64,
    /// Bytes of gradients that a replica sends in a step; it gets as many back.
    pub bytes: u64,
    /// Bytes of them that this process sends to others in a step, where there are several; it gets as many from them.
    pub bytes_between_workers: u64,
}

impl ReplicaReport {
    /// The replica that the others wait for.
    pub fn slowest(&self) -> usize {
        let times = self.replicas.iter().map(|(_, time)| *time).enumerate();
        times.max_by_key(|(index, time)| (*time, std::cmp::Reverse(*index))).map_or(0, |(index, _)| index)
    }
}

/// All replicas but the first, and what goes between all of them.
pub(super) struct Mirror {
    others: Vec<Trainer>,
    links: Vec<Link>,
    reduction: Reduction,
    /// The other processes, each with as many replicas.
    team: Option<Team>,
    /// The way of weights from the first replica to the others, where only it makes updates.
    weights: Option<Broadcast>,
    clocks: Clocks,
}

/// Of one replica.
struct Link {
    packs: Vec<Stage>,
    /// One for each tensor of a pack, in their order.
    down: Vec<Readback>,
    up: Vec<UploadRing>,
}

struct Broadcast {
    down: Vec<Readback>,
    /// For each replica that takes them.
    up: Vec<Vec<UploadRing>>,
}

/// How long things took.
#[derive(Default)]
struct Clocks {
    steps: u32,
    all: Duration,
    reduction: Duration,
    /// For each replica, in steps in which it was waited for first: how many, and how long.
    gradients: Vec<(u32, Duration)>,
}

impl Mirror {
    /// Of replicas of one model, of whose step every one was made for batches in parts.
    pub fn new(
        first: &Trainer,
        others: Vec<Trainer>,
        distribution: &Distribution,
        clip_norm: Option<f64>,
    ) -> Self {
        let bytes_per_pack = distribution.all_reduce.bytes_per_pack;
        let trainers = || std::iter::once(first).chain(&others);
        let links: Vec<_> = trainers().map(|trainer| Link::new(trainer, bytes_per_pack)).collect();
        let tensors: Vec<_> = links[0].tensors().copied().collect();
        let reduction = Reduction::new(first, links.len(), &tensors, distribution, clip_norm);
        let weights = others.iter().any(|other| make(first.gpu()) != make(other.gpu()));
        let weights = weights.then(|| Broadcast::new(first, others.iter()));
        let clocks = Clocks { gradients: vec![Default::default(); links.len()], ..Clocks::default() };
        Self { others, links, reduction, team: None, weights, clocks }
    }

    /// Has the replicas of other processes, too. Where they are not all alike, the very first makes the updates that count.
    ///
    /// # Errors
    /// When any of them has failed.
    pub fn join(&mut self, first: &Trainer, team: &Team) -> Result<(), WorkersError> {
        let trainers: Vec<_> = std::iter::once(first).chain(&self.others).collect();
        let makes: Vec<_> = trainers.iter().map(|trainer| make(trainer.gpu())).collect();
        let all = team.meet(format!("{makes:?}").as_bytes())?;
        if self.weights.is_some() || all.iter().any(|other| *other != all[0]) {
            let targets = &trainers[usize::from(team.rank() == 0)..];
            self.weights = Some(Broadcast::new(first, targets.iter().copied()));
        }
        self.team = Some(team.clone());
        Ok(())
    }

    /// The other replicas.
    pub fn others(&self) -> &[Trainer] {
        &self.others
    }

    /// One step on all parts of a batch, the replicas' one after another, with the metrics in the first one's ring.
    pub async fn submit(
        &mut self,
        first: &mut Trainer,
        parts: &[Batch],
        whole: &Share,
        scalars: &StepScalars,
        read_metrics: bool,
        callbacks: &mut AllReduceCallbacks<'_>,
    ) -> Result<(), TrainError> {
        let start = Instant::now();
        let Self { others, links, reduction, team, weights, clocks } = self;
        let mut trainers: Vec<_> = std::iter::once(first).chain(others).collect();
        let each = parts.len() / trainers.len();
        let shares = reduction.shares(parts, whole, trainers.len());
        for round in 0..each {
            for (replica, trainer) in trainers.iter_mut().enumerate() {
                let part = replica * each + round;
                let share = Share { part: whole.part + part, adds: round > 0, ..shares[replica] };
                trainer.upload_part(&parts[part], &share, scalars).await?;
                match round + 1 == each {
                    true => links[replica].send(trainer),
                    false => _ = trainer.submit_range(0..trainer.update_at(), |_| {}),
                }
            }
        }
        // Another one is waited for first in every step, which tells how long it took.
        let count = trainers.len();
        let awaited = clocks.steps as usize % count;
        for replica in (0..count).map(|step| (awaited + step) % count) {
            for (tensor, down) in links[replica].down.iter_mut().enumerate() {
                down.finish_into(trainers[replica].gpu(), &mut reduction.tensors[tensor][replica]).await?;
            }
            if replica == awaited {
                let (steps, time) = &mut clocks.gradients[replica];
                (*steps, *time) = (*steps + 1, *time + start.elapsed());
            }
        }
        if let Some(team) = team {
            meet(team, trainers[0], &[]).await?;
        }
        let reducing = Instant::now();
        // All replicas have the same, as it follows the sums.
        let loss_scale = match trainers[0].step().loss_scaling {
            Some(scaling) if !callbacks.is_empty() => {
                LossScaleState::from_words(trainers[0].read_words(scaling.state).await?).scale
            }
            _ => 1.0,
        };
        reduction.sum(&shares, loss_scale, team.as_ref(), callbacks)?;
        let updated = if weights.is_some() { 1 } else { count };
        for (link, trainer) in links.iter_mut().zip(&mut trainers).take(updated) {
            let sums = reduction.tensors.iter().map(|tensor| &tensor[0][..]);
            send_up(trainer, &mut link.up, sums).await?;
        }
        clocks.reduction += reducing.elapsed();
        for (replica, trainer) in trainers.iter_mut().enumerate().take(updated) {
            trainer.submit_update(read_metrics && replica == 0);
        }
        if let Some(Broadcast { down, up }) = weights {
            let is_source = team.as_ref().is_none_or(|team| team.rank() == 0);
            let first = &mut *trainers[0];
            if is_source {
                let submission =
                    first.submit_range(0..0, |encoder| down.iter().for_each(|d| d.copy(encoder)));
                down.iter_mut().for_each(|down| down.start(submission.clone()));
            }
            for (slab, down) in down.iter_mut().enumerate() {
                let mut words = if is_source { down.finish(trainers[0].gpu()).await? } else { Vec::new() };
                if let Some(team) = team {
                    words =
                        bytemuck::pod_collect_to_vec(&team.broadcast(bytemuck::cast_slice(&words).to_vec())?);
                }
                let targets = trainers.iter_mut().skip(is_source.into());
                for (target, up) in targets.zip(up.iter_mut()) {
                    let weights = bytemuck::cast_slice(&words);
                    send_up(target, &mut up[slab..slab + 1], std::iter::once(weights)).await?;
                }
            }
        }
        trainers.iter().try_for_each(|trainer| trainer.gpu().check())?;
        (clocks.steps, clocks.all) = (clocks.steps + 1, clocks.all + start.elapsed());
        Ok(())
    }

    /// Have all replicas the weights of the first?
    ///
    /// # Errors
    /// [`TrainError::Drift`] names one that has not.
    pub async fn check(&self, first: &Trainer, weights: &[NamedTensor]) -> Result<(), TrainError> {
        for (index, other) in self.others.iter().enumerate() {
            let theirs = other.read_arena(&other.step().weights).await?;
            for tensor in &theirs {
                let bits = |tensor: &NamedTensor| tensor.data.iter().map(|w| w.to_bits()).collect::<Vec<_>>();
                if weights.iter().any(|own| own.name == tensor.name && bits(own) != bits(tensor)) {
                    let name =
                        |replica, trainer: &Trainer| format!("{replica} ({})", trainer.gpu().adapter.name);
                    let replicas = [name(0, first), name(index + 1, other)];
                    return Err(TrainError::Drift { replicas, parameter: tensor.name.clone() });
                }
            }
        }
        Ok(())
    }

    /// What the steps took so far.
    pub fn report(&self, first: &Trainer) -> ReplicaReport {
        let Clocks { all, reduction, gradients, .. } = &self.clocks;
        let trainers = std::iter::once(first).chain(&self.others);
        let replicas = trainers.zip(gradients).map(|(trainer, (steps, time))| {
            (trainer.gpu().adapter.name.clone(), time.checked_div(*steps).unwrap_or_default())
        });
        let lens = || self.links[0].tensors().map(|tensor| tensor.len() as u64);
        let workers = self.team.as_ref().map_or(1, |team| team.count() as u64);
        ReplicaReport {
            replicas: replicas.collect(),
            reduction_share: reduction.as_secs_f64() / all.as_secs_f64().max(1e-9),
            bytes: lens().map(|len| len * 4).sum(),
            bytes_between_workers: lens().map(|len| 2 * (workers - 1) * len.div_ceil(workers) * 4).sum(),
        }
    }
}

impl Broadcast {
    fn new<'a>(first: &Trainer, targets: impl Iterator<Item = &'a Trainer>) -> Self {
        Self {
            down: readbacks(first, &updated(first)),
            up: targets.map(|target| uploads(target, &updated(target))).collect(),
        }
    }
}

impl Link {
    fn new(trainer: &Trainer, bytes_per_pack: usize) -> Self {
        let stages = trainer.step().parts.as_ref().map_or(&[][..], |sums| &sums.stages);
        let packs = packs(stages, bytes_per_pack);
        let tensors: Vec<_> = packs.iter().flat_map(|pack| &pack.sums).copied().collect();
        Self { down: readbacks(trainer, &tensors), up: uploads(trainer, &tensors), packs }
    }

    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.packs.iter().flat_map(|pack| &pack.sums)
    }

    /// Submits the last part of a replica, pack by pack: each is on its way while the next is computed.
    fn send(&mut self, trainer: &mut Trainer) {
        let (mut start, mut down) = (0, &mut self.down[..]);
        for pack in &self.packs {
            let (these, rest) = down.split_at_mut(pack.sums.len());
            let copies = |encoder: &mut wgpu::CommandEncoder| these.iter().for_each(|d| d.copy(encoder));
            let submission = trainer.submit_range(start..pack.end, copies);
            these.iter_mut().for_each(|down| down.start(submission.clone()));
            (start, down) = (pack.end, rest);
        }
    }
}

/// What an update leaves for the next step's gradients.
fn updated(trainer: &Trainer) -> Vec<Tensor> {
    let step = trainer.step();
    let loss_scale = step.loss_scaling.iter().map(|scaling| &scaling.state);
    step.weights.slabs.iter().chain(loss_scale).copied().collect()
}

/// What decides how a device rounds.
fn make(gpu: &Gpu) -> (&str, &str, &str, Kernels) {
    (&gpu.adapter.name, &gpu.adapter.backend, &gpu.adapter.driver, gpu.kernels)
}

fn readbacks(trainer: &Trainer, tensors: &[Tensor]) -> Vec<Readback> {
    tensors.iter().map(|tensor| Readback::new(trainer.gpu(), trainer.program().range(*tensor))).collect()
}

fn uploads(trainer: &Trainer, tensors: &[Tensor]) -> Vec<UploadRing> {
    let ring = |tensor: &Tensor| UploadRing::new(trainer.gpu(), trainer.program().range(*tensor), 1);
    tensors.iter().map(ring).collect()
}

/// Writes values to where the rings lead.
async fn send_up<'a>(
    trainer: &mut Trainer,
    up: &mut [UploadRing],
    values: impl Iterator<Item = &'a [f32]>,
) -> Result<(), GpuError> {
    let gpu = trainer.gpu();
    let mut encoder = gpu.device.create_command_encoder(&Default::default());
    for (ring, values) in up.iter_mut().zip(values) {
        ring.upload(gpu, &mut encoder, bytemuck::cast_slice(values)).await?;
    }
    let submission = gpu.queue.submit([encoder.finish()]);
    up.iter_mut().for_each(|ring| ring.submitted(submission.clone()));
    Ok(())
}
