//! A run as one HTML page that stands alone: no network, readable without its script, with the run itself inside.
//!
//! A run may come from a stranger, so indices are checked, only finite figures are drawn, and texts are escaped by the
//! view. Conclusions are those of the run; only pairs of methods that the run does not compare are judged here. Not
//! here: writing files.

mod across;
pub(crate) mod columns;
mod comparison;
mod contest;
pub(crate) mod curves;
mod download;
mod drift;
mod heatmap;
pub(crate) mod labels;
mod latency;
pub(crate) mod page;
mod pairs;
pub(crate) mod plot;
mod profile;
mod ranked;
mod sustained;
pub(crate) mod tables;

use maud::Markup;
use seekless_record::{DocumentError, Run};
use seekless_results::{ContestRegret, RunComparison, View, Visible};

use page::Frame;

pub use profile::{ProfilePlot, profile_to_html};

/// The most contests to show. No experiment has more, and the run inside the page has them all.
const MOST_CONTESTS: usize = 300;

/// The page of a run. `run` has the conclusions to show, perhaps over several sittings; `alone` is the run to save from
/// the page; `regrets` are what plans cost in it, if that was asked for.
///
/// # Errors
/// [`DocumentError`] if the run cannot be written as JSON.
pub fn to_html(run: &Run, alone: &Run, regrets: &[ContestRegret]) -> Result<String, DocumentError> {
    let link = download::link(alone, &run.id)?;
    Ok(page_of(run, &link, regrets, Frame::Alone).into_string())
}

/// The page of a run on a site, with the address of its document.
#[must_use]
pub fn run_page(run: &Run, document: &str, frame: Frame<'_>) -> Markup {
    page_of(run, &download::address(document), &[], frame)
}

fn page_of(run: &Run, link: &Markup, regrets: &[ContestRegret], frame: Frame<'_>) -> Markup {
    let shown = Visible::first_contests(run, MOST_CONTESTS);
    let left_out = run.contests.len().saturating_sub(MOST_CONTESTS);
    page::page(&View::of(&shown), link, left_out, regrets, frame)
}

/// The page of a comparison of two runs, with objections to comparing them.
#[must_use]
pub fn comparison_to_html(comparison: &RunComparison, objections: &[String]) -> String {
    comparison_page(comparison, objections, Frame::Alone).into_string()
}

/// The same page, perhaps on a site.
#[must_use]
pub fn comparison_page(comparison: &RunComparison, objections: &[String], frame: Frame<'_>) -> Markup {
    comparison::page(comparison, objections, frame)
}

#[cfg(test)]
mod tests;
