//! Replicas: the same losses and weights as one device, the same bits again, and what happens when one is lost or wrong.

use wgpu_bert::checkpoint::{TensorFile, names::read_parameters};
use wgpu_bert::data::{Features, InstanceSet, PythonRandom};
use wgpu_bert::gpu::{DeviceOptions, Precision};
use wgpu_bert::optimizer::{LossScale, LossScaleState, OptimizerKind, OptimizerOptions, Schedule};
use wgpu_bert::strategy::{Algorithm, AllReduce, StrategyRequest, get_distribution_strategy};
use wgpu_bert::train::{
    Control, Distribution, Event, OutputBiasInit, PretrainOptions, Snapshot, TrainError, run_bert_pretrain,
};

use crate::distribution::{assert_same, long, parts, run};
use crate::harness::device;
use crate::recorded::Recorded;
use crate::small_run::{Setting, bits, setting};
#[cfg(target_os = "linux")]
use crate::workers::two_ranks;

/// The same run on so many replicas.
pub fn replicas(setting: &Setting, count: usize) -> Setting {
    let survey = pollster::block_on(wgpu_bert::gpu::survey());
    // The same adapter as without: there may be others.
    let index = setting.strategy.adapter.index.to_string();
    let strategy =
        get_distribution_strategy(StrategyRequest::Mirrored, &survey, Some(&index)).expect("strategy");
    let strategy = strategy.with_replicas_per_adapter(count).expect("replicas");
    Setting { strategy, ..setting.clone() }
}

fn packs(algorithm: Algorithm, bytes_per_pack: usize) -> Distribution {
    Distribution { all_reduce: AllReduce { algorithm, bytes_per_pack }, ..Distribution::default() }
}

#[test]
fn replicas_make_the_steps_of_one_device() {
    let device = device(None);
    let setting = long(setting(&device, OptimizerKind::AdamW));
    let whole = run(&setting, Distribution::default());
    for (count, distribution) in [
        (1, Distribution::default()),
        (2, Distribution::default()),
        (4, packs(Algorithm::Ring, 512)),
        (2, parts(2)),
    ] {
        let replicated = run(&replicas(&setting, count), distribution);
        assert_same(&format!("{count} replicas, {distribution:?}"), &replicated, &whole);
        let report = replicated.1.replicas;
        assert_eq!(report.as_ref().map_or(1, |report| report.replicas.len()), count);
        if let Some(report) = report {
            // Gradients, with the rows that pad the two parameters of the vocabulary, and the losses and hits of the rows.
            let parameters: usize = replicated.1.tensors.iter().map(|tensor| tensor.data.len()).sum();
            let most = parameters as u64 * 4 + 256 * (replicated.1.tensors.len() as u64 + 2 + 4);
            assert!((parameters as u64 * 4..most).contains(&report.bytes), "{report:?}");
            assert!((0.0..1.0).contains(&report.reduction_share), "{report:?}");
        }
    }
}

#[test]
fn a_layout_gives_the_same_bits_again_whatever_the_packs() {
    let device = device(None);
    let setting = replicas(&setting(&device, OptimizerKind::Lamb), 2);
    let trained = |bytes| bits(&run(&setting, packs(Algorithm::HierarchicalCopy, bytes)).1.tensors);
    let once = trained(0);
    assert_eq!(trained(0), once);
    assert_eq!(trained(300), once);
}

#[test]
fn replicas_that_do_not_divide_a_batch_are_refused_with_the_nearest() {
    let device = device(None);
    let setting = replicas(&setting(&device, OptimizerKind::AdamW), 3);
    let run = run_bert_pretrain(
        Some(&setting.strategy),
        &setting.options,
        setting.features.clone(),
        None,
        &mut [],
        async |_, _| Control::Continue,
    );
    let error = pollster::block_on(run).unwrap_err().to_string();
    assert!(error.contains("3 equal parts") && error.contains("3 and 6"), "{error}");
}

