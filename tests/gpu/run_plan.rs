//! What is known of a run before it starts: its plan, the kernels to compile, and the time of a step.

use wgpu_bert::data::Features;
use wgpu_bert::gpu::{DeviceOptions, Gpu, KernelFamily, Precision, survey};
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::model::{BatchShape, StepKind, Task};
use wgpu_bert::optimizer::{OptimizerKind, OptimizerOptions, Schedule};
use wgpu_bert::strategy::{Strategy, StrategyRequest, get_distribution_strategy};
use wgpu_bert::train::{
    Compiling, Control, Distribution, Event, MemoryUse, OutputBiasInit, PretrainOptions, PretrainRun,
    RunMemory, TrainError, Trainer, measure_step, plan_run,
};

use crate::harness::{FAMILIES, device, families};

const SEQ_LENGTH: usize = 12;
const PREDICTIONS: usize = 3;
const IN_ONE_PIECE: Distribution = Distribution::in_parts(1);

fn strategy() -> Strategy {
    let survey = pollster::block_on(survey());
    get_distribution_strategy(StrategyRequest::Auto, &survey, None).expect("strategy")
}

fn options() -> PretrainOptions {
    let config = BertConfig::preset("tiny", 40).expect("tiny");
    PretrainOptions {
        config: BertConfig { hidden_size: 8, num_hidden_layers: 1, intermediate_size: 12, ..config },
        batch_size: 4,
        optimizer: OptimizerOptions::new(OptimizerKind::AdamW),
        schedule: Schedule { init_lr: 1e-2, end_lr: 0.0, total_steps: 2, warmup_steps: 1.0, power: 1.0 },
        steps_per_epoch: 2,
        num_eval_per_epoch: 1,
        use_next_sentence_label: true,
        steps_per_loop: 1,
        seed: 7,
        recompute: false,
        precision: Precision::default(),
        output_bias_init: OutputBiasInit::Zeros,
        device: DeviceOptions::default(),
        distribution: Distribution::default(),
    }
}

fn features(count: usize) -> Features {
    Features {
        origin: "test".into(),
        seq_length: SEQ_LENGTH,
        predictions: PREDICTIONS,
        input_ids: vec![6; count * SEQ_LENGTH],
        input_mask: vec![1; count * SEQ_LENGTH],
        segment_ids: vec![0; count * SEQ_LENGTH],
        masked_lm_positions: [1, 2, 3].repeat(count),
        masked_lm_ids: vec![7; count * PREDICTIONS],
        masked_lm_weights: vec![1.0; count * PREDICTIONS],
        next_sentence_labels: vec![0; count],
    }
}

#[test]
fn a_run_is_what_was_planned_and_compiles_kernel_after_kernel() {
    let strategy = strategy();
    for family in FAMILIES {
        let _turn = device(family);
        for (kind, next_sentence, batch_size) in
            [(OptimizerKind::AdamW, true, 4), (OptimizerKind::Lamb, false, 3)]
        {
            let options = PretrainOptions {
                optimizer: OptimizerOptions::new(kind),
                use_next_sentence_label: next_sentence,
                batch_size,
                device: DeviceOptions { family: Some(family), ..DeviceOptions::default() },
                ..options()
            };
            let plan = plan_run(Some(&strategy), &options, SEQ_LENGTH, PREDICTIONS).expect("plan");
            assert!(plan.misfit.is_none());
            let mut told = Vec::new();
            let tell = |event| told.push(event);
            let run = PretrainRun::prepare(Some(&strategy), &options, features(8), None, tell);
            let run = pollster::block_on(run).expect("prepared");
            let total = told.len() - 1;
            assert!(total > 10);
            assert!(told.into_iter().eq((0..=total).map(|done| Event::Compiling(Compiling { done, total }))));
            let trained = pollster::block_on(run.train(&mut [], async |event, _| {
                if let Event::Started(started) = event {
                    assert_eq!(started.parameters as u64, plan.parameters);
                    assert_eq!(started.bytes, plan.bytes);
                    assert_eq!(started.dispatches, plan.dispatches);
                    assert_eq!((started.gradient_accumulation_steps, started.notice), (1, None));
                }
                Control::Continue
            }));
            assert_eq!(trained.expect("trained").steps, 2);
        }
    }
}

