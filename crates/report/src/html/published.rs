//! Published results beside the same methods on this machine: a table for each contest that they are about, and the
//! list of sources.

use maud::{Markup, html};
use seekless_results::{ContestView, View};

use super::tables::table;

/// More than any experiment gives.
const MOST_SOURCES: usize = 20;

/// The section with the sources; empty if nothing was published.
pub(super) fn sources(view: &View<'_>) -> Markup {
    html! {
        @if !view.run.published.is_empty() {
            section id="published" {
                h2 { "Published" }
                p.aside {
                    "Contests with the same kind of files show the published figures beside the same method on this \
                     machine. If a method was measured with several blocks, the best of them is shown, compared with \
                     the best method of its kind."
                }
                ul { @for source in view.run.published.iter().take(MOST_SOURCES) { li { (source.machine) ". " (source.source) } } }
            }
        }
    }
}

/// The table of a contest; empty if nothing was published about these files.
pub(super) fn published(contest: &ContestView<'_>) -> Markup {
    let count = contest.published.rows.len();
    html! {
        @if count > 0 {
            details open { summary { "Published, and here (" (count) ")" } (table(&contest.published, false)) }
        }
    }
}
