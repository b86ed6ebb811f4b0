//! Batches of lines → sentences and ends of documents.

use super::text::Batch;
use crate::data::Error;
use crate::data::corpus::is_python_space;
use serde_json::Value;
use std::borrow::Cow;

/// What a line means.
pub(super) enum Line<'a> {
    /// Without blanks around it; not empty.
    Sentence(&'a str),
    /// Documents may end more than once.
    DocumentEnd,
}

impl Batch {
    /// Hands every line to `take`. With `json_field` lines are JSON objects that have the text of a document in that
    /// field. Returns how many bytes were left out because they are not UTF-8.
    ///
    /// # Errors
    /// When a line is no such object.
    pub(super) fn for_each_line(
        &self,
        json_field: Option<&str>,
        mut take: impl FnMut(Line),
    ) -> Result<u64, Error> {
        let mut undecodable = 0;
        let text = match std::str::from_utf8(&self.bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => {
                let chunks = || self.bytes.utf8_chunks();
                undecodable = chunks().map(|chunk| chunk.invalid().len() as u64).sum();
                Cow::Owned(chunks().map(|chunk| chunk.valid()).collect())
            }
        };
        // A final line feed ends the last line; what follows is not a blank line.
        let lines = text.strip_suffix('\n').unwrap_or(&text).split('\n');
        let Some(field) = json_field else {
            lines.for_each(|line| match line.trim_matches(is_python_space) {
                "" => take(Line::DocumentEnd),
                sentence => take(Line::Sentence(sentence)),
            });
            return Ok(undecodable);
        };
        for (number, line) in (self.first_line..).zip(lines) {
            // Some editors mark UTF-8 with it; in text the tokenizer leaves it out.
            let line = if number == 1 { line.trim_start_matches('\u{feff}') } else { line };
            if line.trim().is_empty() {
                continue;
            }
            let text = json_text(line, field).map_err(|problem| Error::BadJsonLine {
                origin: self.origin.to_string(),
                line: number,
                problem,
            })?;
            // An object is a document, whatever blank lines its text has.
            take(Line::DocumentEnd);
            let sentences = text.split('\n').map(|line| line.trim_matches(is_python_space));
            sentences
                .filter(|sentence| !sentence.is_empty())
                .for_each(|sentence| take(Line::Sentence(sentence)));
            take(Line::DocumentEnd);
        }
        Ok(undecodable)
    }
}

/// The text in a field of a line's object, or what is wrong with the line.
fn json_text(line: &str, field: &str) -> Result<String, String> {
    match serde_json::from_str(line) {
        Ok(Value::Object(mut object)) => match object.get_mut(field).map(Value::take) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(format!("\"{field}\" is not a text")),
            None => {
                let keys: Vec<_> = object.keys().take(5).map(|key| format!("\"{key}\"")).collect();
                Err(format!("there is no \"{field}\" in it, but {}", keys.join(", ")))
            }
        },
        Ok(_) => Err("it is no JSON object".into()),
        Err(error) => Err(format!("not valid JSON: {error}")),
    }
}
