//! How often each token is the one to be guessed: the baseline a model has to beat, and a good start for its output bias.

use super::InstanceSet;

/// Frequencies of the masked tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct UnigramBaseline {
    /// For each token, the sum of the weights of its guesses.
    counts: Vec<f64>,
    total: f64,
}

impl UnigramBaseline {
    /// Counts the labels of all instances, by weight. Ids of `vocab_size` and above do not count.
    pub fn new(instances: &impl InstanceSet, vocab_size: usize) -> Self {
        Self::from_counts(instances.labels().map(|(id, weight)| (id, f64::from(weight))), vocab_size)
    }

    /// Of tokens with the weights of their guesses.
    pub(super) fn from_counts(guesses: impl Iterator<Item = (u32, f64)>, vocab_size: usize) -> Self {
        let mut counts = vec![0.0; vocab_size];
        for (id, weight) in guesses {
            if let Some(count) = counts.get_mut(id as usize) {
                *count += weight;
            }
        }
        let total = counts.iter().sum();
        Self { counts, total }
    }

    /// The masked-LM loss, in nats, of the best model that does not look at the text: −Σ p·ln p.
    pub fn cross_entropy(&self) -> f64 {
        let shares = self.counts.iter().filter(|&&count| count > 0.0).map(|count| count / self.total);
        -shares.map(|p| p * p.ln()).sum::<f64>()
    }

    /// For each token, the log of its frequency with one added to every count: ln((count + 1) / (total + V)).
    pub fn log_frequencies(&self) -> Vec<f32> {
        let total = self.total + self.counts.len() as f64;
        self.counts.iter().map(|count| ((count + 1.0) / total).ln() as f32).collect()
    }
}
