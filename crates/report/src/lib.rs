//! A run in forms to read and to work on: a page of HTML, Markdown, every sample as CSV, times by size in the columns of
//! a document. JSON is the document itself, [`seekless_record::to_json`].
//!
//! Not here: what follows from a run (`seekless_results`), writing to files, and how a run looks on a terminal.

mod columns;
mod csv;
mod html;
mod markdown;

pub use columns::to_columns;
pub use csv::to_csv;
pub use html::{comparison_to_html, to_html};
pub use markdown::to_markdown;
