//! Is there room for what an unusual `dupe_factor` asks for? Better told before hours than after.

use super::disk::Disk;
use super::store::Store;
use crate::data::{Error, InstanceOptions};

/// Bytes of a token of an instance, at least.
#[cfg(not(target_family = "wasm"))]
const IN_MEMORY: u64 = 4;
const ON_DISK: u64 = 2;

/// # Errors
/// When the instances cannot be in memory together.
#[cfg(not(target_family = "wasm"))]
pub(super) fn check_memory(store: &Store, options: &InstanceOptions) -> Result<(), Error> {
    let needed = least(store, options).saturating_mul(IN_MEMORY);
    // The system knows best, and gives back at once what is not written to.
    let fits = usize::try_from(needed).is_ok_and(|needed| Vec::<u8>::new().try_reserve_exact(needed).is_ok());
    if fits { Ok(()) } else { Err(too_many(options, needed, "memory")) }
}

/// # Errors
/// When the disk tells that it has too little room for the instances.
pub(super) fn check_disk(store: &Store, options: &InstanceOptions, disk: &Disk) -> Result<(), Error> {
    let needed = least(store, options).saturating_mul(ON_DISK);
    // A disk that does not tell will tell when it is full.
    match disk.free() {
        Some(free) if free < needed => Err(too_many(options, needed, &disk.name())),
        _ => Ok(()),
    }
}

/// Tokens of all instances, at least: no more of a sentence than fit, and a pair may leave out half of them.
fn least(store: &Store, options: &InstanceOptions) -> u64 {
    let kept = store.tokens.min(store.sentences.saturating_mul(options.capacity() as u64));
    kept.saturating_mul(options.dupe_factor as u64) / 2
}

fn too_many(options: &InstanceOptions, needed: u64, place: &str) -> Error {
    Error::BadOption {
        option: "dupe_factor",
        value: options.dupe_factor.to_string(),
        expected: format!(
            "lower for this text: its instances would take more than {:.1} GB, which {place} does not have",
            needed as f64 / 1e9
        ),
    }
}
