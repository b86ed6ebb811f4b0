//! Text as it comes from a page.

use serde::Deserialize;
use serde_bytes::ByteBuf;
use wasm_bindgen::JsValue;

use super::Rejection;
use crate::data::Corpus;

/// A file: its name, for messages, and its bytes.
#[derive(Deserialize)]
pub struct File {
    pub name: String,
    pub bytes: ByteBuf,
}

/// Documents of `files`, an array of `{ name, bytes }`.
pub fn corpus(files: JsValue) -> Result<Corpus, Rejection> {
    let files: Vec<File> = serde_wasm_bindgen::from_value(files)?;
    let mut corpus = Corpus::default();
    for File { name, bytes } in files {
        corpus.add(&name, &bytes, false)?;
    }
    Ok(corpus)
}
