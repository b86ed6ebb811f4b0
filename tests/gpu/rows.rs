//! Gathered and scattered rows.

use wgpu_bert::ops::{GatherRows, ScatterRows, gather_rows, scatter_rows};

use crate::harness::{Bench, FAMILIES, Random, assert_close, device, precisions, read, stored, tolerance};

/// (rows of src, rows of the index, width); the last has more workgroups than fit in one dimension.
const CASES: [(usize, usize, usize); 5] = [(1, 1, 1), (7, 13, 5), (31, 3, 64), (5, 17, 129), (9, 65_600, 1)];

#[test]
fn gather_takes_rows_in_any_order() {
    for family in FAMILIES {
        let device = device(family);
        let mut random = Random::new(21);
        for (precision, (src_rows, rows, width)) in
            precisions(&device).into_iter().flat_map(|precision| CASES.map(|case| (precision, case)))
        {
            let src = stored(precision, random.vec(src_rows * width));
            let index: Vec<u32> = (0..rows).map(|_| random.below(src_rows) as u32).collect();
            let mut bench = Bench::new(&device);
            let dst = bench.real_output(precision, "dst", rows * width);
            let (src_tensor, index_tensor) =
                (bench.real(precision, "src", &src), bench.words("index", &index));
            gather_rows(
                &mut bench.plan,
                GatherRows { src: src_tensor, index: index_tensor, dst, rows, width },
            );
            let program = bench.run(&device);
            let want: Vec<f64> = (0..rows * width)
                .map(|e| f64::from(src[index[e / width] as usize * width + e % width]))
                .collect();
            assert_close(&format!("{rows}x{width}"), &read(&device, &program, dst), &want, 0.0);
        }
    }
}

#[test]
fn scatter_is_the_gradient_of_gather() {
    for family in FAMILIES {
        let device = device(family);
        let mut random = Random::new(22);
        for (precision, (entries, rows, width)) in
            precisions(&device).into_iter().flat_map(|precision| CASES.map(|case| (precision, case)))
        {
            // Gathers here are few to many and many to few; both ways round.
            for (src_rows, dst_rows) in [(entries, rows), (rows, entries)] {
                let src = stored(precision, random.vec(src_rows * width));
                let to: Vec<usize> = (0..src_rows).map(|_| random.below(dst_rows)).collect();
                let mut index: Vec<u32> = (0..src_rows as u32).collect();
                index.sort_by_key(|j| (to[*j as usize], *j));
                let offsets: Vec<u32> =
                    (0..=dst_rows).map(|t| to.iter().filter(|d| **d < t).count() as u32).collect();
                let mut bench = Bench::new(&device);
                let dst = bench.real_output(precision, "dst", dst_rows * width);
                let args = ScatterRows {
                    src: bench.real(precision, "src", &src),
                    index: bench.words("index", &index),
                    offsets: bench.words("offsets", &offsets),
                    dst,
                    rows: dst_rows,
                    width,
                };
                scatter_rows(&mut bench.plan, args);
                let program = bench.run(&device);
                let mut want = vec![0.0; dst_rows * width];
                for (row, t) in to.iter().enumerate() {
                    for i in 0..width {
                        want[t * width + i] += f64::from(src[row * width + i]);
                    }
                }
                let what = format!("{src_rows} to {dst_rows}x{width}");
                // A single sum over tens of thousands of rows is not what this op is for.
                let computed = if src_rows / dst_rows > 1000 { 1e-4 } else { 1e-6 };
                assert_close(&what, &read(&device, &program, dst), &want, tolerance(precision, computed));
            }
        }
    }
}