#[test]
fn a_run_goes_on_with_the_same_bits_when_any_replica_loses_its_device() {
    let device = device(None);
    let setting = replicas(&setting(&device, OptimizerKind::AdamW), 2);
    let whole = bits(&run(&setting, Distribution::default()).1.tensors);
    for lost in 0..2 {
        let mut losses = 0;
        let run = run_bert_pretrain(
            Some(&setting.strategy),
            &setting.options,
            setting.features.clone(),
            None,
            &mut [],
            async |event, running| {
                match event {
                    Event::Step(7) if losses == 0 => {
                        running.trainers().nth(lost).expect("a replica").gpu().device.destroy();
                    }
                    Event::DeviceLost { .. } => losses += 1,
                    _ => {}
                }
                Control::Continue
            },
        );
        let trained = pollster::block_on(run).expect("trained");
        assert_eq!((losses, bits(&trained.tensors) == whole), (1, true), "replica {lost}");
    }
}

#[test]
fn a_replica_with_other_weights_ends_the_run() {
    let device = device(None);
    let setting = replicas(&setting(&device, OptimizerKind::AdamW), 2);
    let run = run_bert_pretrain(
        Some(&setting.strategy),
        &setting.options,
        setting.features.clone(),
        None,
        &mut [],
        async |event, running| {
            if let Event::Step(5) = event {
                let (own, other) = (running.trainers().next(), running.trainers().nth(1));
                let (own, other) = (own.expect("the first"), other.expect("the second"));
                let mut weights = own.read_arena(&own.step().weights).await.expect("weights");
                weights[3].data[0] += 1e-6;
                other.write_weights(&weights);
                let snapshot = running.snapshot().await;
                let Err(TrainError::Drift { replicas, parameter }) = snapshot else { panic!("{snapshot:?}") };
                assert_eq!(parameter, weights[3].name);
                assert!(replicas[0].starts_with("0 (") && replicas[1].starts_with("1 ("), "{replicas:?}");
                return Control::Stop;
            }
            Control::Continue
        },
    );
    let ended = pollster::block_on(run);
    assert!(matches!(ended, Ok(_) | Err(TrainError::Drift { .. })), "{ended:?}");
}

/// Set in the process that sees both makes of adapters.
const BOTH: &str = "WGPU_BERT_TEST_BOTH_MAKES";

