//! Guesses for masked words, and examples with them, as plain objects.

use serde::Serialize;

use crate::data::{Example, ExampleToken};
use crate::train::{Guess, Guesses};

#[derive(Serialize)]
pub struct GuessesView {
    masks: Vec<Vec<GuessView>>,
    cropped: usize,
}

#[derive(Serialize)]
struct GuessView {
    token: String,
    probability: f32,
}

impl From<Guesses> for GuessesView {
    fn from(guesses: Guesses) -> Self {
        let view = |Guess { token, probability }| GuessView { token, probability };
        let masks = guesses.masks.into_iter().map(|mask| mask.into_iter().map(view).collect());
        Self { masks: masks.collect(), cropped: guesses.cropped }
    }
}

#[derive(Serialize)]
pub struct ExampleView {
    tokens: Vec<ExampleTokenView>,
}

#[derive(Serialize)]
struct ExampleTokenView {
    token: String,
    hidden: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    guess: Option<String>,
}

impl ExampleView {
    pub fn all(examples: Vec<Example>) -> Vec<Self> {
        let token = |ExampleToken { token, hidden, guess }| ExampleTokenView { token, hidden, guess };
        let view = |Example { tokens }| Self { tokens: tokens.into_iter().map(token).collect() };
        examples.into_iter().map(view).collect()
    }
}
