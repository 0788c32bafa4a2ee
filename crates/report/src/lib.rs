//! Renderers of runs: an HTML page, Markdown, every sample as CSV, and times by size in the columns of a document. The
//! JSON is the document itself, [`seekless_record::to_json`].
//!
//! Not here: conclusions (`seekless_results`), writing files, and terminal output.

mod columns;
mod csv;
mod html;
mod markdown;
pub mod parts;

pub use columns::to_columns;
pub use csv::to_csv;
pub use html::{ProfilePlot, comparison_page, comparison_to_html, profile_to_html, run_page, to_html};
pub use markdown::to_markdown;
