//! Which of several adapters: the best one, or the one a user named.

use crate::gpu::{AdapterKind, AdapterReport, Survey};

use super::StrategyError;

/// The adapters worth a choice: usable, and each device through its best backend only.
pub(super) fn choices(survey: &Survey) -> Vec<&AdapterReport> {
    let usable: Vec<_> = survey.adapters.iter().filter(|adapter| adapter.is_usable()).collect();
    let shadowed = |adapter: &AdapterReport| {
        usable
            .iter()
            .any(|other| rank_of_backend(other) < rank_of_backend(adapter) && same_device(other, adapter))
    };
    usable.iter().copied().filter(|adapter| !shadowed(adapter)).collect()
}

/// The adapter to use when none is named.
pub(super) fn best(survey: &Survey) -> Result<&AdapterReport, StrategyError> {
    let rank =
        |adapter: &&AdapterReport| (rank_of_kind(adapter.kind), rank_of_backend(adapter), adapter.index);
    choices(survey).into_iter().min_by_key(rank).ok_or_else(|| StrategyError::NoAdapter {
        absences: survey.absences.clone(),
        unusable: (survey.adapters.iter())
            .filter_map(|adapter| Some((describe(adapter), shortcoming(adapter)?)))
            .collect(),
    })
}

/// The adapter a user means by an index, a name, or a part of a name that no other has.
pub(super) fn named<'a>(survey: &'a Survey, wanted: &str) -> Result<&'a AdapterReport, StrategyError> {
    let adapter = match wanted.trim().parse().ok().and_then(|index: usize| survey.adapters.get(index)) {
        Some(adapter) => adapter,
        None => by_name(survey, wanted)?,
    };
    match shortcoming(adapter) {
        None => Ok(adapter),
        Some(shortcoming) => Err(StrategyError::AdapterUnusable { adapter: describe(adapter), shortcoming }),
    }
}

/// Every GPU, the best one first.
pub(super) fn gpus(survey: &Survey) -> Vec<&AdapterReport> {
    let mut gpus = choices(survey);
    gpus.retain(|adapter| adapter.kind.is_gpu());
    gpus.sort_by_key(|adapter| (rank_of_kind(adapter.kind), rank_of_backend(adapter), adapter.index));
    gpus
}

/// The GPUs that are like the best one.
pub(super) fn equal_gpus(survey: &Survey) -> Vec<&AdapterReport> {
    let mut gpus = gpus(survey);
    let best = gpus.first().map(|adapter| (adapter.name.clone(), adapter.backend.clone(), adapter.kind));
    gpus.retain(|adapter| {
        best.as_ref().is_some_and(|(name, backend, kind)| {
            (&adapter.name, &adapter.backend, adapter.kind) == (name, backend, *kind)
        })
    });
    gpus
}

/// The adapters that a user means by a list with commas between, or by a single name, which may have commas itself.
pub(super) fn all_named<'a>(
    survey: &'a Survey,
    wanted: &str,
) -> Result<Vec<&'a AdapterReport>, StrategyError> {
    match named(survey, wanted) {
        Ok(adapter) => Ok(vec![adapter]),
        Err(StrategyError::AdapterNotFound { .. }) if wanted.contains(',') => {
            wanted.split(',').map(|wanted| named(survey, wanted)).collect()
        }
        Err(error) => Err(error),
    }
}

fn by_name<'a>(survey: &'a Survey, wanted: &str) -> Result<&'a AdapterReport, StrategyError> {
    let wanted = wanted.trim().to_lowercase();
    let list = |adapters: &[&AdapterReport]| adapters.iter().map(|adapter| describe(adapter)).collect();
    let all: Vec<_> = survey.adapters.iter().collect();
    // One device seen through two backends is no choice to bother a user with; an unusable one deserves its own error.
    let choices = choices(survey);
    for candidates in [&choices, &all] {
        for matches in [|name: &str, wanted: &str| name == wanted, is_part] {
            let found: Vec<_> = candidates
                .iter()
                .copied()
                .filter(|adapter| matches(&adapter.name.to_lowercase(), &wanted))
                .collect();
            match found[..] {
                [] => {}
                [adapter] => return Ok(adapter),
                _ => return Err(StrategyError::AdapterAmbiguous { wanted, matches: list(&found) }),
            }
        }
    }
    Err(StrategyError::AdapterNotFound { wanted, available: list(&all) })
}

/// A number must be a word of the name: an index beyond the last adapter is none of the digits in a driver's version.
fn is_part(name: &str, wanted: &str) -> bool {
    match wanted.bytes().all(|byte| byte.is_ascii_digit()) {
        true => name.split_whitespace().any(|word| word == wanted),
        false => name.contains(wanted),
    }
}

/// Lower is better.
fn rank_of_kind(kind: AdapterKind) -> u32 {
    match kind {
        AdapterKind::Discrete => 0,
        AdapterKind::Virtual | AdapterKind::Integrated => 1,
        AdapterKind::Unknown => 2,
        AdapterKind::Software => 3,
    }
}

/// Lower is better: shaders reach the device through fewer translations.
fn rank_of_backend(adapter: &AdapterReport) -> u32 {
    match adapter.backend.as_str() {
        "vulkan" | "metal" => 0,
        "dx12" => 1,
        _ => 2,
    }
}

/// Do two backends show one device? No identifier is common to all of them, but the product's name is.
fn same_device(a: &AdapterReport, b: &AdapterReport) -> bool {
    /// Drivers add themselves behind the product: "llvmpipe (LLVM 15.0.6)", "GeForce RTX 3080/PCIe/SSE2".
    fn product(adapter: &AdapterReport) -> String {
        let name = adapter.name.to_lowercase();
        let end = [" (", "/"].iter().filter_map(|mark| name.find(mark)).min();
        name[..end.unwrap_or(name.len())].trim().to_string()
    }
    let (a, b) = (product(a), product(b));
    // OpenGL puts the driver's name before it: "Mesa Intel(R) UHD Graphics". A nameless device is like no other.
    !a.is_empty() && !b.is_empty() && (a.ends_with(&b) || b.ends_with(&a))
}

/// An adapter as messages name it.
pub(super) fn describe(adapter: &AdapterReport) -> String {
    let AdapterReport { index, name, backend, kind, .. } = adapter;
    format!("{index}: {name} ({backend}, {})", kind.name())
}

/// Why the kernels cannot run on an adapter; nothing when they can.
pub fn shortcoming(adapter: &AdapterReport) -> Option<String> {
    let AdapterReport { max_storage_buffers, max_invocations, max_workgroup_memory, .. } = adapter;
    (!adapter.is_usable()).then(|| {
        format!(
            "its kernels may bind {max_storage_buffers} buffers, its workgroups have {max_invocations} invocations \
             and {max_workgroup_memory} bytes of memory; the least WebGPU promises is 8, 256 and 16384"
        )
    })
}
