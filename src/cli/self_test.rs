//! `wgpu-bert self-test`: does this adapter compute what it should?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};
use wgpu_bert::gpu::Gpu;
use wgpu_bert::train::self_test::{Comparison, GoldenFiles, Quantity, SelfTestReport, bundled, self_test};

use super::device_flags::DeviceFlags;
use super::error::CliError;
use super::output;

/// Compare losses, logits, gradients and updates with golden numbers on this adapter
///
/// Exit code 4 when one of them differs too much.
#[derive(Args)]
#[command(rename_all = "snake_case")]
pub struct SelfTestFlags {
    /// Folder of golden numbers [default: the case that comes with the program]
    #[arg(long, value_name = "DIR")]
    golden: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    device: DeviceFlags,
}

pub fn run(flags: &SelfTestFlags) -> Result<(), CliError> {
    let strategy = flags.device.strategy()?;
    let files = flags.golden.as_deref().map_or_else(|| Ok(bundled()), read)?;
    let gpu = Arc::new(pollster::block_on(strategy.open(flags.device.options()))?);
    let report = pollster::block_on(self_test(&gpu, &files))?;
    if flags.json { output::result(to_json(&report, &gpu)) } else { output::result(to_text(&report, &gpu)) }?;
    if report.ok() { Ok(()) } else { Err(CliError::WrongNumbers { adapter: gpu.adapter.name.clone() }) }
}

/// The golden files of a folder; others in it are left alone.
fn read(folder: &Path) -> Result<GoldenFiles, CliError> {
    let error = |path: &Path| {
        let path = path.to_owned();
        move |error| CliError::Read { path, error }
    };
    let mut files = GoldenFiles::new();
    for entry in std::fs::read_dir(folder).map_err(error(folder))? {
        let path = entry.map_err(error(folder))?.path();
        let is_golden =
            path.extension().is_some_and(|extension| extension == "json" || extension == "safetensors");
        if let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| is_golden) {
            files.insert(name.into(), std::fs::read(&path).map_err(error(&path))?);
        }
    }
    Ok(files)
}

/// For every parameter the comparison of its gradient with the largest difference, over all cases.
fn gradients(report: &SelfTestReport) -> BTreeMap<&str, &Comparison> {
    let mut worst: BTreeMap<&str, &Comparison> = BTreeMap::new();
    for comparison in report.comparisons.iter().filter(|c| c.kind == Quantity::Gradient) {
        let entry = worst.entry(&comparison.name).or_insert(comparison);
        // What is not a number is worst of all, and stays.
        if comparison.error.is_nan() || comparison.error > entry.error {
            *entry = comparison;
        }
    }
    worst
}

fn to_text(report: &SelfTestReport, gpu: &Gpu) -> String {
    let mut text = format!(
        "{}, {} kernels: {} comparisons",
        gpu.adapter.name,
        gpu.kernels.products.name(),
        report.comparisons.len()
    );
    for Comparison { case, kind, name, error, tolerance } in report.worst() {
        let kind = kind.name();
        text += &format!("\n  {kind:<13} worst {error:.1e}, allowed {tolerance:.0e}  ({name}, {case})");
    }
    for left_out in &report.left_out {
        text += &format!("\n  left out      {left_out}");
    }
    for (name, Comparison { error, tolerance, .. }) in gradients(report) {
        text += &format!("\n    {error:.1e} of {tolerance:.0e}  {name}");
    }
    text + if report.ok() { "\nok" } else { "\nfailed" }
}

/// Numbers that are none become null.
fn to_json(report: &SelfTestReport, gpu: &Gpu) -> Value {
    let details =
        |c: &Comparison| json!({"error": c.error, "tolerance": c.tolerance, "name": c.name, "case": c.case});
    let worst: Map<_, _> =
        report.worst().into_iter().map(|c| (c.kind.name().to_owned(), details(c))).collect();
    let gradients: BTreeMap<_, _> = gradients(report).into_iter().map(|(name, c)| (name, c.error)).collect();
    json!({
        "kind": "self_test",
        "ok": report.ok(),
        "adapter": gpu.adapter.name,
        "backend": gpu.adapter.backend,
        "driver": gpu.adapter.driver,
        "kernels": gpu.kernels.products.name(),
        "comparisons": report.comparisons.len(),
        "left_out": report.left_out,
        "worst_errors": worst,
        "gradient_errors": gradients,
    })
}
