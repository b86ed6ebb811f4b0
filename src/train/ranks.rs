//! What the ranks of a run do together, besides their sums.

use super::{PretrainOptions, Share, Snapshot, TrainError, Trainer};
use crate::gpu::DeviceOptions;
use crate::strategy::Team;

/// Waits for all ranks; the result is what each of them says, in their order. Where one of them wants the weights to be
/// compared, that comes first.
pub(super) async fn meet(team: &Team, trainer: &Trainer, mine: &[u8]) -> Result<Vec<Vec<u8>>, TrainError> {
    loop {
        match team.meet_unless_check(mine)? {
            Some(said) => return Ok(said),
            None => compare(team, trainer).await?,
        }
    }
}

/// Have all ranks the same weights?
///
/// # Errors
/// [`TrainError::Drift`] names one that has not.
pub(super) async fn compare(team: &Team, trainer: &Trainer) -> Result<(), TrainError> {
    let weights = trainer.read_arena(&trainer.step().weights).await?;
    let checksum = |data: &[f32]| crc32c::crc32c(bytemuck::cast_slice(data)).to_le_bytes();
    let sums: Vec<u8> = weights.iter().flat_map(|tensor| checksum(&tensor.data)).collect();
    let all = team.meet(&sums)?;
    for (rank, sums) in all.iter().enumerate() {
        let other = sums.chunks(4).zip(all[0].chunks(4)).position(|(one, first)| one != first);
        if let Some(tensor) = other.and_then(|place| weights.get(place)) {
            let replicas = [0, rank].map(|rank| format!("of rank {rank}"));
            return Err(TrainError::Drift { replicas, parameter: tensor.name.clone() });
        }
    }
    Ok(())
}

/// Waits for all ranks before a step that this one does so many `parts` of. Each says after how many steps it wants the run
/// to `end`, and what its `share` of the batch is; the result is the least of the one, and what all come to of the other.
pub(super) async fn before_step(
    team: &Team,
    trainer: &Trainer,
    end: u64,
    share: &Share,
    parts: usize,
) -> Result<(u64, Share), TrainError> {
    let mine = [end, share.weight.to_bits(), share.sequences as u64].map(u64::to_le_bytes);
    let all = meet(team, trainer, mine.as_flattened()).await?;
    Ok(step_of(&all, team.rank(), parts))
}

fn step_of(all: &[Vec<u8>], rank: usize, parts: usize) -> (u64, Share) {
    let word = |said: &[u8], index: usize| {
        said.get(index * 8..index * 8 + 8)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    };
    let end = all.iter().map(|said| word(said, 0)).min().unwrap_or(0);
    let weight = all.iter().map(|said| f64::from_bits(word(said, 1))).sum();
    let sequences = all.iter().map(|said| word(said, 2) as usize).sum();
    (end, Share { part: rank * parts, adds: false, weight, sequences })
}

/// Lets the other ranks know of an error.
pub(super) fn tell_team<T>(team: Option<&Team>, done: Result<T, TrainError>) -> Result<T, TrainError> {
    done.inspect_err(|error| {
        if let Some(team) = team {
            team.fail(&error.to_string());
        }
    })
}

/// Are all ranks asked for the same?
pub(super) fn check_alike(
    team: &Team,
    options: &PretrainOptions,
    start: Option<&Snapshot>,
    size: &str,
) -> Result<(), TrainError> {
    // Each may open its device in its own way.
    let options = PretrainOptions { device: DeviceOptions::default(), ..options.clone() };
    let options = team.meet(format!("{options:?}").as_bytes())?;
    let sizes = team.meet(size.as_bytes())?;
    let bits = |snapshot: &Snapshot| {
        let tensors = [&snapshot.weights, &snapshot.first_moments, &snapshot.second_moments];
        let sums = tensors.into_iter().flatten().map(|t| crc32c::crc32c(bytemuck::cast_slice(&t.data)));
        (snapshot.step, sums.collect::<Vec<_>>())
    };
    let starts = team.meet(format!("{:?}", start.map(bits)).as_bytes())?;
    for (what, said) in [("options", options), ("data or replicas", sizes), ("weights", starts)] {
        if let Some(rank) = said.iter().position(|other| *other != said[0]) {
            return Err(TrainError::OtherRank { rank, what });
        }
    }
    Ok(())
}
