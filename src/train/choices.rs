//! What somebody chose, filled up by a recipe.

use super::recipe::{Model, Recipe, Warmup};
use crate::data::InstanceOptions;
use crate::model::config::{BertConfig, ConfigError};
use crate::optimizer::{LossScale, OnNan, OptimizerKind, OptimizerOptions};

/// Choices about examples; see [`InstanceOptions`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstanceChoices {
    /// Tokens of an example.
    pub max_seq_length: Option<usize>,
    /// The most tokens masked in it.
    pub max_predictions_per_seq: Option<usize>,
    /// Share of the tokens that are masked.
    pub masked_lm_prob: Option<f64>,
    /// Share of the examples that are shorter than they could be.
    pub short_seq_prob: Option<f64>,
    /// How often the text is gone through.
    pub dupe_factor: Option<usize>,
    /// Tokens of the first segment.
    pub first_segment_tokens: Option<(usize, usize)>,
    /// Whether whole words are masked.
    pub whole_word_mask: Option<bool>,
    /// The most words masked together.
    pub max_ngram_size: Option<usize>,
    /// Whether next sentences will be learned.
    pub use_next_sentence_label: Option<bool>,
    /// Seed of all random draws.
    pub seed: Option<u64>,
}

/// Choices about updates; see [`OptimizerOptions`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OptimizerChoices {
    /// The update rule.
    pub kind: Option<OptimizerKind>,
    /// How much of the first moments a step keeps.
    pub beta_1: Option<f64>,
    /// How much of the second moments a step keeps.
    pub beta_2: Option<f64>,
    /// Weight decay.
    pub weight_decay: Option<f64>,
    /// The largest global norm of the gradients; 0 for no limit.
    pub clip_norm: Option<f64>,
    /// What follows a step that is not finite.
    pub on_nan: Option<OnNan>,
    /// What the loss is scaled with, if it is.
    pub loss_scale: Option<LossScale>,
}

impl Recipe {
    /// How examples are made.
    pub fn instances(&self, choices: InstanceChoices) -> InstanceOptions {
        let reference = InstanceOptions::default();
        let max_seq_length = choices.max_seq_length.unwrap_or(self.max_seq_length);
        let masked_lm_prob = choices.masked_lm_prob.unwrap_or(self.masked_lm_prob);
        let enough = ((max_seq_length as f64 * masked_lm_prob).ceil() as usize).max(1);
        let predictions = choices.max_predictions_per_seq.or(self.max_predictions_per_seq);
        // The recipe's lengths give way to a shorter sequence, which keeps a token for the second segment; those that
        // were chosen are checked where the text is cut.
        let longest_first = max_seq_length.saturating_sub(4).max(1);
        let first_segment =
            self.first_segment_tokens.map(|(low, high)| (low.min(longest_first), high.min(longest_first)));
        InstanceOptions {
            max_seq_length,
            max_predictions_per_seq: predictions.unwrap_or(enough),
            dupe_factor: choices.dupe_factor.unwrap_or(self.dupe_factor),
            masked_lm_prob,
            short_seq_prob: choices.short_seq_prob.unwrap_or(reference.short_seq_prob),
            random_seed: choices.seed.unwrap_or(reference.random_seed),
            whole_word_mask: choices.whole_word_mask.unwrap_or(reference.whole_word_mask),
            max_ngram_size: choices.max_ngram_size.unwrap_or(reference.max_ngram_size),
            use_next_sentence_label: choices
                .use_next_sentence_label
                .unwrap_or(reference.use_next_sentence_label),
            first_segment_tokens: choices.first_segment_tokens.or(first_segment),
        }
    }

    /// The update rule.
    pub fn optimizer(&self, choices: OptimizerChoices) -> OptimizerOptions {
        let reference = OptimizerOptions::new(choices.kind.unwrap_or(OptimizerKind::AdamW));
        OptimizerOptions {
            beta_1: choices.beta_1.unwrap_or(reference.beta_1),
            beta_2: choices.beta_2.unwrap_or(self.beta_2),
            weight_decay: choices.weight_decay.unwrap_or(reference.weight_decay),
            clip_norm: choices
                .clip_norm
                .map_or(reference.clip_norm, |norm| Some(norm).filter(|norm| *norm > 0.0)),
            on_nan: choices.on_nan.unwrap_or(reference.on_nan),
            loss_scale: choices.loss_scale,
            ..reference
        }
    }

    /// The model.
    ///
    /// # Errors
    /// None for the recipes there are.
    pub fn config(&self, vocab_size: usize, max_seq_length: usize) -> Result<BertConfig, ConfigError> {
        Ok(match &self.model {
            Model::Preset(name) => BertConfig::preset(name, vocab_size)?,
            Model::Sizes(config) => BertConfig {
                vocab_size,
                max_position_embeddings: config.max_position_embeddings.max(max_seq_length),
                ..config.clone()
            },
        })
    }
}

impl Warmup {
    /// Its length in a run of so many steps.
    pub fn steps(&self, total_steps: u64) -> f64 {
        match self {
            Self::Steps(steps) => *steps,
            Self::Share(share) => (total_steps as f64 * share).floor(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::recipe::{GPU, REFERENCE, SOFTWARE};
    use super::*;

    #[test]
    fn what_is_chosen_wins_and_the_rest_fits_it() {
        assert_eq!(REFERENCE.instances(InstanceChoices::default()), InstanceOptions::default());
        let short = InstanceChoices { max_seq_length: Some(10), ..InstanceChoices::default() };
        let instances = SOFTWARE.instances(short.clone());
        assert_eq!((instances.max_predictions_per_seq, instances.first_segment_tokens), (3, Some((3, 6))));
        assert_eq!(GPU.config(99, 10).unwrap().vocab_size, 99);
        assert_eq!(SOFTWARE.config(99, 40).unwrap().max_position_embeddings, 40);
        let chosen = InstanceChoices { first_segment_tokens: Some((1, 9)), seed: Some(3), ..short };
        let instances = SOFTWARE.instances(chosen);
        assert_eq!((instances.random_seed, instances.first_segment_tokens), (3, Some((1, 9))));
    }

    #[test]
    fn updates_follow_the_recipe_unless_chosen() {
        let optimizer = |choices| SOFTWARE.optimizer(choices);
        assert_eq!(optimizer(OptimizerChoices::default()).beta_2, 0.98);
        let unlimited = OptimizerChoices { clip_norm: Some(0.0), beta_2: Some(0.9), ..Default::default() };
        assert_eq!((optimizer(unlimited.clone()).clip_norm, optimizer(unlimited).beta_2), (None, 0.9));
        assert_eq!((Warmup::Share(0.1).steps(25), Warmup::Steps(7.0).steps(25)), (2.0, 7.0));
    }
}