#[test]
fn an_adapter_is_checked_by_the_first_run_of_a_process_only() {
    let _turn = device(FAMILIES[0]);
    let strategy = strategy();
    // As no other test opens one.
    let device = DeviceOptions { runtime_checks: true, timestamps: true, ..DeviceOptions::default() };
    let options = PretrainOptions { device, ..options() };
    let [first, second] = [(); 2].map(|()| {
        let run = PretrainRun::prepare(Some(&strategy), &options, features(8), None, |_| {});
        let run = pollster::block_on(run).expect("prepared");
        let mut compiled = 0;
        let trained = pollster::block_on(run.train(&mut [], async |event, running| {
            if let Event::Started(_) = event {
                compiled = running.gpu().created().pipelines;
            }
            Control::Continue
        }));
        assert_eq!(trained.expect("trained").steps, 2);
        compiled
    });
    assert!(first > second && second > 10, "{first} and {second} kernels");
}

/// Buffers of a device, and the bytes that its driver gave them and textures, which are not counted.
fn allocated(gpu: &Gpu) -> [isize; 2] {
    // What was written through buffers of its own has arrived.
    gpu.queue.submit([]);
    gpu.device.poll(wgpu::PollType::wait_indefinitely()).expect("poll");
    let counters = gpu.device.get_internal_counters().hal;
    [counters.buffers.read(), counters.buffer_memory.read() + counters.texture_memory.read()]
}

#[test]
fn the_memory_that_is_planned_is_allocated() {
    let strategy = strategy();
    for (family, kind) in families().into_iter().zip([OptimizerKind::AdamW, OptimizerKind::Lamb].repeat(2)) {
        let device = device(family);
        let options = PretrainOptions {
            optimizer: OptimizerOptions::new(kind),
            steps_per_loop: 2,
            device: DeviceOptions { family: Some(family), ..DeviceOptions::default() },
            ..options()
        };
        let plan = plan_run(Some(&strategy), &options, SEQ_LENGTH, PREDICTIONS).expect("plan");
        let before = allocated(&device.gpu);
        let shape = BatchShape { batch_size: 4, seq_length: SEQ_LENGTH, predictions: PREDICTIONS };
        let step = StepKind {
            next_sentence: true,
            task: Task::Train(options.optimizer),
            records: 2,
            recompute: false,
            precision: Precision::default(),
        };
        let trainer = Trainer::new(device.gpu.clone(), &options.config, shape, step);
        let trainer = pollster::block_on(trainer).expect("trainer");
        let after = allocated(&device.gpu);

        assert_eq!(trainer.memory(), plan.memory);
        let (textures, others): (Vec<_>, Vec<_>) =
            plan.memory.uses.iter().partition(|part| part.purpose == "textures");
        assert_eq!(textures.is_empty(), family != KernelFamily::Texture);
        let buffers: Vec<_> = others.iter().flat_map(|part| &part.buffers).collect();
        assert_eq!(after[0] - before[0], buffers.len() as isize);
        // Drivers round sizes up.
        let rounded = (after[1] - before[1]) - plan.bytes as isize;
        assert!((0..256 * buffers.len() as isize).contains(&rounded), "{} bytes: {rounded}", plan.bytes);

        let bytes =
            |purpose| plan.memory.uses.iter().find(|part| part.purpose == purpose).map(MemoryUse::bytes);
        assert!(bytes("weights") >= Some(4 * plan.parameters));
        assert_eq!(bytes("gradients"), bytes("weights"));
        assert_eq!(bytes("moments"), bytes("weights").map(|bytes| 2 * bytes));
        assert_eq!(bytes("parameters"), Some(256 * plan.dispatches as u64));
        let activations = plan.memory.uses.iter().find(|part| part.purpose == "activations").expect("some");
        assert!(activations.bytes() < activations.tensor_bytes(), "they share buffers");
        assert!(activations.buffers.len() < activations.tensors());
    }
}

