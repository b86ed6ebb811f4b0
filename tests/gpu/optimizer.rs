//! AdamW and LAMB against the numbers of TensorFlow's optimizers and against plain f64, step after step.

use wgpu_bert::gpu::{Program, Tensor};
use wgpu_bert::ops::Scalar;
use wgpu_bert::optimizer::{
    Culprit, Guarded, Norm, OnNan, OptimizerKind, OptimizerOptions, Schedule, Slab, Variable, plan_update,
};

use crate::harness::{Bench, Device, FAMILIES, POISON, Random, assert_close, device, read};

const SCHEDULE: Schedule =
    Schedule { init_lr: 1e-2, end_lr: 0.0, total_steps: 10, warmup_steps: 4.0, power: 1.0 };

/// One variable in f64.
#[derive(Clone)]
struct Model {
    w: Vec<f64>,
    m: Vec<f64>,
    v: Vec<f64>,
    decay: bool,
}

impl Model {
    fn new(weights: &[f32], decay: bool) -> Self {
        let zeros = vec![0.0; weights.len()];
        Self { w: weights.iter().map(|w| f64::from(*w)).collect(), m: zeros.clone(), v: zeros, decay }
    }
}

fn length(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The update that follows `step` updates; returns the gradients' norm and the clip factor.
fn reference(
    options: &OptimizerOptions,
    step: u64,
    models: &mut [Model],
    gradients: &[Vec<f32>],
) -> [f64; 2] {
    let gradients: Vec<Vec<f64>> =
        gradients.iter().map(|g| g.iter().map(|x| f64::from(*x)).collect()).collect();
    let norm = length(&gradients.concat());
    let factor = options.clip_norm.map_or(1.0, |clip| clip / norm.max(clip));
    let rate = SCHEDULE.learning_rate(step);
    let t = step as i32 + 1;
    let OptimizerOptions { beta_1, beta_2, epsilon, weight_decay, .. } = *options;
    let (left_1, left_2) = (1.0 - beta_1.powi(t), 1.0 - beta_2.powi(t));
    for (Model { w, m, v, decay: decays }, gradient) in models.iter_mut().zip(&gradients) {
        let decay = if *decays { weight_decay } else { 0.0 };
        for ((m, v), g) in m.iter_mut().zip(&mut *v).zip(gradient) {
            let g = g * factor;
            *m = beta_1 * *m + (1.0 - beta_1) * g;
            *v = beta_2 * *v + (1.0 - beta_2) * g * g;
        }
        match options.kind {
            OptimizerKind::AdamW => {
                for ((w, m), v) in w.iter_mut().zip(m).zip(v) {
                    *w -= rate * decay * *w;
                    *w -= rate * left_2.sqrt() / left_1 * *m / (v.sqrt() + epsilon);
                }
            }
            OptimizerKind::Lamb => {
                let adam = m.iter().zip(v).map(|(m, v)| (*m / left_1) / ((*v / left_2).sqrt() + epsilon));
                let u: Vec<f64> = adam.zip(&*w).map(|(adam, w)| adam + decay * w).collect();
                let (w_norm, u_norm) = (length(w), length(&u));
                let ratio = if *decays && w_norm > 0.0 && u_norm > 0.0 { w_norm / u_norm } else { 1.0 };
                for (w, u) in w.iter_mut().zip(u) {
                    *w -= ratio * rate * u;
                }
            }
        }
    }
    [norm, factor]
}

/// What lies between variables: NaN would show in sums, a number shows when it is computed with.
fn padding(word: usize) -> u32 {
    [POISON, 1234.5_f32.to_bits()][word % 2]
}

/// Variables in slabs on the device, with padding between them.
struct Arena<'a> {
    device: &'a Device,
    options: OptimizerOptions,
    variables: Vec<Variable>,
    slab_lens: Vec<usize>,
    slabs: Vec<Slab>,
    step: Tensor,
    guarded: Guarded,
    norm: Norm,
    program: Program,
    steps_done: u64,
}

