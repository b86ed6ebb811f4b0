//! The backends of an operating system: Vulkan, Metal, DirectX 12 and OpenGL.

use std::path::Path;

use super::{Absence, AbsenceCause, AdapterReport, Survey};

pub(super) async fn survey() -> Survey {
    let mut survey = Survey::default();
    for backend in [wgpu::Backend::Vulkan, wgpu::Backend::Metal, wgpu::Backend::Dx12, wgpu::Backend::Gl] {
        let backends = wgpu::Backends::from(backend);
        if !wgpu::Instance::enabled_backend_features().contains(backends) {
            continue;
        }
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = backends;
        // llvmpipe of older Mesa is Vulkan 1.3 but not certified; it computes correctly all the same.
        descriptor.flags = wgpu::InstanceFlags::ALLOW_UNDERLYING_NONCOMPLIANT_ADAPTER;
        let found = wgpu::Instance::new(descriptor).enumerate_adapters(backends).await;
        let before = survey.adapters.len();
        for adapter in found {
            let report = AdapterReport::new(survey.adapters.len(), adapter);
            // A software rasterizer behind OpenGL is no device of this machine that Vulkan would not show, and
            // would hide that the Vulkan driver asked for is missing.
            if backend != wgpu::Backend::Gl || report.kind.is_gpu() {
                survey.adapters.push(report);
            }
        }
        if survey.adapters.len() == before {
            let (backend, cause) = (backend.to_str().to_string(), AbsenceCause::NoDriver);
            survey.absences.push(Absence { reason: reason_for_none(&backend), cause, backend });
        }
    }
    survey
}

pub(super) fn tell_when_given_work() -> bool {
    false
}

pub(super) fn has_readable_textures(adapter: &wgpu::Adapter) -> bool {
    let features = adapter.get_texture_format_features(wgpu::TextureFormat::Rgba32Float);
    features.flags.contains(wgpu::TextureFormatFeatureFlags::STORAGE_READ_ONLY)
}

pub(super) async fn to_open(report: &AdapterReport) -> Option<wgpu::Adapter> {
    report.handle.clone()
}

pub(super) fn is_same(a: &AdapterReport, b: &AdapterReport) -> bool {
    (&a.name, &a.backend) == (&b.name, &b.backend)
}

/// The Vulkan loader answers an empty list for many causes; the environment tells some of them apart.
fn reason_for_none(backend: &str) -> String {
    if backend != "vulkan" {
        return "no driver answered".into();
    }
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        let Ok(value) = std::env::var(variable) else { continue };
        if value.is_empty() {
            return format!("{variable} is set but names no driver");
        }
        let missing: Vec<_> = std::env::split_paths(&value).filter(|p| !Path::new(p).exists()).collect();
        return match missing.first() {
            Some(path) => format!("{variable} names {}, which does not exist", path.display()),
            None => format!("no driver answered among those {variable} names"),
        };
    }
    "no Vulkan driver answered (is one installed, and the Vulkan loader?)".into()
}
