//! Open MPI, or another MPI, between the ranks.

use mpi::datatype::PartitionMut;
use mpi::environment::{Threading, Universe, initialize_with_threading};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Root};

use super::Workers;

/// Bytes that are broadcast at a time: MPI counts in 31 bits.
const CHUNK: usize = 1 << 28;

/// The processes that `mpirun` started. The thread that joins them makes all calls.
pub struct Mpi {
    rank: usize,
    count: usize,
    /// MPI ends when it is dropped.
    _universe: Universe,
}

impl Mpi {
    /// Joins the others; nothing where this process had joined them before. A process that `mpirun` did not start is the only
    /// one.
    pub fn join() -> Option<Self> {
        // Other threads make batches and write checkpoints.
        let (universe, _) = initialize_with_threading(Threading::Funneled)?;
        let world = universe.world();
        let (rank, count) = (world.rank() as usize, world.size() as usize);
        Some(Self { rank, count, _universe: universe })
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        // The others would wait for this one.
        if std::thread::panicking() {
            SimpleCommunicator::world().abort(1);
        }
    }
}

impl Workers for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.count
    }

    fn gather(&self, mine: &[u8]) -> Vec<Vec<u8>> {
        let world = SimpleCommunicator::world();
        let mut lens = vec![0_i32; self.count()];
        world.all_gather_into(&(mine.len() as i32), &mut lens[..]);
        let mut ends = 0;
        let mut starts = Vec::with_capacity(lens.len());
        for len in &lens {
            starts.push(ends);
            ends += len;
        }
        let mut all = vec![0_u8; ends as usize];
        let mut parts = PartitionMut::new(&mut all[..], &lens[..], &starts[..]);
        world.all_gather_varcount_into(mine, &mut parts);
        let part = |(start, len): (&i32, &i32)| all[*start as usize..][..*len as usize].to_vec();
        starts.iter().zip(&lens).map(part).collect()
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) {
        let world = SimpleCommunicator::world();
        let root = world.process_at_rank(0);
        let mut len = bytes.len() as u64;
        root.broadcast_into(&mut len);
        bytes.resize(len as usize, 0);
        bytes.chunks_mut(CHUNK).for_each(|chunk| root.broadcast_into(chunk));
    }

    fn all_to_all(&self, send: &[f32], receive: &mut [f32]) {
        SimpleCommunicator::world().all_to_all_into(send, receive);
    }

    fn all_gather(&self, send: &[f32], receive: &mut [f32]) {
        SimpleCommunicator::world().all_gather_into(send, receive);
    }
}
