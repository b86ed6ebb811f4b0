//! Activation functions and their derivatives against f64, from tiny to huge arguments.

use wgpu_bert::gpu::Precision;
use wgpu_bert::ops::{Function, activation, activation_backward};

use crate::harness::{Bench, FAMILIES, Random, assert_close, device, precisions, read, stored, tolerance};

/// erf by a series of positive terms, `2/√π exp(-x²) Σ 2ⁿ x²ⁿ⁺¹ / (2n + 1)!!`; beyond 6 it is 1 in f64.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp()
}

fn value(function: Function, x: f64) -> f64 {
    match function {
        Function::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Function::GeluErf => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
        Function::Relu => x.max(0.0),
        Function::Silu => x / (1.0 + (-x).exp()),
        Function::Tanh => x.tanh(),
    }
}

/// The derivative by a difference quotient of fourth order, exact enough in f64.
fn derivative(function: Function, x: f64) -> f64 {
    let step = 1e-3;
    let at = |k: f64| value(function, x + k * step);
    (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * step)
}

const FUNCTIONS: [Function; 5] =
    [Function::GeluTanh, Function::GeluErf, Function::Relu, Function::Silu, Function::Tanh];

#[test]
fn values_and_derivatives() {
    let mut random = Random::new(51);
    // Away from 0 by more than the difference quotient's reach, for relu's sake.
    let mut x: Vec<f32> = random.vec(4000).iter().map(|x| x * 8.0).filter(|x| x.abs() > 0.0021).collect();
    x.extend([9.0, -9.0, 30.0, -30.0, 1e3, -1e3]);
    for family in FAMILIES {
        let device = device(family);
        let all = precisions(&device).into_iter().flat_map(|precision| FUNCTIONS.map(|f| (precision, f)));
        for (precision, function) in all {
            // Lengths around the 4 of an invocation and the 256 of a workgroup.
            for len in [1, 3, 4, 5, 255, 257, x.len()] {
                let x = &stored(precision, x[..len].to_vec());
                let dy = stored(precision, random.vec(len));
                let mut bench = Bench::new(&device);
                let (tx, y, tdy) = (
                    bench.real(precision, "x", x),
                    bench.real_output(precision, "y", len),
                    bench.real(precision, "dy", &dy),
                );
                activation(&mut bench.plan, function, tx, y);
                activation_backward(&mut bench.plan, function, tx, tdy);
                let program = bench.run(&device);
                let what = format!("{function:?} {precision:?} {len}");
                // Relative to the argument where that is large, lest errors of the others hide behind it.
                let size = |x: &f32| x.abs().max(4.0);
                let got: Vec<f32> =
                    read(&device, &program, y).iter().zip(x).map(|(y, x)| y / size(x)).collect();
                let want: Vec<f64> =
                    x.iter().map(|x| value(function, f64::from(*x)) / f64::from(size(x))).collect();
                assert_close(&what, &got, &want, tolerance(precision, 5e-7));
                let want: Vec<f64> = x
                    .iter()
                    .zip(&dy)
                    .map(|(x, d)| f64::from(*d) * derivative(function, f64::from(*x)))
                    .collect();
                assert_close(
                    &format!("d {what}"),
                    &read(&device, &program, tdy),
                    &want,
                    tolerance(precision, 2e-6),
                );
            }
        }
    }
}

/// The largest numbers there are in f16, whose cubes are not.
#[test]
fn large_arguments_in_fp16_stay_finite() {
    let x = [65504.0, -65504.0, 300.0, -300.0, 0.0, 6e-8];
    for family in FAMILIES {
        let device = device(family);
        for precision in precisions(&device) {
            for function in FUNCTIONS {
                let mut bench = Bench::new(&device);
                let (tx, y) = (bench.real(precision, "x", &x), bench.real_output(precision, "y", x.len()));
                let dy = bench.real(precision, "dy", &[1.0; 6]);
                activation(&mut bench.plan, function, tx, y);
                activation_backward(&mut bench.plan, function, tx, dy);
                let program = bench.run(&device);
                let [y, dy] = [y, dy].map(|tensor| read(&device, &program, tensor));
                let bound = if precision == Precision::F16 { 1e-3 } else { 1e-6 };
                for (x, y) in x.iter().zip(y) {
                    let want = value(function, f64::from(*x));
                    let error = (f64::from(y) - want).abs();
                    assert!(
                        error <= bound * want.abs().max(1.0),
                        "{function:?} of {x}: got {y}, want {want}"
                    );
                }
                assert!(dy.iter().all(|v| v.is_finite() && v.abs() < 1.2), "{function:?}: {dy:?}");
            }
        }
    }
}

#[test]
fn huge_arguments_stay_finite() {
    let x = [1e15, -1e15, 3e38, -3e38, 0.0, -0.0, 88.0, -88.0, 1e-30];
    for family in FAMILIES {
        let device = device(family);
        for function in FUNCTIONS {
            let mut bench = Bench::new(&device);
            let (tx, y) = (bench.input("x", &x), bench.output("y", x.len()));
            let dy = bench.input("dy", &[1.0; 9]);
            activation(&mut bench.plan, function, tx, y);
            activation_backward(&mut bench.plan, function, tx, dy);
            let program = bench.run(&device);
            let y = read(&device, &program, y);
            let dy = read(&device, &program, dy);
            for (x, y) in x.iter().zip(y) {
                let want = value(function, f64::from(*x));
                let error = (f64::from(y) - want).abs();
                assert!(error <= 1e-6 * want.abs().max(1.0), "{function:?} of {x}: got {y}, want {want}");
            }
            assert!(dy.iter().all(|v| v.is_finite() && v.abs() < 1.2), "{function:?}: {dy:?}");
        }
    }
}
