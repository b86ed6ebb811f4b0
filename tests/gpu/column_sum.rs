//! Column sums against f64.

use wgpu_bert::ops::{ColumnSum, column_sum};

use crate::harness::{Bench, FAMILIES, Random, assert_close, device, read};

#[test]
fn columns_are_summed() {
    // One row, one block, a block and a row, many blocks with a short last one, and many columns.
    let cases = [(1, 1), (16, 5), (17, 64), (257, 65), (1031, 3), (2, 4001)];
    for family in FAMILIES {
        let device = device(family);
        let mut random = Random::new(31);
        for (rows, columns) in cases {
            let x = random.vec(rows * columns);
            // What follows must not be read.
            let followed: Vec<f32> = x.iter().copied().chain([f32::NAN; 5000]).collect();
            let mut bench = Bench::new(&device);
            let out = bench.output("out", columns);
            let args = ColumnSum { x: bench.input("x", &followed), out, rows, columns };
            column_sum(&mut bench.plan, args);
            let program = bench.run(&device);
            let want: Vec<f64> =
                (0..columns).map(|j| (0..rows).map(|r| f64::from(x[r * columns + j])).sum()).collect();
            assert_close(&format!("{rows}x{columns}"), &read(&device, &program, out), &want, 1e-6);
        }
    }
}