impl<'a> Arena<'a> {
    /// Zero moments, the given weights, no step done yet.
    fn new(
        device: &'a Device,
        options: OptimizerOptions,
        variables: &[Variable],
        slab_lens: &[usize],
        weights: &[Vec<f32>],
    ) -> Self {
        let mut bench = Bench::new(device);
        let mut tensor =
            |name: &str, slab: usize| bench.plan.persistent(&format!("{name} {slab}"), slab_lens[slab]);
        let slabs: Vec<Slab> = (0..slab_lens.len())
            .map(|slab| Slab {
                parameters: tensor("parameters", slab),
                gradients: tensor("gradients", slab),
                first_moments: tensor("first moments", slab),
                second_moments: tensor("second moments", slab),
            })
            .collect();
        // The step's words need not start at the tensor's start.
        let step = bench.plan.persistent("step", 7);
        let guarded = Guarded {
            mlm_loss: bench.plan.persistent("MLM losses", 150),
            nsp_loss: Some(bench.plan.persistent("NSP losses", 8)),
            step: Scalar { tensor: bench.plan.persistent("number of the step", 2), word: 1 },
        };
        let rates = Scalar { tensor: step, word: 3 };
        let norm = plan_update(&mut bench.plan, &options, &slabs, variables, rates, guarded, None);
        let program = pollster::block_on(bench.plan.compile(&device.gpu)).expect("compile");
        program.fill(&device.gpu, POISON);
        let (variables, slab_lens) = (variables.to_vec(), slab_lens.to_vec());
        let arena = Self {
            device,
            options,
            variables,
            slab_lens,
            slabs,
            step,
            guarded,
            norm,
            program,
            steps_done: 0,
        };
        arena.put(arena.norm.tensor, &[0.0; 6]);
        arena.put(guarded.mlm_loss, &[1.0; 150]);
        arena.put(guarded.nsp_loss.unwrap(), &[1.0; 8]);
        let zeros: Vec<_> = weights.iter().map(|w| vec![0.0; w.len()]).collect();
        arena.write(|slab| slab.parameters, weights);
        arena.write(|slab| slab.first_moments, &zeros);
        arena.write(|slab| slab.second_moments, &zeros);
        arena
    }

    fn put(&self, tensor: Tensor, values: &[f32]) {
        self.device.gpu.write(&self.program.range(tensor), values);
    }

    fn write(&self, tensor: impl Fn(&Slab) -> Tensor, values: &[Vec<f32>]) {
        for (index, (slab, len)) in self.slabs.iter().zip(&self.slab_lens).enumerate() {
            let mut words: Vec<u32> = (0..*len).map(padding).collect();
            for (variable, values) in self.variables.iter().zip(values).filter(|(v, _)| v.slab == index) {
                for (word, value) in words[variable.offset..].iter_mut().zip(values) {
                    *word = value.to_bits();
                }
            }
            self.device.gpu.write(&self.program.range(tensor(slab)), &words);
        }
    }

    /// The variables' values; fails when a word between them has changed.
    #[track_caller]
    fn read(&self, tensor: impl Fn(&Slab) -> Tensor) -> Vec<Vec<f32>> {
        let mut slabs: Vec<Vec<f32>> =
            self.slabs.iter().map(|slab| read(self.device, &self.program, tensor(slab))).collect();
        let mut values = Vec::new();
        for variable in &self.variables {
            let range = variable.offset..variable.offset + variable.len;
            values.push(slabs[variable.slab][range.clone()].to_vec());
            for word in range {
                slabs[variable.slab][word] = f32::from_bits(padding(word));
            }
        }
        for (index, slab) in slabs.iter().enumerate() {
            for (word, value) in slab.iter().enumerate() {
                assert_eq!(value.to_bits(), padding(word), "slab {index} word {word}: padding was written");
            }
        }
        values
    }

    /// Do the next step and return the norm and the clip factor; no update may be left out.
    #[track_caller]
    fn update(&mut self, gradients: &[Vec<f32>]) -> Vec<f32> {
        let norm = self.try_update(gradients);
        assert_eq!(norm[2..4], [0.0, 0.0], "an update was left out");
        norm[..2].to_vec()
    }

    /// Do the next step and return the norm, the clip factor, and the verdict.
    fn try_update(&mut self, gradients: &[Vec<f32>]) -> Vec<f32> {
        self.write(|slab| slab.gradients, gradients);
        let mut words = [POISON; 7];
        words[3..].copy_from_slice(&self.options.step_words(&SCHEDULE, self.steps_done).map(f32::to_bits));
        self.device.gpu.write(&self.program.range(self.step), &words);
        self.device
            .gpu
            .write(&self.program.range(self.guarded.step.tensor), &[POISON, self.steps_done as u32]);
        self.program.run(&self.device.gpu);
        self.steps_done += 1;
        read(self.device, &self.program, self.norm.tensor)
    }

    fn weights(&self) -> Vec<Vec<f32>> {
        self.read(|slab| slab.parameters)
    }
}

