//! A run as one HTML page that stands alone: no network, readable without its script, with the run itself inside.
//!
//! A run may come from a stranger, so all that is written here counts its indices and draws only figures that are finite;
//! its texts are harmless since the view of it was made. What is concluded is as it stands in the run; nothing is judged again but pairs of methods
//! that the run does not compare. Writing to files is not done here.

mod answers;
mod columns;
mod comparison;
mod contest;
mod download;
mod drift;
mod heatmap;
mod latency;
mod page;
mod pairs;
mod plot;
mod published;
mod ranked;
mod sustained;
mod tables;
mod words;

use seekless_record::{DocumentError, Run};
use seekless_results::{Comparison, View, Visible};

/// This many contests are shown; more come from no experiment, and the run inside the page has them all.
const MOST_CONTESTS: usize = 300;

/// The page of a run as it is concluded, be it with others. What goes into the page whole is the run alone.
///
/// # Errors
/// [`DocumentError`] where the run cannot be written as JSON.
pub fn to_html(run: &Run, alone: &Run) -> Result<String, DocumentError> {
    let shown = Visible::first_contests(run, MOST_CONTESTS);
    let view = View::of(&shown);
    let link = download::link(alone, &view.run.id)?;
    let left_out = run.contests.len().saturating_sub(MOST_CONTESTS);
    Ok(page::page(&view, &link, left_out).into_string())
}

/// The page of what changed from one run to another, with what speaks against comparing them.
#[must_use]
pub fn comparison_to_html(comparison: &Comparison, objections: &[String]) -> String {
    comparison::page(comparison, objections).into_string()
}

#[cfg(test)]
mod tests;
