//! Cross entropy, hits and gradients against f64: ties, zero weights, huge logits, wide rows.

use wgpu_bert::gpu::{Precision, Tensor};
use wgpu_bert::ops::{CrossEntropy, Scalar, cross_entropy};

use crate::harness::{
    Bench, Device, FAMILIES, Random, assert_close, device, precisions, read, stored, tolerance,
};

struct Case {
    logits: Vec<f32>,
    labels: Vec<u32>,
    weights: Vec<f32>,
    classes: usize,
    precision: Precision,
}

/// Every third row has weight 0, labels are anywhere, logits as large as `size`.
fn random_case(random: &mut Random, rows: usize, classes: usize, size: f32) -> Case {
    Case {
        logits: random.vec(rows * classes).iter().map(|v| v * size).collect(),
        labels: (0..rows).map(|_| random.below(classes) as u32).collect(),
        weights: (0..rows).map(|r| if r % 3 == 1 { 0.0 } else { 1.0 + random.next() * 0.5 }).collect(),
        classes,
        precision: Precision::F32,
    }
}

const SCALE: f32 = 0.37;

/// Row losses, row hits, and what became of the logits.
fn run(device: &Device, case: &Case, gradient: bool) -> [Vec<f32>; 3] {
    let (rows, classes) = (case.labels.len(), case.classes);
    // What lies between rows must not be read.
    let stride = classes + rows % 3;
    let mut padded = vec![f32::NAN; rows * stride];
    for (to, from) in padded.chunks_mut(stride).zip(case.logits.chunks(classes)) {
        to[..classes].copy_from_slice(from);
    }
    let mut bench = Bench::new(device);
    let scalars = bench.input("scalars", &[f32::NAN, f32::NAN, SCALE]);
    let args = CrossEntropy {
        logits: bench.real(case.precision, "logits", &padded),
        labels: bench.words("labels", &case.labels),
        weights: bench.input("weights", &case.weights),
        gradient_scale: gradient.then_some(Scalar { tensor: scalars, word: 2 }),
        row_loss: bench.output("row_loss", rows),
        row_hit: bench.output("row_hit", rows),
        rows,
        classes,
        stride,
    };
    cross_entropy(&mut bench.plan, args);
    let program = bench.run(device);
    let [row_loss, row_hit, after] =
        [args.row_loss, args.row_hit, args.logits].map(|tensor: Tensor| read(device, &program, tensor));
    let rest = after.chunks(stride).flat_map(|row| &row[classes..]).all(|g| *g == 0.0);
    assert!(rest || !gradient, "what lies between rows has a gradient of 0");
    [row_loss, row_hit, after.chunks(stride).flat_map(|row| &row[..classes]).copied().collect()]
}

fn check(device: &Device, case: &Case) {
    let (mut losses, mut hits, mut gradients) = (vec![], vec![], vec![]);
    for ((row, label), weight) in case.logits.chunks(case.classes).zip(&case.labels).zip(&case.weights) {
        let (label, weight) = (*label as usize, f64::from(*weight));
        let top = row.iter().fold(f32::MIN, |top, v| top.max(*v));
        let exps: Vec<f64> = row.iter().map(|v| (f64::from(*v) - f64::from(top)).exp()).collect();
        let sum: f64 = exps.iter().sum();
        let first_top = row.iter().position(|v| *v == top);
        losses.push(weight * (sum.ln() + f64::from(top) - f64::from(row[label])));
        hits.push(if first_top == Some(label) { weight } else { 0.0 });
        let one_hot = |j: usize| f64::from(u8::from(j == label));
        let gradient = |(j, e): (usize, &f64)| (e / sum - one_hot(j)) * weight * f64::from(SCALE);
        gradients.extend(exps.iter().enumerate().map(gradient));
    }
    let what =
        format!("{}x{} {:?} {:?}", case.labels.len(), case.classes, case.precision, device.gpu.kernels.rows);
    let [got_losses, got_hits, got_gradients] = run(device, case, true);
    assert_close(&format!("loss {what}"), &got_losses, &losses, 2e-6);
    assert_close(&format!("hit {what}"), &got_hits, &hits, 1e-7);
    assert_close(&format!("gradient {what}"), &got_gradients, &gradients, tolerance(case.precision, 2e-6));
    let zero = |r: usize| got_gradients[r * case.classes..(r + 1) * case.classes].iter().all(|g| *g == 0.0);
    for r in (0..case.labels.len()).filter(|r| case.weights[*r] == 0.0) {
        assert!(got_losses[r] == 0.0 && got_hits[r] == 0.0 && zero(r), "row {r} of weight 0, {what}");
    }
    let [only_losses, only_hits, kept] = run(device, case, false);
    assert_eq!(only_losses, got_losses, "evaluation gives the same losses");
    assert_eq!(only_hits, got_hits, "evaluation gives the same hits");
    assert_eq!(kept, case.logits, "evaluation keeps the logits");
}

#[test]
fn agrees_with_f64() {
    for family in FAMILIES {
        let device = device(family);
        let mut random = Random::new(71);
        for (rows, classes) in [(1, 1), (5, 2), (70, 3), (3, 63), (4, 65), (2, 2049), (7, 5003), (2, 120_000)]
        {
            for precision in precisions(&device) {
                let mut case = random_case(&mut random, rows, classes, 8.0);
                (case.logits, case.precision) = (stored(precision, case.logits), precision);
                check(&device, &case);
            }
        }
    }
}

#[test]
fn logits_far_apart_and_all_alike() {
    for family in FAMILIES {
        let device = device(family);
        let mut random = Random::new(72);
        for precision in precisions(&device) {
            let mut case = random_case(&mut random, 3, 300, 1e4);
            (case.logits, case.precision) = (stored(precision, case.logits), precision);
            check(&device, &case);
        }
        let mut alike = random_case(&mut random, 3, 30_000, 0.0);
        // The lowest of equal logits is the guess.
        alike.labels = vec![0, 0, 1];
        check(&device, &alike);
        let mut ties = random_case(&mut random, 4, 150, 1.0);
        ties.weights = vec![1.0; 4];
        ties.labels = vec![70, 134, 7, 149];
        for row in 0..4 {
            for column in [70, 134, 149] {
                ties.logits[row * 150 + column] = 5.0;
            }
        }
        check(&device, &ties);
    }
}

#[test]
fn a_row_of_weight_0_ignores_nan() {
    for family in FAMILIES {
        let device = device(family);
        let mut case = random_case(&mut Random::new(73), 2, 10, 1.0);
        case.weights = vec![1.0, 0.0];
        case.logits[10..].fill(f32::NAN);
        let [losses, hits, gradients] = run(&device, &case, true);
        assert!(losses[0] > 0.0 && losses[1] == 0.0 && hits[1] == 0.0);
        assert!(gradients[..10].iter().any(|g| *g != 0.0) && gradients[10..].iter().all(|g| *g == 0.0));
        case.weights = vec![1.0, 1.0];
        let [losses, ..] = run(&device, &case, true);
        assert!(losses[1].is_nan(), "a NaN that counts shows in the loss");
    }
}
