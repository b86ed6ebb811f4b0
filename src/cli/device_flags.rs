//! Flags that choose where to compute, and the guard that every command passes first.

use clap::{Args, ValueEnum};
use wgpu_bert::gpu::{DeviceOptions, KernelFamily, Survey, survey};
use wgpu_bert::strategy::{
    Strategy, StrategyError, StrategyKind, StrategyRequest, get_distribution_strategy,
};

use super::pretrain::positive;
use super::{known_kernels, output};

/// Which strategy on which adapter.
#[derive(Args)]
#[command(rename_all = "snake_case", next_help_heading = "Device")]
pub struct StrategyFlags {
    /// auto, one_device, or mirrored: a replica of the model on each of several adapters, for an equal part of every batch; or
    /// multi_worker_mirrored: the same on several hosts, by the processes that mpirun starts
    #[arg(long, alias = "ds", value_name = "NAME", default_value = "auto")]
    distribution_strategy: String,
    /// Index of an adapter, or a part of its name; `wgpu-bert devices` lists them. For mirrored several, with commas
    /// between [default: the best; for mirrored every GPU]
    #[arg(long, value_name = "NAME|INDEX")]
    adapter: Option<String>,
    /// Replicas on each adapter of mirrored, each with a device of its own: `pretrain` trains them, `inspect --plan` counts
    /// them, other commands use the first
    #[arg(long, value_name = "N", value_parser = positive, default_value = "1")]
    replicas_per_adapter: usize,
}

impl StrategyFlags {
    /// The strategy these flags ask for, on what a survey found.
    pub fn strategy(&self, survey: &Survey) -> Result<Strategy, StrategyError> {
        get_distribution_strategy(self.distribution_strategy.parse()?, survey, self.adapter.as_deref())?
            .with_replicas_per_adapter(self.replicas_per_adapter)
    }
}

/// Which strategy on which adapter, with which kernels.
#[derive(Args)]
#[command(rename_all = "snake_case", next_help_heading = "Device")]
pub struct DeviceFlags {
    #[command(flatten)]
    strategy: StrategyFlags,
    /// Kernels to use [default: what suits a software adapter; on a GPU matrix products by what a training run measured
    /// to be the fastest]
    #[arg(long, value_name = "FAMILY", ignore_case = true)]
    kernels: Option<Kernels>,
    /// Keep the shader compiler's bounds checks; slower
    #[arg(long)]
    runtime_checks: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kernels {
    /// For software adapters: tiles in registers, no barriers
    Register,
    /// The same with tiles shared by subgroups, for software adapters with subgroups of 8 invocations
    Subgroup,
    /// For SwiftShader and GPUs: larger tiles in registers
    Tile,
    /// For software adapters without subgroups: larger tiles in registers, of operands in textures
    Texture,
    /// For GPUs: tiles in workgroup memory
    Workgroup,
}

impl DeviceFlags {
    /// Is the run one of several processes?
    pub fn is_multi_worker(&self) -> bool {
        self.strategy.distribution_strategy.parse().ok() == Some(StrategyRequest::MultiWorkerMirrored)
    }

    /// The guard: comes before any file is opened. Tells the strategy's notice. The fastest kernels are those that were
    /// measured before, if any were.
    pub fn strategy(&self) -> Result<Strategy, StrategyError> {
        let strategy = self.strategy.strategy(&pollster::block_on(survey()))?;
        if let Some(notice) = &strategy.notice {
            output::note(notice);
        }
        if strategy.kind == StrategyKind::Mirrored && strategy.others.is_empty() {
            output::note(format_args!(
                "mirrored has one adapter here, {}, and so one replica: --replicas_per_adapter gives it more.",
                strategy.adapter.name
            ));
        }
        Ok(known_kernels::recall(strategy))
    }

    /// How the strategy's device is opened.
    pub fn options(&self) -> DeviceOptions {
        let family = self.kernels.map(|kernels| match kernels {
            Kernels::Register => KernelFamily::Register,
            Kernels::Subgroup => KernelFamily::Subgroup,
            Kernels::Tile => KernelFamily::Tile,
            Kernels::Texture => KernelFamily::Texture,
            Kernels::Workgroup => KernelFamily::Workgroup,
        });
        DeviceOptions { family, runtime_checks: self.runtime_checks, ..DeviceOptions::default() }
    }
}