/// The four gradients, and the weights after each step, of a single decayed variable of three elements.
const GRADIENTS: [[f32; 3]; 4] = [[0.1, -0.2, 0.3], [3.0, 4.0, 0.0], [-0.05, 0.02, 0.01], [1.0, 1.0, 1.0]];
const ADAMW: [[f64; 3]; 4] = [
    [0.5, -1.0, 2.0],
    [0.4978772966, -1.0013737051, 1.998275031],
    [0.494862781, -1.003562889, 1.9954805408],
    [0.4891616855, -1.0082418744, 1.9899372501],
];
const LAMB: [[f64; 3]; 4] = [
    [0.5, -1.0, 2.0],
    [0.4964642292, -1.0032089408, 1.9968355847],
    [0.4895775285, -1.0095720508, 1.9902712405],
    [0.4796773043, -1.0183722177, 1.9794004846],
];

#[test]
fn four_steps_of_the_reference() {
    for family in FAMILIES {
        let device = device(family);
        for (kind, want) in [(OptimizerKind::AdamW, ADAMW), (OptimizerKind::Lamb, LAMB)] {
            let variable = [Variable { slab: 0, offset: 0, len: 3, decay: true }];
            let options = OptimizerOptions::new(kind);
            let mut arena = Arena::new(&device, options, &variable, &[4], &[vec![0.5, -1.0, 2.0]]);
            for (gradient, want) in GRADIENTS.iter().zip(want) {
                let norm = arena.update(&[gradient.to_vec()]);
                let length = gradient.iter().map(|g| f64::from(g * g)).sum::<f64>().sqrt();
                let factor = if kind == OptimizerKind::AdamW { 1.0 / length.max(1.0) } else { 1.0 };
                assert_close("norm and factor", &norm, &[length, factor], 1e-6);
                for (got, want) in arena.weights()[0].iter().zip(want) {
                    assert!((f64::from(*got) - want).abs() < 3e-7, "{kind:?}: got {got}, want {want}");
                }
            }
        }
    }
}

/// Variables of all awkward lengths over three slabs, the middle one empty, in no order of slabs.
fn awkward() -> (Vec<Variable>, Vec<usize>) {
    let lens = [1, 3, 64, 65, 4097, 2, 4, 4096, 255, 257, 12_289, 5, 8192, 1021];
    let mut slab_lens = vec![4, 64, 128];
    let mut variables = Vec::new();
    for (i, len) in lens.into_iter().enumerate() {
        let slab = if i % 3 == 0 { 0 } else { 2 };
        let end: &mut usize = &mut slab_lens[slab];
        variables.push(Variable { slab, offset: *end, len, decay: i % 4 != 1 });
        *end = (*end + len).next_multiple_of(4) + [0, 4, 60][i % 3];
    }
    (variables, slab_lens)
}

fn random_values(random: &mut Random, variables: &[Variable], scale: f32) -> Vec<Vec<f32>> {
    variables.iter().map(|v| random.vec(v.len).iter().map(|x| x * scale).collect()).collect()
}

#[test]
fn agrees_with_f64_over_steps() {
    let (variables, slab_lens) = awkward();
    let cases = [
        OptimizerOptions::new(OptimizerKind::AdamW),
        OptimizerOptions::new(OptimizerKind::Lamb),
        OptimizerOptions { clip_norm: None, epsilon: 1e-2, ..OptimizerOptions::new(OptimizerKind::AdamW) },
        OptimizerOptions {
            clip_norm: Some(50.0),
            beta_1: 0.8,
            beta_2: 0.95,
            weight_decay: 0.3,
            ..OptimizerOptions::new(OptimizerKind::Lamb)
        },
    ];
    for family in FAMILIES {
        let device = device(family);
        for options in cases {
            let mut random = Random::new(11);
            let mut weights = random_values(&mut random, &variables, 0.5);
            weights[2].fill(0.0); // decays, and LAMB's ratio has nothing to keep
            weights[6].fill(0.0);
            let mut models: Vec<_> =
                weights.iter().zip(&variables).map(|(w, v)| Model::new(w, v.decay)).collect();
            let mut arena = Arena::new(&device, options, &variables, &slab_lens, &weights);
            for step in 0..6 {
                // The last step's norm, about 10, is below the wider clipping norm; the others' are above both.
                let mut gradients = random_values(&mut random, &variables, if step == 5 { 0.1 } else { 1.0 });
                gradients[6].fill(0.0); // weights and direction of a decayed variable both 0
                let want = reference(&options, step, &mut models, &gradients);
                let what = format!("{:?} {family:?} step {step}", options.kind);
                let norm = arena.update(&gradients);
                assert_close(&format!("{what} norm"), &norm[..1], &want[..1], 1e-6);
                assert_close(&format!("{what} factor"), &norm[1..], &want[1..], 1e-6);
                let moments = (arena.read(|slab| slab.first_moments), arena.read(|slab| slab.second_moments));
                arena.read(|slab| slab.gradients);
                for (i, w) in arena.weights().iter().enumerate() {
                    assert_close(&format!("{what} w{i}"), w, &models[i].w, 1e-6);
                    assert_tight(&format!("{what} m{i}"), &moments.0[i], &models[i].m);
                    assert_tight(&format!("{what} v{i}"), &moments.1[i], &models[i].v);
                }
            }
        }
    }
}

