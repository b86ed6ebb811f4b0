//! The processes of a run under `multi_worker_mirrored`, and how they stay in step.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Algorithm, sum};

/// The processes of a run, each a rank, as one of them sees them.
///
/// All methods but the first two are collective: every rank calls the same ones in the same order, and each waits for all.
/// A rank that dies must end the others, as `mpirun` does.
pub trait Workers: Send + Sync {
    /// Which one this is, from 0.
    fn rank(&self) -> usize;
    /// How many there are.
    fn count(&self) -> usize;
    /// What every rank gives, in their order; it may be of any length.
    fn gather(&self, mine: &[u8]) -> Vec<Vec<u8>>;
    /// What rank 0 gives, to all.
    fn broadcast(&self, bytes: &mut Vec<u8>);
    /// Of as many equal parts as there are ranks, rank r gets the r-th of each, in the order of ranks.
    fn all_to_all(&self, send: &[f32], receive: &mut [f32]);
    /// What every rank sends, which is of one length, in their order.
    fn all_gather(&self, send: &[f32], receive: &mut [f32]);
}

/// Where a rank stands, before what it has to say.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stand {
    Ready,
    /// It wants the weights of all ranks to be compared first.
    WantsCheck,
    /// It has failed, and says why.
    Failed,
}

/// Ranks that have failed, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .failed.iter().map(|(rank, why)| format!("rank {rank}: {why}")).collect::<Vec<_>>().join("\n"))]
pub struct WorkersError {
    /// Which ones, each with its words.
    pub failed: Vec<(usize, String)>,
}

/// The ranks of a run, of which each knows when another one has failed: whatever they do together begins with where each of
/// them stands.
#[derive(Clone)]
pub struct Team {
    workers: Arc<dyn Workers>,
    /// One has failed: nobody waits for this one any more.
    is_over: Arc<AtomicBool>,
}

impl Team {
    /// Of all these.
    pub fn new(workers: impl Workers + 'static) -> Self {
        Self { workers: Arc::new(workers), is_over: Arc::default() }
    }

    /// Which one this is, from 0.
    pub fn rank(&self) -> usize {
        self.workers.rank()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.workers.count()
    }

    /// Waits for all ranks; the result is what each of them says, in their order.
    ///
    /// # Errors
    /// When any of them has failed.
    pub fn meet(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, WorkersError> {
        Ok(self.stand(Stand::Ready, mine)?.1)
    }

    /// Waits for all ranks, even if one has failed.
    pub fn wait(&self) {
        // Nothing at all from anyone is an error to MPI.
        self.workers.gather(&[Stand::Ready as u8]);
    }

    /// As [`Team::meet`], but nothing where the weights are to be compared first.
    pub(crate) fn meet_unless_check(&self, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>, WorkersError> {
        let (wants_check, said) = self.stand(Stand::Ready, mine)?;
        Ok((!wants_check).then_some(said))
    }

    /// Waits for all ranks, and has them compare their weights.
    pub(crate) fn ask_for_check(&self) -> Result<(), WorkersError> {
        self.stand(Stand::WantsCheck, &[]).map(drop)
    }

    /// Tells the others, when they next wait for this one, why it goes no further. Where one of them has failed before, they
    /// know.
    pub fn fail(&self, why: &str) {
        if !self.is_over.load(Ordering::Relaxed) {
            // That it failed is what this is about.
            let _ = self.stand(Stand::Failed, why.as_bytes());
        }
    }

    /// What rank 0 gives, to all.
    ///
    /// # Errors
    /// As [`Team::meet`].
    pub fn broadcast(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, WorkersError> {
        self.meet(&[])?;
        self.workers.broadcast(&mut bytes);
        Ok(bytes)
    }

    /// Adds up a tensor of all ranks, which must have met before. Each adds up an equal part of it, in an order that is always
    /// the same, and gives it to the others: all have the same bits, and none sends more than twice the tensor.
    pub(crate) fn sum(&self, values: &mut [f32], algorithm: Algorithm) {
        let count = self.count();
        let part = values.len().div_ceil(count);
        let (mut all, mut received) = (vec![0.0; part * count], vec![0.0; part * count]);
        all[..values.len()].copy_from_slice(values);
        self.workers.all_to_all(&all, &mut received);
        let mut parts: Vec<Vec<f32>> = received.chunks(part).map(<[f32]>::to_vec).collect();
        sum(&mut parts, algorithm);
        self.workers.all_gather(&parts[0], &mut all);
        values.copy_from_slice(&all[..values.len()]);
    }

    /// Whether any wants a check, and what they say.
    fn stand(&self, stand: Stand, mine: &[u8]) -> Result<(bool, Vec<Vec<u8>>), WorkersError> {
        let said = self.workers.gather(&[&[stand as u8], mine].concat());
        let stands = |said: &[u8], stand| said.first() == Some(&(stand as u8));
        let words = |said: &[u8]| said.get(1..).unwrap_or_default().to_vec();
        let failed = said.iter().enumerate().filter(|(_, said)| stands(said, Stand::Failed));
        let failed = failed.map(|(rank, said)| (rank, String::from_utf8_lossy(&words(said)).into_owned()));
        let failed: Vec<_> = failed.collect();
        if !failed.is_empty() {
            self.is_over.store(true, Ordering::Relaxed);
            return Err(WorkersError { failed });
        }
        let wants_check = said.iter().any(|said| stands(said, Stand::WantsCheck));
        Ok((wants_check, said.iter().map(|said| words(said)).collect()))
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.count())
    }
}