#[test]
fn base_fits_the_limits_that_every_adapter_grants() {
    let mut strategy = strategy();
    (strategy.adapter.max_buffer_size, strategy.adapter.max_binding_size) = (256 << 20, 128 << 20);
    let plan = |recompute| {
        let config = BertConfig::preset("base", 30522).expect("base");
        let options = PretrainOptions { config, batch_size: 8, recompute, ..options() };
        plan_run(Some(&strategy), &options, 128, 20).expect("plan")
    };
    let activations = [false, true].map(|recompute| {
        let plan = plan(recompute);
        assert!(plan.misfit.is_none(), "{:?}", plan.misfit);
        for buffer in plan.memory.uses.iter().flat_map(|part| &part.buffers) {
            assert!(buffer.bytes <= 128 << 20, "{buffer:?}");
            assert!(buffer.tensors.iter().all(|tensor| tensor.bytes <= buffer.bytes), "{buffer:?}");
        }
        let part = |purpose| plan.memory.uses.iter().find(|part| part.purpose == purpose).expect("some");
        assert_eq!((plan.parameters, part("weights").buffers.len()), (110_106_428, 4));
        part("activations").bytes()
    });
    let [kept, again] = activations.map(|bytes| bytes >> 20);
    assert!(kept > 500 && again < 200, "{again} MiB instead of {kept}");
}

#[test]
fn what_does_not_fit_is_told_with_the_batch_that_would() {
    let mut strategy = strategy();
    let plan = |strategy: &Strategy, batch_size| {
        let options = PretrainOptions { batch_size, distribution: IN_ONE_PIECE, ..options() };
        plan_run(Some(strategy), &options, SEQ_LENGTH, PREDICTIONS).expect("plan")
    };
    strategy.adapter.max_binding_size = 100_000;
    let too_large = plan(&strategy, usize::MAX >> 8);
    let Some(TrainError::DoesNotFit { largest, .. }) = too_large.misfit else { panic!("{too_large:?}") };
    assert!(largest > 1);
    assert!(plan(&strategy, largest).misfit.is_none());
    assert!(plan(&strategy, largest + 1).misfit.is_some());
    assert_eq!((too_large.bytes, too_large.dispatches), (16 * too_large.parameters, 0));

    // Parts are chosen for it, but not without end.
    let chosen = |batch_size| {
        let options = PretrainOptions { batch_size, ..options() };
        plan_run(Some(&strategy), &options, SEQ_LENGTH, PREDICTIONS).expect("plan")
    };
    assert_eq!(chosen(256 * largest).gradient_accumulation_steps, 256);
    assert!(chosen(257 * largest).misfit.is_some());

    // The same for a run, which opens no device then.
    let distribution = IN_ONE_PIECE;
    let options = PretrainOptions { batch_size: largest + 1, distribution, ..options() };
    let run =
        PretrainRun::prepare(Some(&strategy), &options, features(largest + 1), None, |_| unreachable!());
    let error = pollster::block_on(run).err().expect("it does not fit").to_string();
    assert!(error.contains(&format!("The largest that fits is {largest}")), "{error}");

    strategy.adapter.max_buffer_size = 400;
    let Some(TrainError::DoesNotFit { largest: 0, source, .. }) = plan(&strategy, 1).misfit else {
        panic!("no batch fits")
    };
    assert!(source.to_string().contains("word_embeddings"), "{source}");
}