/// Moments are small numbers: within 2e-6 of their own maximum.
#[track_caller]
fn assert_tight(what: &str, got: &[f32], want: &[f64]) {
    let scale = want.iter().fold(1e-30_f64, |max, w| max.max(w.abs()));
    let got: Vec<f32> = got.iter().map(|g| (f64::from(*g) / scale) as f32).collect();
    assert_close(what, &got, &want.iter().map(|w| w / scale).collect::<Vec<_>>(), 2e-6);
}

#[test]
fn more_variables_than_workgroups_in_a_row() {
    let count = 70_000;
    let mut variables: Vec<_> =
        (0..count).map(|i| Variable { slab: 0, offset: 4 * i, len: 1 + i % 3, decay: i % 2 == 0 }).collect();
    // With more than one chunk, so that chunks and variables are not numbered alike.
    variables.insert(0, Variable { slab: 0, offset: 4 * count, len: 5000, decay: true });
    let device = device(FAMILIES[0]);
    for kind in [OptimizerKind::AdamW, OptimizerKind::Lamb] {
        let mut random = Random::new(5);
        let options = OptimizerOptions::new(kind);
        let weights = random_values(&mut random, &variables, 0.5);
        let mut models: Vec<_> =
            weights.iter().zip(&variables).map(|(w, v)| Model::new(w, v.decay)).collect();
        let mut arena = Arena::new(&device, options, &variables, &[4 * count + 5000], &weights);
        for step in 0..2 {
            let gradients = random_values(&mut random, &variables, 1.0);
            let want = reference(&options, step, &mut models, &gradients);
            assert_close("norm", &arena.update(&gradients)[..1], &want[..1], 1e-6);
        }
        let want: Vec<f64> = models.iter().flat_map(|model| model.w.clone()).collect();
        assert_close(&format!("{kind:?}"), &arena.weights().concat(), &want, 1e-6);
    }
}

#[test]
fn zero_gradients_only_decay() {
    let (variables, slab_lens) = awkward();
    let device = device(FAMILIES[0]);
    let cases = [(OptimizerKind::AdamW, 0.01), (OptimizerKind::Lamb, 0.01), (OptimizerKind::Lamb, 0.0)];
    for (kind, weight_decay) in cases {
        let options = OptimizerOptions { weight_decay, ..OptimizerOptions::new(kind) };
        let weights = random_values(&mut Random::new(2), &variables, 0.5);
        let zeros = random_values(&mut Random::new(2), &variables, 0.0);
        let mut models: Vec<_> =
            weights.iter().zip(&variables).map(|(w, v)| Model::new(w, v.decay)).collect();
        let mut arena = Arena::new(&device, options, &variables, &slab_lens, &weights);
        for step in 0..3 {
            assert_eq!(arena.update(&zeros), [0.0, 1.0]);
            reference(&options, step, &mut models, &zeros);
        }
        for (i, got) in arena.weights().iter().enumerate() {
            assert_close(&format!("{kind:?} w{i}"), got, &models[i].w, 1e-6);
            let decays = variables[i].decay && weight_decay > 0.0;
            assert_eq!(*got != weights[i], decays, "{kind:?} w{i} moved");
        }
    }
}

#[test]
fn huge_gradients_are_clipped() {
    let (variables, slab_lens) = awkward();
    let device = device(FAMILIES[0]);
    for kind in [OptimizerKind::AdamW, OptimizerKind::Lamb] {
        let options = OptimizerOptions::new(kind);
        let weights = random_values(&mut Random::new(3), &variables, 0.5);
        let gradients = random_values(&mut Random::new(4), &variables, 1e15);
        let mut models: Vec<_> =
            weights.iter().zip(&variables).map(|(w, v)| Model::new(w, v.decay)).collect();
        let mut arena = Arena::new(&device, options, &variables, &slab_lens, &weights);
        for step in 0..2 {
            let norm = arena.update(&gradients);
            let want = reference(&options, step, &mut models, &gradients);
            assert_close("norm", &norm[..1], &want[..1], 1e-6);
            assert!((f64::from(norm[1]) / want[1] - 1.0).abs() < 1e-6, "factor {} for {}", norm[1], want[1]);
        }
        for (i, got) in arena.weights().iter().enumerate() {
            assert_close(&format!("{kind:?} w{i}"), got, &models[i].w, 2e-6);
        }
    }
}

