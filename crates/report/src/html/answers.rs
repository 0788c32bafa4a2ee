//! The questions of the 2014 document, answered for this machine: the best method by task, kind and size; where the
//! winner changes; the effect of each option.

use std::collections::BTreeSet;

use maud::{Markup, html};
use seekless_results::View;

use super::tables::table;

/// The section.
pub(super) fn answers(view: &View<'_>) -> Markup {
    let ranked = view.run.contests.iter().filter(|contest| !contest.sustained);
    let sizes: BTreeSet<u64> = ranked.map(|contest| contest.size_bytes).collect();
    html! {
        section id="answers" {
            h2 { "Answers by task, kind and size" }
            (table(&view.best(), false))
            h3 { "Where the winner changes with the size" }
            @if sizes.len() < 2 {
                p { "Only one size was measured; give several with --size to see this." }
            } @else if view.crossovers.is_empty() {
                p { "At none of the measured sizes: the method recommended for one size is not shown to be slower at \
                     the next." }
            } @else {
                ul { @for change in &view.crossovers { li { (change) } } }
            }
            @let options = view.options();
            @if !options.rows.is_empty() {
                h3 { (options.title) }
                p.aside {
                    "Pairs of methods that differ in this option alone, over all contests: how often it is faster or slower with \
                     the option by the 95 % interval, or inconclusive, and the ratio of the time with it to the time without. \
                     Each contest has its own list."
                }
                (table(&options, false))
            }
        }
    }
}
