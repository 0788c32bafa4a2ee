//! A run as one HTML page that stands alone: no network, readable without its script, with the run itself inside.
//!
//! A run may come from a stranger, so indices are checked, only finite figures are drawn, and texts are escaped by the
//! view. Conclusions are those of the run; only pairs of methods that the run does not compare are judged here. Not
//! here: writing files.

mod across;
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
mod profile;
mod ranked;
mod sustained;
mod tables;
mod words;

use seekless_record::{DocumentError, Run};
use seekless_results::{Comparison, ContestRegret, View, Visible};

pub use profile::{ProfilePlot, profile_to_html};

/// The most contests to show. No experiment has more, and the run inside the page has them all.
const MOST_CONTESTS: usize = 300;

/// The page of a run. `run` has the conclusions to show, perhaps over several sittings; `alone` is the run to save from
/// the page; `regrets` are what plans cost in it, if that was asked for.
///
/// # Errors
/// [`DocumentError`] if the run cannot be written as JSON.
pub fn to_html(run: &Run, alone: &Run, regrets: &[ContestRegret]) -> Result<String, DocumentError> {
    let shown = Visible::first_contests(run, MOST_CONTESTS);
    let view = View::of(&shown);
    let link = download::link(alone, &view.run.id)?;
    let left_out = run.contests.len().saturating_sub(MOST_CONTESTS);
    Ok(page::page(&view, &link, left_out, regrets).into_string())
}

/// The page of a comparison of two runs, with objections to comparing them.
#[must_use]
pub fn comparison_to_html(comparison: &Comparison, objections: &[String]) -> String {
    comparison::page(comparison, objections).into_string()
}

#[cfg(test)]
mod tests;
