//! An evaluation as JSON and as a line.

use serde_json::{Value, json};
use wgpu_bert::train::Evaluation;

/// Under the reference's names, where it has them.
pub fn to_json(evaluation: &Evaluation) -> Value {
    let mut object = json!({
        "kind": "evaluation",
        "instances": evaluation.instances,
        "predictions": evaluation.predictions,
        "loss": evaluation.loss(),
        "lm_example_loss": evaluation.lm_example_loss,
        "perplexity": evaluation.perplexity(),
        "masked_lm_accuracy": evaluation.masked_lm_accuracy,
    });
    // Absent, not null, without the task.
    if let (Some(loss), Some(accuracy)) = (evaluation.next_sentence_loss, evaluation.next_sentence_accuracy) {
        object["next_sentence_loss"] = loss.into();
        object["next_sentence_accuracy"] = accuracy.into();
    }
    object
}

/// For a person; behind each loss stands the share of right guesses.
pub fn to_text(evaluation: &Evaluation) -> String {
    let Evaluation { instances, lm_example_loss: mlm, masked_lm_accuracy, .. } = evaluation;
    let mut line = format!(
        "loss {:.3}  MLM {mlm:.3} (perplexity {:.1}) {:.1} %",
        evaluation.loss(),
        evaluation.perplexity(),
        100.0 * masked_lm_accuracy
    );
    if let (Some(nsp), Some(accuracy)) = (evaluation.next_sentence_loss, evaluation.next_sentence_accuracy) {
        line += &format!("  NSP {nsp:.3} {:.1} %", 100.0 * accuracy);
    }
    line + &format!("  on {instances} examples")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_task_nothing_is_said_of_it() {
        let with = Evaluation {
            instances: 40,
            predictions: 80.0,
            lm_example_loss: 2.0,
            masked_lm_accuracy: 0.25,
            next_sentence_loss: Some(0.5),
            next_sentence_accuracy: Some(0.75),
        };
        assert_eq!(
            to_text(&with),
            "loss 2.500  MLM 2.000 (perplexity 7.4) 25.0 %  NSP 0.500 75.0 %  on 40 examples"
        );
        assert_eq!(
            (&to_json(&with)["loss"], &to_json(&with)["next_sentence_loss"]),
            (&2.5.into(), &0.5.into())
        );
        let without = Evaluation { next_sentence_loss: None, next_sentence_accuracy: None, ..with };
        assert!(!to_text(&without).contains("NSP") && to_json(&without).get("next_sentence_loss").is_none());
    }
}
