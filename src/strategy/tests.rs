//! Surveys made by hand, and what is derived from them.

use super::*;
use crate::gpu::{
    Absence, AbsenceCause, AdapterKind, AdapterReport, Browser, DeviceOptions, KernelFamily, Survey,
};

fn survey(adapters: &[(&str, &str, AdapterKind)]) -> Survey {
    let report = |(index, &(name, backend, kind)): (usize, &(&str, &str, AdapterKind))| AdapterReport {
        backend: backend.into(),
        kind,
        ..AdapterReport::made_up(index, name)
    };
    Survey { adapters: adapters.iter().enumerate().map(report).collect(), absences: Vec::new() }
}

fn absence(backend: &str, cause: AbsenceCause, reason: &str) -> Absence {
    Absence { backend: backend.into(), cause, reason: reason.into() }
}

fn auto(survey: &Survey) -> Result<Strategy, StrategyError> {
    get_distribution_strategy(StrategyRequest::Auto, survey, None)
}

fn named(survey: &Survey, adapter: &str) -> Result<usize, StrategyError> {
    get_distribution_strategy(StrategyRequest::OneDevice, survey, Some(adapter)).map(|s| s.adapter.index)
}

const LLVMPIPE: (&str, &str, AdapterKind) =
    ("llvmpipe (LLVM 15.0.6, 256 bits)", "vulkan", AdapterKind::Software);
const LLVMPIPE_GL: (&str, &str, AdapterKind) =
    ("llvmpipe (LLVM 15.0.6, 256 bits)", "gl", AdapterKind::Software);
const INTEL: (&str, &str, AdapterKind) =
    ("Intel(R) UHD Graphics 620 (KBL GT2)", "vulkan", AdapterKind::Integrated);
const INTEL_GL: (&str, &str, AdapterKind) =
    ("Mesa Intel(R) UHD Graphics 620 (KBL GT2)", "gl", AdapterKind::Discrete);
const NVIDIA: (&str, &str, AdapterKind) = ("NVIDIA GeForce RTX 3080", "vulkan", AdapterKind::Discrete);
const NVIDIA_DX12: (&str, &str, AdapterKind) = ("NVIDIA GeForce RTX 3080", "dx12", AdapterKind::Discrete);
const NVIDIA_GL: (&str, &str, AdapterKind) =
    ("NVIDIA GeForce RTX 3080/PCIe/SSE2", "gl", AdapterKind::Unknown);
const VIRTIO: (&str, &str, AdapterKind) = ("Virtio-GPU", "vulkan", AdapterKind::Virtual);
const OTHER: (&str, &str, AdapterKind) = ("Something", "vulkan", AdapterKind::Unknown);

#[test]
fn auto_takes_the_best_kind() {
    for (adapters, best) in [
        (&[LLVMPIPE, OTHER, INTEL, NVIDIA][..], 3),
        (&[LLVMPIPE, OTHER, INTEL], 2),
        (&[LLVMPIPE, OTHER, VIRTIO], 2),
        (&[LLVMPIPE, OTHER], 1),
        (&[LLVMPIPE], 0),
        (&[NVIDIA, INTEL], 0),
        (&[LLVMPIPE, NVIDIA_GL], 1),
    ] {
        let strategy = auto(&survey(adapters)).unwrap();
        assert_eq!((strategy.kind, strategy.adapter.index), (StrategyKind::OneDevice, best), "{adapters:?}");
    }
}

#[test]
fn one_device_through_several_backends_counts_once_and_through_the_best() {
    // OpenGL guesses the kind of a device, and may flatter it.
    let strategy = auto(&survey(&[INTEL_GL, INTEL])).unwrap();
    assert_eq!(strategy.adapter.backend, "vulkan");
    assert!(strategy.why.contains("the only adapter"), "{}", strategy.why);
    let both = survey(&[NVIDIA_GL, NVIDIA_DX12, NVIDIA, LLVMPIPE_GL, LLVMPIPE]);
    assert_eq!(auto(&both).unwrap().adapter.index, 2);
    assert!(auto(&both).unwrap().why.contains("the best of 2 adapters"));
    // A better backend that cannot run the kernels does not shadow one that can.
    let mut broken = survey(&[NVIDIA, NVIDIA_DX12]);
    broken.adapters[0].max_storage_buffers = 4;
    assert_eq!(auto(&broken).unwrap().adapter.index, 1);
}

