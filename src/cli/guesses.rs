//! Guesses for masked words, as text and as JSON.

use serde_json::{Value, json};
use wgpu_bert::train::{Guess, Guesses};

/// The sentence, and below it a line for every guess of every mask.
pub fn to_text(sentence: &str, guesses: &Guesses) -> String {
    let width = guesses.masks.iter().flatten().map(|guess| guess.token.chars().count()).max().unwrap_or(0);
    let mut text = sentence.to_owned();
    for (number, mask) in guesses.masks.iter().enumerate() {
        if guesses.masks.len() > 1 {
            text += &format!("\n  mask {}", number + 1);
        }
        for Guess { token, probability } in mask {
            text += &format!("\n  {token:width$}  {probability:.3}");
        }
    }
    text
}

pub fn to_json(sentence: &str, guesses: &Guesses) -> Value {
    let guess = |guess: &Guess| json!({"token": guess.token, "probability": guess.probability});
    let masks: Vec<Vec<_>> = guesses.masks.iter().map(|mask| mask.iter().map(guess).collect()).collect();
    json!({"text": sentence, "masks": masks})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_lined_up() {
        let guess = |token: &str, probability| Guess { token: token.into(), probability };
        let mask = vec![guess("heaven", 0.5), guess("day", 0.25)];
        let one = Guesses { masks: vec![mask.clone()], cropped: 0 };
        assert_eq!(to_text("the [MASK]", &one), "the [MASK]\n  heaven  0.500\n  day     0.250");
        let two = Guesses { masks: vec![mask.clone(), vec![guess("é", 0.125)]], cropped: 0 };
        let text = to_text("a [MASK] [MASK]", &two);
        assert!(
            text.ends_with("\n  mask 1\n  heaven  0.500\n  day     0.250\n  mask 2\n  é       0.125"),
            "{text}"
        );
        let json = to_json("the [MASK]", &one);
        assert_eq!(
            json.to_string(),
            r#"{"text":"the [MASK]","masks":[[{"token":"heaven","probability":0.5},{"token":"day","probability":0.25}]]}"#
        );
    }
}