/// What an update reads, made bad in one place.
#[derive(Clone, Copy, Debug)]
enum Bad {
    MlmLoss(usize, f32),
    NspLoss(usize, f32),
    /// Variable, element, value.
    Gradients(&'static [(usize, usize, f32)]),
}

#[test]
fn what_is_not_finite_is_named_and_nothing_is_updated() {
    let (variables, slab_lens) = awkward();
    let cases = [
        (Bad::MlmLoss(149, f32::NAN), Culprit::MlmLoss),
        (Bad::NspLoss(7, f32::NEG_INFINITY), Culprit::NspLoss),
        (Bad::Gradients(&[(4, 4096, f32::NAN)]), Culprit::Gradient(4)),
        (Bad::Gradients(&[(0, 0, f32::INFINITY), (10, 12_288, f32::NEG_INFINITY)]), Culprit::Gradient(10)),
        // Its square is too large.
        (Bad::Gradients(&[(13, 1020, 1e25)]), Culprit::Gradient(13)),
        // Only their sum is.
        (Bad::Gradients(&[(3, 0, 1.5e19), (7, 0, 1.5e19), (9, 0, 1.5e19)]), Culprit::Norm),
    ];
    for family in FAMILIES {
        let device = device(family);
        for kind in [OptimizerKind::AdamW, OptimizerKind::Lamb] {
            for on_nan in [OnNan::Stop, OnNan::Skip] {
                for (bad, culprit) in cases {
                    let case = format!("{family:?} {kind:?} {on_nan:?} {bad:?}");
                    let options = OptimizerOptions { on_nan, ..OptimizerOptions::new(kind) };
                    let mut random = Random::new(12);
                    let weights = random_values(&mut random, &variables, 0.5);
                    let gradients = random_values(&mut random, &variables, 1.0);
                    let mut arena = Arena::new(&device, options, &variables, &slab_lens, &weights);
                    arena.update(&gradients);
                    let state = |arena: &Arena| {
                        let tensors = [
                            arena.weights(),
                            arena.read(|slab| slab.first_moments),
                            arena.read(|slab| slab.second_moments),
                        ];
                        tensors.concat().concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
                    };
                    let before = state(&arena);

                    let mut worse = gradients.clone();
                    let [mut mlm, mut nsp] = [vec![1.0; 150], vec![1.0; 8]];
                    match bad {
                        Bad::MlmLoss(row, value) => mlm[row] = value,
                        Bad::NspLoss(row, value) => nsp[row] = value,
                        Bad::Gradients(list) => list.iter().for_each(|(v, i, value)| worse[*v][*i] = *value),
                    }
                    arena.put(arena.guarded.mlm_loss, &mlm);
                    arena.put(arena.guarded.nsp_loss.unwrap(), &nsp);
                    let verdict = arena.try_update(&worse);
                    let told = (verdict[2], Culprit::from_word(verdict[3].to_bits()), verdict[4].to_bits());
                    assert_eq!(told, (1.0, Some(culprit), 1), "{case}");
                    assert!(state(&arena) == before, "{case}: something was updated");

                    // The step after it is a good one.
                    arena.put(arena.guarded.mlm_loss, &[1.0; 150]);
                    arena.put(arena.guarded.nsp_loss.unwrap(), &[1.0; 8]);
                    let verdict = arena.try_update(&gradients);
                    let told = (verdict[2], Culprit::from_word(verdict[3].to_bits()), verdict[4].to_bits());
                    if on_nan == OnNan::Stop {
                        assert_eq!(told, (1.0, Some(culprit), 1), "{case}");
                        assert!(state(&arena) == before, "{case}: something was updated after that");
                    } else {
                        assert_eq!(told, (0.0, None, 2), "{case}");
                        assert!(state(&arena) != before, "{case}: nothing is updated any more");
                    }
                }
            }
        }
    }
}

#[test]
fn the_same_steps_give_the_same_bits() {
    let (variables, slab_lens) = awkward();
    for family in FAMILIES {
        let device = device(family);
        let run = || {
            let mut random = Random::new(6);
            let options = OptimizerOptions::new(OptimizerKind::Lamb);
            let weights = random_values(&mut random, &variables, 0.5);
            let mut arena = Arena::new(&device, options, &variables, &slab_lens, &weights);
            let norms: Vec<_> =
                (0..3).flat_map(|_| arena.update(&random_values(&mut random, &variables, 1.0))).collect();
            [arena.weights().concat(), norms].concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }
}
