//! Layer normalization and its gradients against f64.

use wgpu_bert::gpu::Precision;
use wgpu_bert::ops::{LayerNorm, LayerNormGradient, Residual, layer_norm, layer_norm_backward};

use crate::harness::{
    Bench, Device, FAMILIES, Random, assert_close, device, dropout_of_rows, precisions, read, stored,
    tolerance,
};

const EPSILON: f32 = 1e-12;

/// (rows, width)
const CASES: [(usize, usize); 7] = [(1, 1), (1, 3), (3, 7), (64, 64), (65, 65), (17, 131), (131, 16)];

/// Mean and rstd of each row of h, in f64.
fn stats(h: &[f64], width: usize) -> Vec<(f64, f64)> {
    let of_row = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / width as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width as f64;
        (mean, 1.0 / (variance + f64::from(EPSILON)).sqrt())
    };
    h.chunks(width).map(of_row).collect()
}

/// The backward formula in f64: dh, dgamma, dbeta.
fn gradients(dy: &[f32], h: &[f64], gamma: &[f32]) -> [Vec<f64>; 3] {
    let width = gamma.len();
    let (mut dh, mut dgamma, mut dbeta) = (vec![], vec![0.0; width], vec![0.0; width]);
    for (r, (mean, rstd)) in stats(h, width).into_iter().enumerate() {
        let n: Vec<f64> = (0..width).map(|i| (h[r * width + i] - mean) * rstd).collect();
        let d: Vec<f64> = (0..width).map(|i| f64::from(dy[r * width + i])).collect();
        let g: Vec<f64> = (0..width).map(|i| d[i] * f64::from(gamma[i])).collect();
        let mean_g = g.iter().sum::<f64>() / width as f64;
        let mean_gn = g.iter().zip(&n).map(|(g, n)| g * n).sum::<f64>() / width as f64;
        for i in 0..width {
            dh.push(rstd * (g[i] - mean_g - n[i] * mean_gn));
            dgamma[i] += d[i] * n[i];
            dbeta[i] += d[i];
        }
    }
    [dh, dgamma, dbeta]
}

/// What comes before the normalization.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Residual,
    DropoutAndResidual,
}

fn check(
    device: &Device,
    random: &mut Random,
    (rows, width): (usize, usize),
    before: Before,
    precision: Precision,
) {
    // Away from zero, as activations are: a one-pass variance would not survive the shift.
    let x = stored(precision, random.vec(rows * width).iter().map(|v| v + 3.0).collect());
    let residual = stored(precision, random.vec(rows * width));
    let (gamma, beta) = (random.vec(width), random.vec(width));
    let dy = stored(precision, random.vec(rows * width));
    // What follows must not be read.
    let followed: Vec<f32> = dy.iter().copied().chain([f32::NAN; 5000]).collect();
    let mut bench = Bench::new(device);
    let x_tensor = bench.real(precision, "x", &x);
    let (mask, mut factors) = dropout_of_rows(&mut bench, rows, width);
    let dropout = (before == Before::DropoutAndResidual).then_some(mask);
    if dropout.is_none() {
        factors.fill(1.0);
    }
    let residual_args = (before != Before::Nothing).then(|| Residual {
        add: bench.real(precision, "residual", &residual),
        sum: bench.real_output(precision, "h", rows * width),
        dropout,
    });
    let args = LayerNorm {
        x: x_tensor,
        residual: residual_args,
        gamma: bench.input("gamma", &gamma),
        beta: bench.input("beta", &beta),
        y: bench.real_output(precision, "y", rows * width),
        stats: bench.output("stats", rows * 2),
        rows,
        width,
        epsilon: EPSILON,
    };
    let h = residual_args.map_or(x_tensor, |r| r.sum);
    let gradient = LayerNormGradient {
        dy: bench.real(precision, "dy", &followed),
        h,
        stats: args.stats,
        gamma: args.gamma,
        dh: bench.real_output(precision, "dh", rows * width),
        dx: dropout.map(|mask| (bench.real_output(precision, "dx", rows * width), mask)),
        dgamma: bench.output("dgamma", width),
        dbeta: bench.output("dbeta", width),
        rows,
        width,
    };
    layer_norm(&mut bench.plan, args);
    layer_norm_backward(&mut bench.plan, gradient);
    let program = bench.run(device);

    let what = |name: &str| {
        format!("{name} of {rows}x{width} {precision:?} {:?}, {before:?}", device.gpu.kernels.rows)
    };
    let got_h = read(device, &program, h);
    let added = |e: usize| if residual_args.is_some() { f64::from(residual[e]) } else { 0.0 };
    let want_h: Vec<f64> =
        (0..rows * width).map(|e| f64::from(x[e]) * f64::from(factors[e]) + added(e)).collect();
    assert_close(&what("h"), &got_h, &want_h, tolerance(precision, 1e-7));
    // From here on with h as stored: what rounding it costs is no fault of the rest.
    let h: Vec<f64> = got_h.iter().map(|v| f64::from(*v)).collect();
    let want_stats = stats(&h, width);
    let got_stats = read(device, &program, args.stats);
    for (part, name) in ["mean", "rstd"].iter().enumerate() {
        let got: Vec<f32> = got_stats.iter().skip(part).step_by(2).copied().collect();
        let want: Vec<f64> = want_stats.iter().map(|s| if part == 0 { s.0 } else { s.1 }).collect();
        assert_close(&what(name), &got, &want, 1e-5);
    }
    let want_y: Vec<f64> = (0..rows * width)
        .map(|e| {
            let (mean, rstd) = want_stats[e / width];
            f64::from(gamma[e % width]) * (h[e] - mean) * rstd + f64::from(beta[e % width])
        })
        .collect();
    assert_close(&what("y"), &read(device, &program, args.y), &want_y, tolerance(precision, 5e-6));
    let want = gradients(&dy, &h, &gamma);
    for ((name, tensor), want) in
        [("dh", gradient.dh), ("dgamma", gradient.dgamma), ("dbeta", gradient.dbeta)].into_iter().zip(&want)
    {
        let got = read(device, &program, tensor);
        assert_close(&what(name), &got, want, tolerance(tensor.precision(), 1e-5));
    }
    if let Some((dx, _)) = gradient.dx {
        let dh = read(device, &program, gradient.dh);
        let want: Vec<f64> = dh.iter().zip(&factors).map(|(d, factor)| f64::from(d * factor)).collect();
        assert_close(&what("dx"), &read(device, &program, dx), &want, 2.0 * tolerance(precision, 0.0));
    }
}

#[test]
fn agrees_with_f64() {
    for family in FAMILIES {
        let device = device(family);
        let mut random = Random::new(41);
        for case in CASES {
            for precision in precisions(&device) {
                for before in [Before::Nothing, Before::Residual, Before::DropoutAndResidual] {
                    check(&device, &mut random, case, before, precision);
                }
            }
        }
    }
}
