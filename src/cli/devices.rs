//! `wgpu-bert devices`: what there is to compute on, and what would be derived from it.

use clap::Args;
use serde_json::json;
use wgpu_bert::gpu::{Absence, AdapterReport, DeviceOptions, survey};
use wgpu_bert::strategy::{Strategy, shortcoming};

use super::device_flags::StrategyFlags;
use super::error::CliError;
use super::{known_kernels, output};

/// List the adapters, and the strategy that would be derived
///
/// Exit code 3 when none can be derived; the reason is told.
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct DevicesFlags {
    /// One JSON object per line: kind adapter, absence, then strategy or error
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    strategy: StrategyFlags,
}

pub fn run(flags: &DevicesFlags) -> Result<(), CliError> {
    let survey = pollster::block_on(survey());
    for adapter in &survey.adapters {
        output::result(if flags.json { adapter_json(adapter) } else { adapter_text(adapter) })?;
    }
    for absence in &survey.absences {
        output::result(if flags.json { absence_json(absence) } else { absence_text(absence) })?;
    }
    let strategy = known_kernels::recall(flags.strategy.strategy(&survey)?);
    output::result(if flags.json { strategy_json(&strategy) } else { strategy_text(&strategy) })
}

fn adapter_text(adapter: &AdapterReport) -> String {
    let AdapterReport { index, name, backend, kind, driver, .. } = adapter;
    let features = if adapter.features.is_empty() { "none".into() } else { adapter.features.join(", ") };
    let mut text = format!(
        "{index}: {name}\n   type      {}, through {backend}\n   driver    {driver}\n   \
         memory    buffers up to {}, {} of one in a kernel\n   \
         kernels   {} buffers, workgroups of {} invocations with {}\n   features  {features}\n",
        kind.name(),
        bytes(adapter.max_buffer_size),
        bytes(adapter.max_binding_size),
        adapter.max_storage_buffers,
        adapter.max_invocations,
        bytes(adapter.max_workgroup_memory.into()),
    );
    if let Some(shortcoming) = shortcoming(adapter) {
        text += &format!("   unusable  {shortcoming}\n");
    }
    text
}

fn adapter_json(adapter: &AdapterReport) -> String {
    json!({
        "kind": "adapter",
        "index": adapter.index,
        "name": adapter.name,
        "backend": adapter.backend,
        "type": adapter.kind.name(),
        "driver": adapter.driver,
        "max_buffer_size": adapter.max_buffer_size,
        "max_storage_buffer_binding_size": adapter.max_binding_size,
        "max_storage_buffers_per_shader_stage": adapter.max_storage_buffers,
        "max_compute_invocations_per_workgroup": adapter.max_invocations,
        "max_compute_workgroup_storage_size": adapter.max_workgroup_memory,
        "features": adapter.features,
        "shortcoming": shortcoming(adapter),
    })
    .to_string()
}

fn absence_text(absence: &Absence) -> String {
    format!("No adapter through {}: {}\n", absence.backend, absence.reason)
}

fn absence_json(absence: &Absence) -> String {
    json!({"kind": "absence", "backend": absence.backend, "reason": absence.reason}).to_string()
}

fn strategy_text(strategy: &Strategy) -> String {
    let names: Vec<_> =
        strategy.replicas().map(|adapter| format!("{}: {}", adapter.index, adapter.name)).collect();
    let (kind, names) = (strategy.kind.name(), names.join(" + "));
    let mut text = format!("Strategy: {kind} on {names}\n({})", strategy.why);
    text += &format!("\nKernels: {}", kernels(strategy).join(" + "));
    if let Some(notice) = &strategy.notice {
        text += &format!("\n{notice}");
    }
    text
}

fn strategy_json(strategy: &Strategy) -> String {
    json!({
        "kind": "strategy",
        "strategy": strategy.kind.name(),
        "adapter": strategy.adapter.index,
        "name": strategy.adapter.name,
        "replicas": strategy.replicas().map(|adapter| adapter.index).collect::<Vec<_>>(),
        "kernels": kernels(strategy),
        "why": strategy.why,
        "notice": strategy.notice,
    })
    .to_string()
}

/// Those of each replica when none are asked for.
fn kernels(strategy: &Strategy) -> Vec<String> {
    strategy.replicas().map(|adapter| DeviceOptions::default().told_on(adapter)).collect()
}

/// A size in the largest unit that leaves it at least 1.
fn bytes(size: u64) -> String {
    let unit = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let step = (0..4).take_while(|step| size >> (10 * (step + 1)) > 0).count();
    let value = size as f64 / (1_u64 << (10 * step)) as f64;
    // 2^31 - 1 reads as 2 GiB.
    format!("{} {}", (value * 10.0).round() / 10.0, unit[step])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_units_people_use() {
        for (size, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (16 << 10, "16 KiB"),
            (3 << 19, "1.5 MiB"),
            (128 << 20, "128 MiB"),
            ((1 << 31) - 1, "2 GiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }
}
