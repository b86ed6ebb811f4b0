//! The matrix product against f64, on odd sizes, transposed, batched, with bias and accumulation.

use wgpu_bert::gpu::{KernelFamily, Precision, Program, Tensor};
use wgpu_bert::ops::{Linear, Matmul, Operand, matmul};

use crate::harness::{
    Bench, Device, Random, assert_close, device, families, precisions, read, stored, tolerance,
};

struct Case {
    m: usize,
    n: usize,
    k: usize,
    batch: (usize, usize),
    offset: usize,
    /// Of the factors and of the product.
    precisions: (Precision, Precision),
}

const F32: (Precision, Precision) = (Precision::F32, Precision::F32);

fn strided(operand: &Operand, values: &[f32], z: (usize, usize), row: usize, col: usize) -> f64 {
    let at = operand.base + z.0 * operand.outer + z.1 * operand.inner + row * operand.row + col * operand.col;
    f64::from(values[at])
}

#[test]
fn agrees_with_f64_on_odd_sizes() {
    let sizes = [
        (1, 1, 1),
        (7, 5, 3),
        (8, 8, 8),
        (9, 17, 31),
        (64, 64, 16),
        (65, 67, 17),
        (63, 129, 33),
        (3, 200, 70),
    ];
    for family in families() {
        let device = device(family);
        let mut random = Random::new(7);
        for (i, (m, n, k)) in sizes.into_iter().enumerate() {
            let batch = [(1, 1), (2, 3)][i % 2];
            for transposed in [(false, false), (false, true), (true, false), (true, true)] {
                check(&device, &mut random, &Case { m, n, k, batch, offset: 3, precisions: F32 }, transposed);
            }
        }
    }
}

/// Sizes that are multiples of four: the kernels that read four words at a time take them.
#[test]
fn agrees_with_f64_in_fours() {
    let sizes = [(16, 16, 4), (20, 36, 8), (64, 16, 128), (12, 32, 4), (148, 20, 68)];
    for family in families() {
        let device = device(family);
        let mut random = Random::new(11);
        for (i, (m, n, k)) in sizes.into_iter().enumerate() {
            let batch = [(1, 1), (2, 3)][i % 2];
            for transposed in [(false, false), (false, true), (true, false), (true, true)] {
                check(&device, &mut random, &Case { m, n, k, batch, offset: 4, precisions: F32 }, transposed);
            }
        }
    }
}

/// What a step in fp16 has: products that are activations, and those that are gradients of weights.
#[test]
fn factors_in_fp16_are_summed_in_f32() {
    for family in families() {
        let device = device(family);
        let mut random = Random::new(17);
        for precision in precisions(&device) {
            for (m, n, k) in [(1, 1, 1), (9, 17, 31), (20, 36, 8), (65, 67, 40)] {
                for (i, product) in [precision, Precision::F32].into_iter().enumerate() {
                    let (batch, precisions) = ([(1, 1), (2, 3)][(m + i) % 2], (precision, product));
                    let case = Case { m, n, k, batch, offset: 3, precisions };
                    check(&device, &mut random, &case, (i == 0, k % 2 == 0));
                }
            }
        }
    }
}

/// Whatever tiles a family has, it sums in the same order: which one multiplies changes no bit.
#[test]
fn results_do_not_depend_on_the_family() {
    let sizes = [(1, 1, 1), (9, 17, 31), (36, 32, 40), (65, 67, 17), (3, 200, 70), (148, 40, 132)];
    let products = |family| {
        let device = device(family);
        let mut random = Random::new(13);
        let mut bits = Vec::new();
        for (i, (m, n, k)) in sizes.into_iter().enumerate() {
            for transposed in [(false, false), (false, true), (true, false), (true, true)] {
                let case = Case { m, n, k, batch: [(1, 1), (2, 3)][i % 2], offset: 4, precisions: F32 };
                let Product { program, c, sums, .. } = multiply(&device, &mut random, &case, transposed);
                let results = std::iter::once(c.tensor).chain(sums);
                let results = results.map(|result| read(&device, &program, result));
                bits.push(results.flatten().map(f32::to_bits).collect::<Vec<_>>());
            }
        }
        bits
    };
    let register = products(KernelFamily::Register);
    for family in families() {
        assert!(products(family) == register, "{family:?}");
    }
}