#[test]
fn a_software_adapter_is_used_with_a_notice() {
    let notice = auto(&survey(&[LLVMPIPE])).unwrap().notice.unwrap();
    assert!(notice.contains("llvmpipe") && notice.contains("slow") && !notice.contains('\n'), "{notice}");
    assert!(auto(&survey(&[NVIDIA])).unwrap().notice.is_none());
    let both = survey(&[NVIDIA, LLVMPIPE]);
    let chosen = get_distribution_strategy(StrategyRequest::Auto, &both, Some("1")).unwrap();
    assert!(chosen.notice.is_some());
}

#[test]
fn without_a_usable_adapter_the_error_says_what_was_found() {
    let mut nothing = survey(&[]);
    nothing.absences.push(absence("vulkan", AbsenceCause::NoDriver, "no driver answered"));
    nothing.absences.push(absence("gl", AbsenceCause::NoDriver, "nobody home"));
    for adapter in [None, Some("nvidia")] {
        let error = get_distribution_strategy(StrategyRequest::Auto, &nothing, adapter).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("Distribution strategy is not specified. "), "{message}");
        for part in ["vulkan: no driver answered", "gl: nobody home", &error.advice()] {
            assert!(message.contains(part), "{message} should contain {part}");
        }
        assert_eq!((error.code(), error.reason()), ("DISTRIBUTION_STRATEGY_NOT_SPECIFIED", "no_adapter"));
    }

    let mut weak = survey(&[NVIDIA]);
    weak.adapters[0].max_invocations = 128;
    for adapter in [None, Some("0"), Some("geforce")] {
        let error = get_distribution_strategy(StrategyRequest::Auto, &weak, adapter).unwrap_err();
        let message = error.to_string();
        assert_eq!(error.reason(), "no_adapter");
        assert!(message.contains("NVIDIA") && message.contains("128 invocations"), "{message}");
    }
}

#[test]
fn an_adapter_is_named_by_index_or_by_a_part_of_its_name() {
    let all = survey(&[NVIDIA, LLVMPIPE, LLVMPIPE_GL, INTEL, NVIDIA]);
    assert_eq!(named(&all, "3").unwrap(), 3);
    assert_eq!(named(&all, " 2 ").unwrap(), 2);
    assert_eq!(named(&all, "LLVMpipe").unwrap(), 1);
    assert_eq!(named(&all, "uhd graphics").unwrap(), 3);
    assert_eq!(named(&all, "620").unwrap(), 3);

    let ambiguous = named(&all, "geforce").unwrap_err();
    let message = ambiguous.to_string();
    assert!(message.contains("0: NVIDIA") && message.contains("4: NVIDIA"), "{message}");
    assert!(!message.contains("llvmpipe"), "{message}");
    // 5 is no index; that there is a 15 in one name and a 256 in another makes it no name either.
    for wanted in ["3080", "9", "5", "radeon"] {
        let error = named(&all, wanted).unwrap_err();
        assert!(error.reason() == "no_adapter" && error.to_string().contains(wanted), "{error}");
    }
    let listed = named(&all, "radeon").unwrap_err().to_string();
    assert!(all.adapters.iter().all(|adapter| listed.contains(&adapter.name)), "{listed}");

    // A name that is part of another one still means itself.
    let longer = ("NVIDIA GeForce RTX 3080 Ti", "vulkan", AdapterKind::Discrete);
    assert_eq!(named(&survey(&[longer, NVIDIA]), "nvidia geforce rtx 3080").unwrap(), 1);
}

#[test]
fn names_are_read_in_any_case_and_unknown_ones_refused() {
    for (name, request) in [
        ("auto", StrategyRequest::Auto),
        ("One_Device", StrategyRequest::OneDevice),
        ("MIRRORED", StrategyRequest::Mirrored),
        ("multi_worker_mirrored", StrategyRequest::MultiWorkerMirrored),
        ("off", StrategyRequest::Off),
        ("TPU", StrategyRequest::Tpu),
        ("parameter_server", StrategyRequest::ParameterServer),
        ("central_storage", StrategyRequest::CentralStorage),
    ] {
        assert_eq!(name.parse::<StrategyRequest>().unwrap(), request);
        assert_eq!(request.name(), name.to_lowercase());
    }
    let error = "default".parse::<StrategyRequest>().unwrap_err();
    assert_eq!(error.reason(), "unsupported_strategy");
    let message = error.to_string();
    for part in ["Distribution strategy is not specified.", "\"default\"", "auto", "one_device"] {
        assert!(message.contains(part), "{message} should contain {part}");
    }
}

