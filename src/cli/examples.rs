//! Training examples as a person reads them.

use wgpu_bert::data::{Features, Vocabulary, show_instance};

/// Example `n`, with what is masked in brackets.
pub fn example(features: &Features, n: usize, vocabulary: Option<&Vocabulary>) -> String {
    let label = match features.next_sentence_labels[n] {
        0 => "next",
        _ => "random",
    };
    format!("Example, second segment {label}: {}", show_instance(features, n, vocabulary))
}
