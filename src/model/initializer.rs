//! How weights start: truncated normal matrices, zero biases, unit layer-norm scales.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};

use super::parameters::ParameterTable;

/// Initial values of every parameter of the table, in its order.
///
/// Matrices and embeddings are normal with mean 0 and standard deviation `range`, drawn again beyond two standard
/// deviations; biases are 0 and layer-norm scales 1. Every parameter has a random stream of its own, so its values
/// depend on `seed` and its position only.
pub fn initial_values(table: &ParameterTable, range: f64, seed: u64) -> Vec<Vec<f32>> {
    let values = |(index, parameter): (usize, &super::parameters::Parameter)| {
        let len = parameter.len();
        if parameter.name.ends_with("bias") {
            return vec![0.0; len];
        }
        if parameter.name.ends_with("LayerNorm.weight") {
            return vec![1.0; len];
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index as u64);
        (0..len).map(|_| (range * truncated_normal(&mut rng)) as f32).collect()
    };
    table.parameters.iter().enumerate().map(values).collect()
}

fn truncated_normal(rng: &mut ChaCha8Rng) -> f64 {
    loop {
        let sample: f64 = StandardNormal.sample(rng);
        if sample.abs() <= 2.0 {
            return sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::BertConfig;

    #[test]
    fn spread_is_that_of_a_normal_cut_at_two_deviations() {
        let table = ParameterTable::new(&BertConfig::preset("tiny", 1000).unwrap(), true, 1 << 30);
        let values = initial_values(&table, 0.02, 1);
        assert_eq!(values, initial_values(&table, 0.02, 1));
        assert_ne!(values, initial_values(&table, 0.02, 2));
        for (parameter, values) in table.parameters.iter().zip(&values) {
            if parameter.name.ends_with("bias") {
                assert!(values.iter().all(|v| *v == 0.0));
            } else if parameter.name.ends_with("LayerNorm.weight") {
                assert!(values.iter().all(|v| *v == 1.0));
            } else {
                assert!(values.iter().all(|v| v.abs() <= 0.04));
            }
        }
        // 0.8796 of the range is the deviation of a normal cut at two deviations.
        let words = &values[0];
        let deviation =
            (words.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / words.len() as f64).sqrt();
        assert!((deviation / 0.02 - 0.8796).abs() < 0.01, "{deviation}");
    }
}