#[test]
fn strategies_not_built_here_are_refused_by_name_whatever_adapters_there_are() {
    let one = survey(&[NVIDIA]);
    let refused = |request| get_distribution_strategy(request, &one, None).unwrap_err();
    for request in [StrategyRequest::Tpu, StrategyRequest::ParameterServer, StrategyRequest::CentralStorage] {
        let error = refused(request);
        let message = error.to_string();
        assert_eq!(error.reason(), "unsupported_strategy");
        assert!(message.contains(&format!("\"{}\"", request.name())), "{message}");
        assert!(error.advice().contains("one_device"), "{message}");
    }
    let off = refused(StrategyRequest::Off);
    assert_eq!(off.reason(), "not_given");
    assert_eq!(off.to_string(), StrategyError::NotGiven.to_string());
}

/// What there is after these adapters are mirrored: the kind, and the index of every replica's adapter.
fn mirrored(survey: &Survey, adapter: Option<&str>) -> Result<(StrategyKind, Vec<usize>), StrategyError> {
    let strategy = get_distribution_strategy(StrategyRequest::Mirrored, survey, adapter)?;
    Ok((strategy.kind, strategy.replicas().map(|adapter| adapter.index).collect()))
}

#[test]
fn mirrored_takes_every_gpu_or_those_named() {
    let all = survey(&[LLVMPIPE, INTEL, NVIDIA, NVIDIA_GL, OTHER]);
    let found = |indices: &[usize]| (StrategyKind::Mirrored, indices.to_vec());
    assert_eq!(mirrored(&all, None).unwrap(), found(&[2, 1, 4]));
    assert_eq!(mirrored(&all, Some("1, 0")).unwrap(), found(&[1, 0]));
    assert_eq!(mirrored(&all, Some("llvmpipe,geforce")).unwrap(), found(&[0, 2]));
    // A whole name may have a comma.
    assert_eq!(mirrored(&all, Some(LLVMPIPE.0)).unwrap(), found(&[0]));
    assert_eq!(mirrored(&survey(&[LLVMPIPE]), None).unwrap(), found(&[0]));
    assert!(mirrored(&all, Some("1,radeon")).unwrap_err().to_string().contains("radeon"));
    assert_eq!(mirrored(&survey(&[]), None).unwrap_err().reason(), "no_adapter");
}

#[test]
fn auto_mirrors_equal_gpus_only() {
    let kinds = |adapters: &[_]| {
        (auto(&survey(adapters)).unwrap().kind, auto(&survey(adapters)).unwrap().others.len())
    };
    assert_eq!(kinds(&[NVIDIA, NVIDIA]), (StrategyKind::Mirrored, 1));
    assert_eq!(kinds(&[INTEL, NVIDIA]), (StrategyKind::OneDevice, 0));
    assert_eq!(kinds(&[NVIDIA, NVIDIA_DX12, NVIDIA_GL]), (StrategyKind::OneDevice, 0));
    assert_eq!(kinds(&[LLVMPIPE, LLVMPIPE]), (StrategyKind::OneDevice, 0));
    let named =
        get_distribution_strategy(StrategyRequest::Auto, &survey(&[NVIDIA, NVIDIA]), Some("1")).unwrap();
    assert_eq!(named.kind, StrategyKind::OneDevice);
}

#[test]
fn replicas_share_the_least_limits_and_adapters() {
    let mut two = survey(&[NVIDIA, INTEL]);
    two.adapters[1].max_binding_size = 1 << 20;
    let strategy = get_distribution_strategy(StrategyRequest::Mirrored, &two, None).unwrap();
    assert!(strategy.replicas().all(|adapter| adapter.max_binding_size == 1 << 20));
    let four = strategy.with_replicas_per_adapter(2).unwrap();
    let indices: Vec<_> = four.replicas().map(|adapter| adapter.index).collect();
    assert_eq!(indices, [0, 0, 1, 1]);
    let error = auto(&survey(&[NVIDIA])).unwrap().with_replicas_per_adapter(2).unwrap_err();
    assert!(error.to_string().contains("mirrored"), "{error}");
}

