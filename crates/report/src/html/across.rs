//! What is asked over all contests: where the winner changes with the size, and what each option gained or cost.

use std::collections::BTreeSet;

use maud::{Markup, html};
use seekless_results::View;

use super::tables::{list, table};

/// The section.
pub(super) fn across(view: &View<'_>) -> Markup {
    let ranked = view.run.contests.iter().filter(|contest| !contest.sustained);
    let sizes: BTreeSet<u64> = ranked.map(|contest| contest.size_bytes).collect();
    let title = "Where the winner changes with the size";
    let options = view.options();
    html! {
        section id="across" {
            h2 { "Across contests" }
            (list(title, &view.crossovers))
            @if view.crossovers.is_empty() {
                h3 { (title) }
                @if sizes.len() < 2 {
                    p { "Only one size was measured; give several with --size to see this." }
                } @else {
                    p { "At none of the measured sizes: the method recommended for one size is not shown to be slower at \
                         the next." }
                }
            }
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