#[test]
fn fp16_is_refused_where_the_adapter_lacks_it() {
    let mut strategy = strategy();
    let options = PretrainOptions { precision: Precision::F16, ..options() };
    strategy.adapter.features.retain(|feature| *feature != "shader-f16");
    let error = plan_run(Some(&strategy), &options, SEQ_LENGTH, PREDICTIONS).unwrap_err();
    let told = "which lacks the feature shader-f16; use fp32";
    assert!(matches!(error, TrainError::Precision(_)) && error.to_string().contains(told), "{error}");
}

#[test]
fn wrong_options_make_no_plan() {
    let strategy = strategy();
    let error = plan_run(None, &options(), SEQ_LENGTH, PREDICTIONS).unwrap_err();
    assert!(matches!(error, TrainError::Strategy(_)), "{error}");
    let error = plan_run(Some(&strategy), &options(), 0, PREDICTIONS).unwrap_err();
    assert!(error.to_string().starts_with("max_seq_length is 0"), "{error}");
    let options = PretrainOptions { batch_size: 0, ..options() };
    let error = pollster::block_on(measure_step(Some(&strategy), &options, SEQ_LENGTH, PREDICTIONS));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("train_batch_size is 0"), "{error}");
}

#[test]
fn a_step_with_more_work_takes_longer() {
    let _turn = device(FAMILIES[0]);
    let strategy = strategy();
    let measure = |batch_size, seq_length| {
        let options = PretrainOptions { batch_size, ..options() };
        pollster::block_on(measure_step(Some(&strategy), &options, seq_length, PREDICTIONS))
            .expect("measured")
    };
    let (small, large) = (measure(1, 4), measure(1024, 128));
    // It is tens of thousands of times as much, but a fast device hardly notices the first.
    assert!(large > small, "{small:?} {large:?}");
}

#[test]
fn activations_in_fp16_take_half_the_memory() {
    let mut strategy = strategy();
    strategy.adapter.features = vec!["shader-f16"];
    (strategy.adapter.max_buffer_size, strategy.adapter.max_binding_size) = (256 << 20, 128 << 20);
    for (size, batch_size) in [("tiny", 16), ("base", 4)] {
        let config = BertConfig::preset(size, 30522).expect(size);
        let plan = |precision| {
            let options = PretrainOptions {
                config: config.clone(),
                batch_size,
                precision,
                distribution: IN_ONE_PIECE,
                ..options()
            };
            let plan = plan_run(Some(&strategy), &options, 128, 20).expect("plan");
            assert!(plan.misfit.is_none(), "{:?}", plan.misfit);
            plan.memory
        };
        let [single, half] = [Precision::F32, Precision::F16].map(plan);
        let part = |memory: &RunMemory, purpose| {
            memory.uses.iter().find(|part| part.purpose == purpose).expect(purpose).clone()
        };
        // Sums and losses stay as they are.
        let sums = ["layer norm stats", "layer norm parameter sums", "segment sums", "row loss", "row hit"];
        let activations = part(&single, "activations");
        let tensors = activations.buffers.iter().flat_map(|buffer| &buffer.tensors);
        let kept: u64 =
            tensors.filter(|tensor| sums.contains(&&*tensor.name)).map(|tensor| tensor.bytes).sum();
        let [before, after] = [&single, &half].map(|memory| part(memory, "activations").bytes());
        println!("{size}: {after} instead of {before} bytes, {kept} of sums");
        assert!(2 * after <= before + 2 * kept, "{size}: {after} instead of {before} bytes, {kept} of sums");
        // The weights have copies, and what is updated is as large as before.
        let [weights, with_copies] = [&single, &half].map(|memory| part(memory, "weights").bytes());
        assert_eq!(2 * with_copies, 3 * weights, "{size}");
        for purpose in ["gradients", "moments", "transfers"] {
            assert_eq!(part(&single, purpose), part(&half, purpose), "{size}");
        }
    }
}