/// The first steps of TensorFlow's own program on replicas of two makes, which see the Vulkan drivers in `VK_DRIVER_FILES`
/// only when their process starts.
#[cfg(target_os = "linux")]
#[test]
fn the_reference_trajectory_on_two_makes() {
    if std::env::var_os(BOTH).is_some() {
        return two_makes();
    }
    let drivers = ["/usr/share/vulkan/icd.d", "/usr/lib/chromium"].map(|folder| {
        let files = std::fs::read_dir(folder).expect("drivers").flatten().map(|entry| entry.path());
        let is_driver = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".json") && (name.starts_with("lvp_icd") || name.starts_with("vk_swiftshader"))
        };
        files.filter(is_driver).map(|path| path.display().to_string()).next().expect("a driver")
    });
    let output = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--nocapture", "mirrored::the_reference_trajectory_on_two_makes"])
        .envs(["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].map(|name| (name, drivers.join(":"))))
        .env(BOTH, "1")
        .output()
        .expect("the test again");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// So many examples in an order that the shuffling of the first pass over them undoes.
#[cfg(target_os = "linux")]
fn in_turn(records: &Features, count: usize, seed: u64) -> Features {
    let mut order: Vec<usize> = (0..count).collect();
    PythonRandom::new(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)).shuffle(&mut order);
    let mut rows = vec![0; count];
    order.into_iter().enumerate().for_each(|(n, place)| rows[place] = n % records.count());
    records.pick(&rows)
}

/// Steps of it.
#[cfg(target_os = "linux")]
const STEPS: usize = 50;

#[cfg(target_os = "linux")]
fn two_makes() {
    let turn = device(None);
    let folder = Recorded("trajectory");
    let recorded: serde_json::Value =
        serde_json::from_slice(&folder.bytes("tf_trajectory.json")).expect("JSON");
    let recorded = &recorded["runs"]["adamw"];
    let number = |key: &str| recorded[key].as_f64().expect("a number");
    let survey = pollster::block_on(wgpu_bert::gpu::survey());
    let strategy =
        get_distribution_strategy(StrategyRequest::Mirrored, &survey, Some("llvmpipe,swiftshader"))
            .expect("both makes");
    let options = PretrainOptions {
        config: folder.config(),
        batch_size: 16,
        optimizer: OptimizerOptions {
            loss_scale: Some(LossScale::Dynamic),
            ..OptimizerOptions::new(OptimizerKind::AdamW)
        },
        schedule: Schedule {
            init_lr: number("init_lr"),
            end_lr: number("end_lr"),
            total_steps: number("total_steps") as u64,
            warmup_steps: number("warmup_steps"),
            power: 1.0,
        },
        steps_per_epoch: 20,
        num_eval_per_epoch: 1,
        use_next_sentence_label: true,
        steps_per_loop: 1,
        seed: 1,
        recompute: false,
        precision: Precision::default(),
        output_bias_init: OutputBiasInit::Zeros,
        device: DeviceOptions::default(),
        distribution: Distribution::default(),
    };
    let start = folder.bytes("start.safetensors");
    let start = TensorFile::parse(&start, "start.safetensors").expect("start");
    let start = read_parameters(&options.config, &start).expect("parameters");
    // The scale grows on the way, and both must know.
    let scale = LossScaleState { scale: 32768.0, good_steps: 1995, skipped_in_a_row: 0, skipped: 0 };
    let start = Snapshot { loss_scale: Some(scale), ..Snapshot::start_from(&options, start) };
    let mut losses = Vec::new();
    let run = run_bert_pretrain(
        Some(&strategy),
        &options,
        in_turn(&folder.features("records.safetensors"), STEPS * 16, options.seed),
        Some(&start),
        &mut [],
        async |event, running| {
            if let Event::Progress(progress) = event {
                losses.push(f64::from(progress.loss));
                let grown = progress.step >= 5;
                assert_eq!(progress.loss_scale, Some(if grown { 65536.0 } else { 32768.0 }));
                if progress.step == STEPS as u64 {
                    running.snapshot().await.expect("all replicas are alike");
                }
            }
            if losses.len() == STEPS { Control::Stop } else { Control::Continue }
        },
    );
    let trained = pollster::block_on(run).expect("trained");
    let report = trained.replicas.expect("two replicas");
    assert!(report.replicas[0].0.contains("llvmpipe") && report.replicas[1].0.contains("SwiftShader"));
    let ranks = ["llvmpipe", "swiftshader"].map(|adapter| {
        let mut setting = setting(&turn, OptimizerKind::AdamW);
        setting.options.device.family = None;
        let strategy = get_distribution_strategy(StrategyRequest::OneDevice, &survey, Some(adapter));
        Setting { strategy: strategy.expect(adapter), ..setting }
    });
    // At their end all weights are compared.
    let [first, second] =
        two_ranks(ranks, async |_, _, _| {}).map(|rank| bits(&rank.expect("trained").tensors));
    assert!(first == second, "ranks of two makes have different weights");
    let recorded = recorded["steps"].as_array().expect("steps").iter().take(STEPS);
    assert!(losses.len() >= STEPS);
    for (step, (loss, want)) in losses.iter().zip(recorded).enumerate() {
        let want = want["loss"].as_f64().expect("loss");
        assert!((loss - want).abs() <= 5e-4, "step {}: {loss}, not {want}", step + 1);
    }
}
