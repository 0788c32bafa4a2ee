//! A run in forms for other programs: every sample as CSV, the tables and sentences as Markdown, times by size in
//! the columns of a document. JSON is the document
//! itself, [`seekless_record::to_json`]. Writing to files is not done here.

mod columns;
mod csv;
mod markdown;

pub use columns::to_columns;
pub use csv::to_csv;
pub use markdown::to_markdown;

/// The word that a value of the document has in its JSON.
fn word(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