#[test]
fn several_adapters_want_mirrored() {
    let two = survey(&[NVIDIA, INTEL]);
    for request in [StrategyRequest::Auto, StrategyRequest::OneDevice] {
        let error = get_distribution_strategy(request, &two, Some("0,1")).unwrap_err().to_string();
        assert!(error.contains("mirrored for several adapters"), "{error}");
        let error = get_distribution_strategy(request, &two, Some("0,7")).unwrap_err().to_string();
        assert!(error.contains("No adapter is called \"0,7\""), "{error}");
    }
}

#[test]
fn several_processes_need_mpi() {
    let derived =
        get_distribution_strategy(StrategyRequest::MultiWorkerMirrored, &survey(&[NVIDIA, INTEL]), None);
    if cfg!(feature = "mpi") {
        let strategy = derived.unwrap().with_replicas_per_adapter(2).unwrap();
        assert_eq!((strategy.kind, strategy.replicas().count()), (StrategyKind::MultiWorkerMirrored, 4));
        assert_eq!(strategy.workers(), 1);
    } else {
        let error = derived.unwrap_err();
        assert_eq!(error.reason(), "unsupported_strategy");
        assert!(error.to_string().contains("--features mpi"), "{error}");
    }
}

#[test]
fn a_device_that_does_not_open_is_told_by_adapter() {
    // A survey made by hand holds no adapter to open.
    let strategy = auto(&survey(&[NVIDIA])).unwrap();
    let error = pollster::block_on(strategy.open(Default::default())).unwrap_err();
    assert_eq!(error.reason(), "device_refused");
    assert!(error.to_string().contains("0: NVIDIA GeForce RTX 3080 (vulkan, discrete GPU)"), "{error}");
}

#[test]
fn kernels_that_an_adapter_cannot_run_are_told_with_those_it_can() {
    let strategy = auto(&survey(&[NVIDIA])).unwrap();
    let options = DeviceOptions { family: Some(KernelFamily::Subgroup), ..DeviceOptions::default() };
    let error = pollster::block_on(strategy.open(options)).unwrap_err().to_string();
    assert!(error.contains("cannot run the subgroup kernels, but register, workgroup, tile"), "{error}");
    assert!(!error.contains("driver"), "{error}");
}

#[test]
fn in_a_browser_the_reason_and_the_advice_fit_it() {
    let browsers = [Browser::Chromium, Browser::Firefox, Browser::Safari, Browser::Node, Browser::Other];
    let mut causes = vec![(AbsenceCause::InsecureContext, "insecure_context")];
    causes.extend(browsers.map(|browser| (AbsenceCause::NoWebGpuApi(browser), "no_webgpu_api")));
    causes.extend(browsers.map(|browser| (AbsenceCause::NoBrowserAdapter(browser), "no_adapter")));
    let mut advices = Vec::new();
    for (cause, reason) in causes {
        let nothing = Survey { absences: vec![absence("webgpu", cause, "the answer")], ..Default::default() };
        let error = auto(&nothing).unwrap_err();
        let message = error.to_string();
        assert_eq!((error.code(), error.reason()), ("DISTRIBUTION_STRATEGY_NOT_SPECIFIED", reason));
        assert!(message.starts_with("Distribution strategy is not specified. "), "{message}");
        assert!(message.contains("the answer") && message.contains(&error.advice()), "{message}");
        advices.push(error.advice());
    }
    let (insecure, rest) = advices.split_first().unwrap();
    let (no_api, no_adapter) = rest.split_at(browsers.len());
    assert!(insecure.contains("https://"));
    for advices in [no_api, no_adapter] {
        for (advice, words) in
            advices.iter().zip(["Chrome", "about:config", "system", "install", "Chrome, Edge, Firefox"])
        {
            assert!(advice.contains(words) || advice.contains(&words.to_lowercase()), "{advice}: {words}");
        }
    }
}
