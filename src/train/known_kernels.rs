//! Which kernels were the fastest on which adapters, as a text that can be kept.

use serde::{Deserialize, Serialize};

use crate::gpu::{AdapterReport, KernelFamily};
use crate::strategy::Strategy;

/// Which kernels were measured fastest on which adapters, to be kept from run to run. Another driver, or another version
/// of this crate, may have others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownKernels {
    measured: Vec<Measured>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Measured {
    adapter: String,
    backend: String,
    driver: String,
    /// Of this crate.
    version: String,
    kernels: KernelFamily,
}

impl Measured {
    fn new(adapter: &AdapterReport, kernels: KernelFamily) -> Self {
        let AdapterReport { name, backend, driver, .. } = adapter.clone();
        Self { adapter: name, backend, driver, version: env!("CARGO_PKG_VERSION").into(), kernels }
    }
}

impl KnownKernels {
    /// Reads what [`KnownKernels::to_json`] wrote. Of a text that is anything else nothing is known.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// As a text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names only") + "\n"
    }

    /// The family that was the fastest on an adapter, if that is known and it can run it.
    pub fn of(&self, adapter: &AdapterReport) -> Option<KernelFamily> {
        let mut families = adapter.families().into_iter();
        families.find(|family| self.measured.contains(&Measured::new(adapter, *family)))
    }

    /// Tells a strategy's adapters what is known of them.
    pub fn recall(&self, strategy: &mut Strategy) {
        for adapter in strategy.replicas_mut() {
            adapter.fastest = adapter.fastest.or_else(|| self.of(adapter));
        }
    }

    /// What was known of an adapter before, with whatever driver, is forgotten.
    pub(super) fn learn(&mut self, adapter: &AdapterReport, kernels: KernelFamily) {
        let now = Measured::new(adapter, kernels);
        self.measured.retain(|before| (&before.adapter, &before.backend) != (&now.adapter, &now.backend));
        self.measured.push(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::AdapterKind;

    fn gpu(name: &str, backend: &str, driver: &str) -> AdapterReport {
        let (kind, backend, driver) = (AdapterKind::Unknown, backend.into(), driver.into());
        AdapterReport { backend, driver, kind, ..AdapterReport::made_up(0, name) }
    }

    #[test]
    fn what_was_measured_counts_for_the_same_adapter_and_driver_only() {
        let adapter = gpu("a GPU", "vulkan", "a driver 1.0");
        let mut known = KnownKernels::default();
        assert_eq!(known.of(&adapter), None);
        known.learn(&adapter, KernelFamily::Tile);
        let text = known.to_json();
        let known = KnownKernels::parse(&text);
        assert_eq!(known.of(&adapter), Some(KernelFamily::Tile));
        for other in [
            gpu("another GPU", "vulkan", "a driver 1.0"),
            gpu("a GPU", "dx12", "a driver 1.0"),
            gpu("a GPU", "vulkan", "a driver 1.1"),
        ] {
            assert_eq!(known.of(&other), None, "{other:?}");
        }
        let of_another_version = text.replace(env!("CARGO_PKG_VERSION"), "0.0.9");
        assert_eq!(KnownKernels::parse(&of_another_version).of(&adapter), None);
        // It cannot run these any more.
        let without = AdapterReport { kind: AdapterKind::Software, ..adapter.clone() };
        assert_eq!(known.of(&without), None);
        for damaged in ["", "{", "[]", &text[..text.len() / 2], &text.replace("tile", "unheard of")] {
            assert_eq!(KnownKernels::parse(damaged), KnownKernels::default(), "{damaged}");
        }
    }

    #[test]
    fn a_new_driver_takes_the_place_of_the_old_one() {
        let (old, new) = (gpu("a GPU", "vulkan", "1.0"), gpu("a GPU", "vulkan", "1.1"));
        let other = gpu("another GPU", "vulkan", "1.0");
        let mut known = KnownKernels::default();
        known.learn(&old, KernelFamily::Tile);
        known.learn(&other, KernelFamily::Register);
        known.learn(&new, KernelFamily::Workgroup);
        assert_eq!(known.measured.len(), 2);
        assert_eq!(known.of(&old), None);
        assert_eq!(known.of(&new), Some(KernelFamily::Workgroup));
        assert_eq!(known.of(&other), Some(KernelFamily::Register));
    }
}
