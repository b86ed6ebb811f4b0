//! Which kernels a device gets: asked for, measured, or by class.

use std::time::Instant;

use wgpu_bert::gpu::{AdapterKind, AdapterReport, DeviceOptions, Gpu, KernelFamily, RowKernels, survey};
use wgpu_bert::strategy::{Strategy, StrategyRequest, get_distribution_strategy};
use wgpu_bert::train::{KnownKernels, measure_kernels};

use crate::harness::device;

/// Those whose kernels a software adapter's driver compiles soon.
fn candidates(adapter: &AdapterReport) -> Vec<KernelFamily> {
    adapter.families().into_iter().filter(|family| *family != KernelFamily::Workgroup).collect()
}

fn strategy() -> Strategy {
    let survey = pollster::block_on(survey());
    get_distribution_strategy(StrategyRequest::OneDevice, &survey, Some("0")).expect("an adapter")
}

fn measure(strategy: &mut Strategy, options: DeviceOptions, known: &mut KnownKernels) {
    pollster::block_on(measure_kernels(strategy, options, known, candidates));
}

#[test]
fn the_fastest_are_measured_once_and_known_from_then_on() {
    let _turn = device(KernelFamily::Register);
    let (options, mut known) = (DeviceOptions::default(), KnownKernels::default());
    let mut first = strategy();
    let start = Instant::now();
    measure(&mut first, options, &mut known);
    println!("measured in {:.2} s", start.elapsed().as_secs_f64());
    let fastest = first.adapter.fastest.expect("measured");
    // By as much as no busy machine hides: all others are twice as fast, on llvmpipe and on SwiftShader.
    assert_ne!(fastest, KernelFamily::Register);
    assert_eq!(options.told_on(&first.adapter), format!("{} (measured fastest)", fastest.name()));
    let gpu = pollster::block_on(first.open(options)).expect("a device");
    assert_eq!((gpu.kernels.products, gpu.kernels.rows), (fastest, RowKernels::Invocation));

    // Without a handle no device can be opened, so nothing measured.
    let unopened = || {
        let mut strategy = strategy();
        strategy.adapter.handle = None;
        strategy
    };
    let mut again = unopened();
    let mut kept = KnownKernels::parse(&known.to_json());
    measure(&mut again, options, &mut kept);
    assert_eq!(again.adapter.fastest, Some(fastest));
    let mut other_driver = unopened();
    other_driver.adapter.driver += " updated";
    measure(&mut other_driver, options, &mut kept);
    assert_eq!(other_driver.adapter.fastest, None);
    assert!(options.told_on(&other_driver.adapter).ends_with(" (by class)"));
    assert_eq!(kept, known);

    let mut asked = strategy();
    let register = DeviceOptions { family: Some(KernelFamily::Register), ..options };
    let mut nothing = KnownKernels::default();
    measure(&mut asked, register, &mut nothing);
    assert_eq!((asked.adapter.fastest, &nothing), (None, &KnownKernels::default()));
    measure(&mut asked, options, &mut known);
    assert_eq!(register.told_on(&asked.adapter), "register (asked for)");
    assert_eq!(register.kernels_on(&asked.adapter), KernelFamily::Register.into());
}

/// Two replicas on one adapter have the same kernels, of one measurement.
#[test]
fn adapters_alike_are_measured_once() {
    let _turn = device(KernelFamily::Register);
    let survey = pollster::block_on(survey());
    let mirrored = get_distribution_strategy(StrategyRequest::Mirrored, &survey, Some("0"));
    let mut strategy = mirrored.and_then(|one| one.with_replicas_per_adapter(2)).expect("two replicas");
    // Only the first can be opened.
    strategy.others[0].handle = None;
    measure(&mut strategy, DeviceOptions::default(), &mut KnownKernels::default());
    assert!(strategy.adapter.fastest.is_some());
    assert_eq!(strategy.others[0].fastest, strategy.adapter.fastest);
}

#[test]
fn software_adapters_have_one_candidate_and_gpus_several() {
    let turn = device(None);
    let adapter = turn.gpu.adapter.clone();
    assert_eq!(adapter.kind, AdapterKind::Software);
    assert_eq!(adapter.candidates(), [turn.gpu.kernels.products]);
    let gpu = AdapterReport { kind: AdapterKind::Integrated, has_subgroups_of_8: false, ..adapter };
    let mut all = vec![KernelFamily::Workgroup, KernelFamily::Register, KernelFamily::Tile];
    all.extend(gpu.has_readable_textures.then_some(KernelFamily::Texture));
    assert_eq!(gpu.candidates(), all);
    let measured = AdapterReport { fastest: Some(KernelFamily::Tile), ..gpu };
    let kernels = DeviceOptions::default().kernels_on(&measured);
    assert_eq!((kernels.products, kernels.rows), (KernelFamily::Tile, RowKernels::Workgroup));
    // Whatever was measured, the device is opened with it.
    let opened = pollster::block_on(Gpu::open(&measured, DeviceOptions::default())).expect("a device");
    assert_eq!(opened.kernels, kernels);
}
