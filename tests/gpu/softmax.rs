//! Masked softmax and its gradient against f64.

use wgpu_bert::gpu::Precision;
use wgpu_bert::ops::{Softmax, SoftmaxGradient, softmax, softmax_backward};

use crate::harness::{
    Bench, Device, FAMILIES, Random, assert_close, device, dropout_of_rows, precisions, read, stored,
    tolerance,
};

/// (sequences, rows of a sequence, keys); the last has more rows than workgroups fit in one dimension.
const CASES: [(usize, usize, usize); 7] =
    [(1, 1, 1), (2, 3, 2), (3, 22, 11), (2, 65, 64), (1, 7, 65), (2, 5, 200), (2, 32_801, 3)];

/// Masks of three kinds, by sequence: none masked, some masked, all masked.
fn masks(random: &mut Random, sequences: usize, keys: usize) -> Vec<u32> {
    let mask = |e: usize| match (e / keys) % 3 {
        0 => u32::from(e.is_multiple_of(keys) || random.below(3) > 0),
        1 => 1,
        _ => 0,
    };
    (0..sequences * keys).map(mask).collect()
}

/// The probabilities of one row; where every key is masked all are alike.
fn probabilities(scores: &[f32], mask: &[u32]) -> Vec<f64> {
    if mask.iter().all(|m| *m == 0) {
        return vec![1.0 / scores.len() as f64; scores.len()];
    }
    let masked = |(s, m): (&f32, &u32)| if *m == 0 { 0.0 } else { f64::from(*s).exp() };
    let exps: Vec<f64> = scores.iter().zip(mask).map(masked).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

fn check(
    device: &Device,
    random: &mut Random,
    case: (usize, usize, usize),
    drops: bool,
    precision: Precision,
) {
    let (sequences, rows_per_sequence, keys) = case;
    let rows = sequences * rows_per_sequence;
    let scores = stored(precision, random.vec(rows * keys).iter().map(|v| v * 20.0).collect());
    let gradient = stored(precision, random.vec(rows * keys));
    let mask = masks(random, sequences, keys);
    let mut bench = Bench::new(device);
    let p = bench.real(precision, "scores", &scores);
    let dp = bench.real(precision, "gradient", &gradient);
    let (dropout, factors) = dropout_of_rows(&mut bench, rows, keys);
    let dropout = drops.then_some(dropout);
    let dropped = dropout.map(|mask| (bench.real_output(precision, "dropped", rows * keys), mask));
    let mask_tensor = bench.words("mask", &mask);
    let args = Softmax { scores: p, mask: mask_tensor, dropped, sequences, rows_per_sequence, keys };
    softmax(&mut bench.plan, args);
    softmax_backward(
        &mut bench.plan,
        SoftmaxGradient { probabilities: p, gradient: dp, dropout, rows, keys },
    );
    let program = bench.run(device);

    let (mut want_p, mut want_ds) = (vec![], vec![]);
    for r in 0..rows {
        let (row, of_mask) = (r * keys..(r + 1) * keys, r / rows_per_sequence * keys);
        let p = probabilities(&scores[row.clone()], &mask[of_mask..of_mask + keys]);
        let factor = |e: usize| if drops { f64::from(factors[e]) } else { 1.0 };
        let dp: Vec<f64> = row.map(|e| f64::from(gradient[e]) * factor(e)).collect();
        let dot: f64 = p.iter().zip(&dp).map(|(p, d)| p * d).sum();
        want_ds.extend(p.iter().zip(&dp).map(|(p, d)| p * (d - dot)));
        want_p.extend(p);
    }
    let what = format!("{case:?}, dropout {drops}, {precision:?}, {:?}", device.gpu.kernels.rows);
    let got_p = read(device, &program, p);
    // Stored twice: as exponentials, then as probabilities, which the gradient has two factors of besides its own rounding.
    let stored = tolerance(precision, 0.0);
    assert_close(&what, &got_p, &want_p, 5e-6 + 2.0 * stored);
    let got_ds = read(device, &program, dp);
    assert_close(&format!("gradient {what}"), &got_ds, &want_ds, 5e-6 + 5.0 * stored);
    let exact_zeros = got_p.iter().zip(&want_p).all(|(got, want)| *want != 0.0 || *got == 0.0);
    assert!(exact_zeros, "masked keys have probability 0: {what}");
    if let Some((dropped, _)) = dropped {
        let want: Vec<f64> = got_p.iter().zip(&factors).map(|(p, factor)| f64::from(p * factor)).collect();
        assert_close(&format!("dropped {what}"), &read(device, &program, dropped), &want, 2.0 * stored);
    }
}

#[test]
fn agrees_with_f64() {
    for family in FAMILIES {
        let device = device(family);
        let mut random = Random::new(61);
        for case in CASES {
            for precision in precisions(&device) {
                for drops in [false, true] {
                    check(&device, &mut random, case, drops, precision);
                }
            }
        }
    }
}