/// Matrices of a batch lie `offset` words apart, inner batches before outer ones; so does the whole from word 0.
fn operand(
    bench: &mut Bench,
    name: &str,
    rows: usize,
    cols: usize,
    transposed: bool,
    case: &Case,
    (precision, values): (Precision, &[f32]),
) -> Operand {
    let size = rows * cols + case.offset;
    let (row, col) = if transposed { (1, rows) } else { (cols, 1) };
    let tensor = bench.real(precision, name, values);
    Operand { tensor, base: case.offset, row, col, outer: case.batch.1 * size, inner: size }
}

/// A product, computed from random operands.
struct Product {
    what: String,
    program: Program,
    a: Operand,
    b: Operand,
    c: Operand,
    sums: Option<Tensor>,
    alpha: f32,
    accumulate: bool,
    a_values: Vec<f32>,
    b_values: Vec<f32>,
    /// What C held before.
    c_values: Vec<f32>,
    bias: Option<Vec<f32>>,
}

fn multiply(device: &Device, random: &mut Random, case: &Case, transposed: (bool, bool)) -> Product {
    let Case { m, n, k, batch, offset, precisions: (factors, product) } = *case;
    let batches = batch.0 * batch.1;
    let mut bench = Bench::new(device);
    let mut values = |precision, size| stored(precision, random.vec(offset + batches * (size + offset)));
    let (a_values, b_values) = (values(factors, m * k), values(factors, k * n));
    let c_values = values(product, m * n);
    let bias_values = random.vec(n);
    let a = operand(&mut bench, "a", m, k, transposed.0, case, (factors, &a_values));
    let b = operand(&mut bench, "b", k, n, transposed.1, case, (factors, &b_values));
    let c = operand(&mut bench, "c", m, n, false, case, (product, &c_values));
    let bias = bench.input("bias", &bias_values);
    let (alpha, accumulate) = (0.5, transposed.0);
    let bias = (!transposed.1).then_some(bias);
    let sums = (bias.is_none() && batches == 1).then(|| bench.output("sums", m));
    matmul(&mut bench.plan, Matmul { a, b, c, bias, sums, m, n, k, batch, alpha, accumulate });
    let program = bench.run(device);
    let what = format!("{m}x{n}x{k} {transposed:?} {:?} {:?}", device.gpu.kernels.products, case.precisions);
    let bias = bias.map(|_| bias_values);
    Product { what, program, a, b, c, sums, alpha, accumulate, a_values, b_values, c_values, bias }
}

fn check(device: &Device, random: &mut Random, case: &Case, transposed: (bool, bool)) {
    let Case { m, n, k, batch, precisions: (_, product), .. } = *case;
    let Product { what, program, a, b, c, sums, alpha, accumulate, a_values, b_values, c_values, bias } =
        multiply(device, random, case, transposed);
    if let Some(sums) = sums {
        let sum = |row| (0..k).map(|l| f64::from(a_values[a.base + row * a.row + l * a.col])).sum();
        let want: Vec<f64> = (0..m).map(sum).collect();
        assert_close(&format!("sums of {what}"), &read(device, &program, sums), &want, 2e-6);
    }
    let got = read(device, &program, c.tensor);
    let mut want: Vec<f64> = c_values.iter().map(|v| f64::from(*v)).collect();
    for z in (0..batch.0).flat_map(|o| (0..batch.1).map(move |i| (o, i))) {
        for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let sum: f64 =
                (0..k).map(|l| strided(&a, &a_values, z, row, l) * strided(&b, &b_values, z, l, col)).sum();
            let at = c.base + z.0 * c.outer + z.1 * c.inner + row * c.row + col;
            let kept = if accumulate { want[at] } else { 0.0 };
            let added = bias.as_ref().map_or(0.0, |bias| f64::from(bias[col]));
            want[at] = f64::from(alpha) * sum + kept + added;
        }
    }
    assert_close(&what, &got, &want, tolerance(product, 2e-6));
}

