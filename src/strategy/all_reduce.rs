//! The sum of the replicas' gradients, by way of the host.
//!
//! Gradients leave the devices in packs, each as soon as the backward has done with it; the host adds the replicas up in an
//! order that is always the same, and every replica gets the same sum.

use std::str::FromStr;

use crate::model::Stage;

/// In which order the host adds up what the replicas have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Two by two, then the sums of two, and so on: rounding errors grow with the logarithm of the replicas.
    #[default]
    HierarchicalCopy,
    /// One after another, where every replica is the first for an equal part of each tensor.
    Ring,
}

/// An algorithm of the reference that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlgorithmError {
    /// NVIDIA's library.
    #[error("nccl is NVIDIA's library for CUDA, which WebGPU does not reach; use hierarchical_copy or ring")]
    Nccl,
    /// No such name.
    #[error("must be hierarchical_copy or ring")]
    Unknown,
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    /// Upper and lower case are the same.
    fn from_str(name: &str) -> Result<Self, AlgorithmError> {
        match name.trim().to_lowercase().as_str() {
            "hierarchical_copy" => Ok(Self::HierarchicalCopy),
            "ring" => Ok(Self::Ring),
            "nccl" => Err(AlgorithmError::Nccl),
            _ => Err(AlgorithmError::Unknown),
        }
    }
}

/// How gradients are summed over replicas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllReduce {
    /// The order of the sums.
    pub algorithm: Algorithm,
    /// The most bytes that leave a device together, in multiples of 256 and at least 256; 0 for all in one pack.
    pub bytes_per_pack: usize,
}

/// Words between places where a tensor can be cut.
const CUT: usize = crate::gpu::Tensor::ALIGNMENT_WORDS;

/// What the stages of a step complete, in their order, cut and joined into packs.
pub fn packs(stages: &[Stage], bytes_per_pack: usize) -> Vec<Stage> {
    let most = match bytes_per_pack {
        0 => usize::MAX,
        bytes => (bytes / 4 / CUT * CUT).max(CUT),
    };
    let mut packs: Vec<Stage> = Vec::new();
    let mut room = 0;
    for (stage, sum) in stages.iter().flat_map(|stage| stage.sums.iter().map(move |sum| (stage, sum))) {
        let mut start = 0;
        while start < sum.len() {
            if room == 0 {
                packs.push(Stage { end: stage.end, sums: Vec::new() });
                room = most;
            }
            let len = room.min(sum.len() - start);
            if let Some(pack) = packs.last_mut() {
                pack.end = stage.end;
                pack.sums.push(sum.part(start, len));
            }
            start += len;
            room -= len.next_multiple_of(CUT).min(room);
        }
    }
    packs
}

/// Adds up a tensor of all replicas, into that of the first.
///
/// # Panics
/// When there is no replica, or their tensors differ in length: mistakes in the caller.
pub fn sum(replicas: &mut [Vec<f32>], algorithm: Algorithm) {
    let len = replicas[0].len();
    assert!(replicas.iter().all(|replica| replica.len() == len), "tensors of different lengths");
    match algorithm {
        Algorithm::HierarchicalCopy => {
            let mut distance = 1;
            while distance < replicas.len() {
                for first in (0..replicas.len() - distance).step_by(2 * distance) {
                    let (low, high) = replicas.split_at_mut(first + distance);
                    low[first].iter_mut().zip(&high[0]).for_each(|(sum, x)| *sum += x);
                }
                distance *= 2;
            }
        }
        Algorithm::Ring => {
            let count = replicas.len();
            let share = len.div_ceil(count).max(1);
            for first in 0..count {
                let range = (first * share).min(len)..((first + 1) * share).min(len);
                let mut sum = replicas[first][range.clone()].to_vec();
                for next in (1..count).map(|step| (first + step) % count) {
                    sum.iter_mut().zip(&replicas[next][range.clone()]).for_each(|(sum, x)| *sum += x);
                }
                replicas[0][range].copy_from_slice(&sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{KernelFamily, Plan};

    #[test]
    fn both_algorithms_add_up_all_replicas() {
        for algorithm in [Algorithm::HierarchicalCopy, Algorithm::Ring] {
            for (count, len) in [(1, 3), (2, 5), (3, 7), (4, 2), (5, 11), (8, 64)] {
                let value = |replica: usize, i: usize| (replica * 100 + i) as f32;
                let mut replicas: Vec<Vec<f32>> =
                    (0..count).map(|r| (0..len).map(|i| value(r, i)).collect()).collect();
                sum(&mut replicas, algorithm);
                let want: Vec<f32> = (0..len).map(|i| (0..count).map(|r| value(r, i)).sum()).collect();
                assert_eq!(replicas[0], want, "{algorithm:?} of {count}");
            }
        }
    }

    #[test]
    fn packs_hold_everything_once_in_order_and_no_more_than_they_may() {
        let mut plan = Plan::new(KernelFamily::Register);
        let lens = [10, 300, 128, 64];
        let sums: Vec<_> = lens.iter().map(|len| plan.persistent("sum", *len)).collect();
        let stages = [(3, &sums[..2]), (5, &sums[2..3]), (9, &sums[3..])];
        let stages: Vec<_> =
            stages.iter().map(|(end, sums)| Stage { end: *end, sums: sums.to_vec() }).collect();
        for bytes in [0, 1, 256, 512, 1000, 1 << 20] {
            let packs = packs(&stages, bytes);
            let words = |pack: &Stage| pack.sums.iter().map(|sum| sum.len()).sum::<usize>();
            assert_eq!(packs.iter().map(words).sum::<usize>(), lens.iter().sum::<usize>());
            assert_eq!(packs.last().unwrap().end, 9);
            assert!(packs.windows(2).all(|pair| pair[0].end <= pair[1].end));
            match bytes {
                0 => assert_eq!(packs.len(), 1),
                bytes => assert!(packs.iter().all(|pack| words(pack) * 4 <= bytes.max(256)), "{bytes}"),
            }
        }
    }

    #[test]
    fn nccl_is_refused_with_the_reason() {
        assert_eq!("Ring".parse(), Ok(Algorithm::Ring));
        assert_eq!("hierarchical_copy".parse(), Ok(Algorithm::HierarchicalCopy));
        let error = "nccl".parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.contains("CUDA") && error.contains("hierarchical_copy"), "{error}");
        assert!("tree".parse::<Algorithm>().is_err());
    }
}
