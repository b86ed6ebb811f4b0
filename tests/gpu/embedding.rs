//! Embedding sums and table gradients against f64, with ids that occur never, once and often.

use wgpu_bert::ops::{Embedding, RowsById, Scalar, TableGradient, embedding, table_gradient};

use crate::harness::{Bench, FAMILIES, Random, assert_close, device, precisions, read, stored, tolerance};

/// (sequences, seq, width, vocabulary); the last has more workgroups than fit in one dimension.
const CASES: [(usize, usize, usize, usize); 5] =
    [(1, 1, 1, 1), (2, 5, 3, 7), (3, 7, 64, 50), (2, 13, 65, 11), (8, 8200, 1, 100)];

#[test]
fn three_lookups_are_added() {
    for family in FAMILIES {
        let device = device(family);
        let mut random = Random::new(11);
        for (precision, (sequences, seq, width, vocabulary)) in
            precisions(&device).into_iter().flat_map(|precision| CASES.map(|case| (precision, case)))
        {
            let rows = sequences * seq;
            let types = 3;
            let tables = [vocabulary, seq + 2, types].map(|entries| random.vec(entries * width));
            let word_ids: Vec<u32> = (0..rows).map(|_| random.below(vocabulary) as u32).collect();
            let type_ids: Vec<u32> = (0..rows).map(|_| random.below(types) as u32).collect();
            let mut bench = Bench::new(&device);
            let x = bench.real_output(precision, "x", rows * width);
            let args = Embedding {
                word_ids: bench.words("word_ids", &word_ids),
                type_ids: bench.words("type_ids", &type_ids),
                word: bench.input("word", &tables[0]),
                position: bench.input("position", &tables[1]),
                token_type: bench.input("token_type", &tables[2]),
                x,
                rows,
                seq,
                width,
            };
            embedding(&mut bench.plan, args);
            let program = bench.run(&device);
            let want: Vec<f64> = (0..rows * width)
                .map(|e| {
                    let (r, i) = (e / width, e % width);
                    let ids = [word_ids[r] as usize, r % seq, type_ids[r] as usize];
                    ids.iter().zip(&tables).map(|(id, table)| f64::from(table[id * width + i])).sum()
                })
                .collect();
            assert_close(
                &format!("{rows}x{width} {precision:?}"),
                &read(&device, &program, x),
                &want,
                tolerance(precision, 2e-7),
            );
        }
    }
}

/// Rows grouped by id, at most `limit` to a segment: rows, segment offsets, ids, id offsets.
fn group(row_ids: &[usize], limit: usize) -> [Vec<u32>; 4] {
    let mut pairs: Vec<(usize, u32)> = row_ids.iter().copied().zip(0..).collect();
    pairs.sort_unstable();
    let [mut rows, mut segment_offsets, mut ids, mut id_offsets] = [vec![], vec![0], vec![], vec![0]];
    for of_id in pairs.chunk_by(|a, b| a.0 == b.0) {
        for segment in of_id.chunks(limit) {
            rows.extend(segment.iter().map(|(_, row)| *row));
            segment_offsets.push(rows.len() as u32);
        }
        ids.push(of_id[0].0 as u32);
        id_offsets.push(segment_offsets.len() as u32 - 1);
    }
    [rows, segment_offsets, ids, id_offsets]
}

#[test]
fn every_entry_gathers_its_rows() {
    for family in FAMILIES {
        let device = device(family);
        for (sequences, seq, width, vocabulary) in CASES {
            for (accumulate, precision) in
                precisions(&device).into_iter().flat_map(|p| [(false, p), (true, p)])
            {
                let mut random = Random::new(12);
                let rows = sequences * seq;
                // Half of the rows share one id.
                let row_ids: Vec<usize> =
                    (0..rows).map(|r| if r % 2 == 0 { 0 } else { random.below(vocabulary) }).collect();
                let [grouped, segment_offsets, ids, id_offsets] = group(&row_ids, 16);
                let counts = [77, segment_offsets.len() as u32 - 1, ids.len() as u32];
                let (dx, before) =
                    (stored(precision, random.vec(rows * width)), random.vec(vocabulary * width));
                let mut bench = Bench::new(&device);
                let counts = bench.words("counts", &counts);
                let table = bench.input("table", &before);
                // The tables of this step are shorter than the longest there can be; what follows is poison.
                let padded = |mut words: Vec<u32>, len: usize| {
                    words.resize(len, 0xffff_ffff);
                    words
                };
                let args = TableGradient {
                    rows_by_id: RowsById {
                        rows: bench.words("rows", &grouped),
                        segment_offsets: bench.words("segments", &padded(segment_offsets, rows + 1)),
                        unique_ids: bench.words("ids", &padded(ids, rows)),
                        unique_offsets: bench.words("id_offsets", &padded(id_offsets, rows + 1)),
                        segments: Scalar { tensor: counts, word: 1 },
                        unique: Scalar { tensor: counts, word: 2 },
                        max_segments: rows,
                        max_unique: rows,
                    },
                    dx: bench.real(precision, "dx", &dx),
                    table,
                    width,
                    accumulate,
                };
                table_gradient(&mut bench.plan, args);
                let program = bench.run(&device);
                let mut want: Vec<f64> = before.iter().map(|v| f64::from(*v)).collect();
                if !accumulate {
                    row_ids.iter().for_each(|id| want[id * width..(id + 1) * width].fill(0.0));
                }
                for (row, id) in row_ids.iter().enumerate() {
                    for i in 0..width {
                        want[id * width + i] += f64::from(dx[row * width + i]);
                    }
                }
                let what = format!("{rows}x{width} accumulate {accumulate} {precision:?}");
                assert_close(&what, &read(&device, &program, table), &want, 5e-6);
            }
        }
    }
}
