//! Records in the ring.

use wgpu_bert::ops::{Metrics, RECORD_WORDS, RowMetrics, Scalar, metrics};

use crate::harness::{Bench, FAMILIES, POISON, Random, assert_close, device, read};

#[test]
fn a_record_holds_scaled_sums_norm_step_and_verdict() {
    for family in FAMILIES {
        let device = device(family);
        let mut random = Random::new(91);
        for (mlm_rows, nsp_rows) in [(1, None), (160, Some(8)), (63, Some(65)), (2049, Some(1)), (5003, None)]
        {
            let mut bench = Bench::new(&device);
            let scales = [0.5f32, 0.25, 2.0, 3.0];
            let (slot, step) = (2, 0xfff1);
            let mut words = scales.map(f32::to_bits).to_vec();
            words.extend([slot, step]);
            let scalars = bench.words("scalars", &words);
            let scalar = |word| Scalar { tensor: scalars, word };
            let norm = bench.input("norm", &[7.5, 1.0, 1.0, f32::from_bits(9), 3.0, 64.0]);
            let values = [mlm_rows, mlm_rows, nsp_rows.unwrap_or(0), nsp_rows.unwrap_or(0)]
                .map(|rows| random.vec(rows));
            let mut rows = |i: usize| RowMetrics {
                row_loss: bench.input("loss", &values[i]),
                row_hit: bench.input("hit", &values[i + 1]),
                loss_scale: scalar(i as u32),
                hit_scale: scalar(i as u32 + 1),
            };
            let args = Metrics {
                mlm: rows(0),
                nsp: nsp_rows.map(|_| rows(2)),
                norm,
                step: scalar(5),
                slot: scalar(4),
                ring: bench.output("ring", 5 * RECORD_WORDS),
            };
            metrics(&mut bench.plan, args);
            let program = bench.run(&device);
            let ring = read(&device, &program, args.ring);
            let (before, record) = ring.split_at(slot as usize * RECORD_WORDS);
            let (record, after) = record.split_at(RECORD_WORDS);
            let untouched = |words: &[f32]| words.iter().all(|word| word.to_bits() == POISON);
            assert!(untouched(before) && untouched(after), "only the slot's record is written");
            for (i, (values, scale)) in values.iter().zip(scales).enumerate() {
                let want = values.iter().map(|v| f64::from(*v)).sum::<f64>() * f64::from(scale);
                assert_close(&format!("sum {i} of {mlm_rows}"), &record[i..=i], &[want], 1e-5);
            }
            assert_eq!(record[4], 7.5);
            assert_eq!(
                record[5..].iter().map(|word| word.to_bits()).collect::<Vec<_>>(),
                [step, 9, 64_f32.to_bits()]
            );
        }
    }
}
