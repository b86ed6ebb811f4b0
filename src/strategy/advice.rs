//! What to do where there is no strategy.

use super::StrategyError;
use crate::gpu::{AbsenceCause, Browser};

const IN_BROWSER: bool = cfg!(target_family = "wasm");

impl StrategyError {
    /// What to do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::NotGiven | Self::Unknown { .. } if IN_BROWSER => {
                "await getDistributionStrategy() and pass what it resolves to.".into()
            }
            Self::NotGiven | Self::Unknown { .. } => {
                "use --distribution_strategy auto (the default), one_device, mirrored or multi_worker_mirrored; in code, \
                 pass what get_distribution_strategy returns."
                    .into()
            }
            Self::NoAdapter { absences, .. } => match absences.iter().find_map(|a| in_browser(a.cause)) {
                Some(advice) => advice.into(),
                None if IN_BROWSER => OTHER_BROWSER.into(),
                None => format!("correct what is named above, or {INSTALL_A_DRIVER}"),
            },
            Self::AdapterNotFound { .. } | Self::AdapterAmbiguous { .. } | Self::AdapterUnusable { .. } => {
                "give the index of another adapter, or leave --adapter out to take the best. `wgpu-bert devices` \
                 lists them."
                    .into()
            }
            Self::DeviceRefused { .. } if IN_BROWSER => {
                "close pages that use the GPU, reload this one, and if that does not help restart the browser and \
                 update the graphics driver."
                    .into()
            }
            Self::DeviceRefused { .. } => {
                "update the driver, end programs that fill the device's memory, or choose another adapter with \
                 --adapter (`wgpu-bert devices` lists them)."
                    .into()
            }
            Self::NoSuchKernels { .. } => "choose among those, or leave the choice to the adapter.".into(),
            Self::Unsupported { instead, .. } => format!("{instead}."),
        }
    }
}

/// What helps in a browser; nothing for causes outside of one.
fn in_browser(cause: AbsenceCause) -> Option<&'static str> {
    Some(match cause {
        AbsenceCause::NoDriver => return None,
        AbsenceCause::InsecureContext => {
            "open the page by an address that starts with https://, or on the machine that serves it by \
             http://localhost."
        }
        AbsenceCause::NoWebGpuApi(Browser::Chromium) => {
            "update the browser: Chrome and Edge have WebGPU since version 113, on Android since 121."
        }
        AbsenceCause::NoWebGpuApi(Browser::Firefox) => {
            "open about:config and set dom.webgpu.enabled to true, then load the page again; if there is no such \
             setting, update Firefox."
        }
        AbsenceCause::NoWebGpuApi(Browser::Safari) => {
            "update the system: Safari has WebGPU since version 26. In version 18 it can be turned on under \
             Settings, Apps, Safari, Advanced, Feature Flags (on a Mac: Develop, Feature Flags)."
        }
        AbsenceCause::NoWebGpuApi(Browser::Node) => {
            "install the npm package webgpu beside this one: npm install webgpu."
        }
        AbsenceCause::NoBrowserAdapter(Browser::Chromium) => {
            "turn on graphics acceleration in the browser's settings under System, and update the graphics driver; \
             chrome://gpu says what else is in the way. On Linux set chrome://flags/#enable-unsafe-webgpu to Enabled. \
             Without a GPU start the browser with --enable-unsafe-webgpu --use-webgpu-adapter=swiftshader, which \
             computes on the processor and is slow."
        }
        AbsenceCause::NoBrowserAdapter(Browser::Firefox) => {
            "update the graphics driver (on Linux a Vulkan driver must be installed). If that does not help, open \
             about:config, set gfx.webgpu.ignore-blocklist to true, and restart Firefox."
        }
        AbsenceCause::NoBrowserAdapter(Browser::Safari) => {
            "update the system; a virtual machine may not pass its GPU on."
        }
        AbsenceCause::NoBrowserAdapter(Browser::Node) => {
            "install the GPU's current driver, on Linux with Vulkan. Without a GPU a software driver for Vulkan does, \
             such as Mesa's lavapipe (mesa-vulkan-drivers on Debian and Ubuntu) in version 25, which computes on the \
             processor and is slow."
        }
        AbsenceCause::NoWebGpuApi(Browser::Other) | AbsenceCause::NoBrowserAdapter(Browser::Other) => {
            OTHER_BROWSER
        }
    })
}

const OTHER_BROWSER: &str = "use a current Chrome, Edge, Firefox or Safari on a machine with a GPU.";

const INSTALL_A_DRIVER: &str = if cfg!(target_os = "macos") {
    "run on a Mac with Metal, which comes with the system (a virtual machine may not pass its GPU on)."
} else if cfg!(target_os = "windows") {
    "install the GPU maker's current driver; it brings DirectX 12 and Vulkan."
} else {
    "install a Vulkan driver. For AMD, Intel, or none (computing on the processor): `apt-get install \
     mesa-vulkan-drivers` on Debian and Ubuntu, `dnf install mesa-vulkan-drivers vulkan-loader` on Fedora, \
     `pacman -S vulkan-icd-loader` with vulkan-radeon, vulkan-intel or vulkan-swrast on Arch. For NVIDIA, its own \
     driver. In a container the GPU must be passed in."
};