#[test]
fn linear_layer_and_its_gradients() {
    for family in families() {
        let device = device(family);
        let mut random = Random::new(3);
        let layer = Linear { rows: 11, inputs: 13, outputs: 9 };
        let (x, w, bias, dy) = (random.vec(143), random.vec(117), random.vec(9), random.vec(99));
        let mut bench = Bench::new(&device);
        let tensors = [("x", &x), ("w", &w), ("bias", &bias), ("dy", &dy)].map(|(n, v)| bench.input(n, v));
        let [tx, tw, tbias, tdy] = tensors;
        let (y, dx, dw) = (bench.output("y", 99), bench.output("dx", 143), bench.output("dw", 117));
        let db = bench.output("dbias", 9);
        layer.forward(&mut bench.plan, Operand::rows(tx, 13), tw, tbias, y);
        layer.input_gradient(&mut bench.plan, tdy, tw, Operand::rows(dx, 13), false);
        layer.weight_gradient(&mut bench.plan, tdy, Operand::rows(tx, 13), dw, db);
        let program = bench.run(&device);
        let f = |v: f32| f64::from(v);
        let grid = |rows: usize, cols: usize| (0..rows * cols).map(move |i| (i / cols, i % cols));
        let want: Vec<f64> = grid(11, 9)
            .map(|(r, o)| f(bias[o]) + (0..13).map(|i| f(x[r * 13 + i]) * f(w[o * 13 + i])).sum::<f64>())
            .collect();
        assert_close("y", &read(&device, &program, y), &want, 2e-6);
        let want: Vec<f64> =
            grid(11, 13).map(|(r, i)| (0..9).map(|o| f(dy[r * 9 + o]) * f(w[o * 13 + i])).sum()).collect();
        assert_close("dx", &read(&device, &program, dx), &want, 2e-6);
        let want: Vec<f64> =
            grid(9, 13).map(|(o, i)| (0..11).map(|r| f(dy[r * 9 + o]) * f(x[r * 13 + i])).sum()).collect();
        assert_close("dw", &read(&device, &program, dw), &want, 2e-6);
        let want: Vec<f64> = (0..9).map(|o| (0..11).map(|r| f(dy[r * 9 + o])).sum()).collect();
        assert_close("dbias", &read(&device, &program, db), &want, 2e-6);
    }
}

/// Products that share an operand, and one whose operand is written in between: kernels that read copies must notice.
#[test]
fn a_product_reads_what_was_last_written() {
    let size = 72;
    for family in families() {
        let device = device(family);
        let mut random = Random::new(19);
        let (x, y) = (random.vec(size * size), random.vec(size * size));
        let mut bench = Bench::new(&device);
        let [x_rows, y_rows] =
            [("x", &x), ("y", &y)].map(|(name, v)| Operand::rows(bench.input(name, v), size));
        let outputs =
            ["xy", "first", "second"].map(|name| Operand::rows(bench.output(name, size * size), size));
        let [xy, first, second] = outputs;
        for (a, c, accumulate) in
            [(x_rows, xy, false), (xy, first, false), (x_rows, xy, true), (xy, second, false)]
        {
            let (b, (m, n, k), batch) = (y_rows, (size, size, size), (1, 1));
            let product = Matmul { a, b, c, bias: None, sums: None, m, n, k, batch, alpha: 1.0, accumulate };
            matmul(&mut bench.plan, product);
        }
        let program = bench.run(&device);
        let twice: Vec<_> =
            read(&device, &program, first.tensor).iter().map(|v| 2.0 * f64::from(*v)).collect();
        assert!(twice.iter().any(|v| *v != 0.0));
        assert_close(&format!("{family:?}"), &read(&device, &program, second.tensor), &twice, 2e-6);
    }
}
