//! What earlier runs conclude about a storage, shown before it is measured again.

use std::io;

use seekless_record::Run;
use seekless_results::{View, Visible, percent, pool, short_name, sittings, title};

use super::page::Page;
use super::runs::when;
use super::units::counted;
use super::{BOLD, DIM};

/// Shows what earlier runs, the newest first, conclude for the experiments of a new run.
pub fn show_known(page: &mut Page<'_>, new: &Run, earlier: &[Run]) -> io::Result<()> {
    let Some((last, before)) = earlier.split_first() else {
        return Ok(());
    };
    let pooled = Visible::of(&pool(last, before));
    let view = View::of(&pooled);
    let contests = view.run.contests.iter();
    let known = contests.filter(|contest| new.experiments.contains(&contest.experiment));
    let lines: Vec<String> = known
        .filter_map(|contest| {
            let conclusion = contest.conclusion.as_ref()?;
            let method = conclusion.recommended.as_ref().or(conclusion.until_decided.as_ref())?;
            let cost = conclusion.costs_at_most?;
            let cost = format!("at most {} slower than the best", percent(cost));
            let undecided = if conclusion.recommended.is_none() {
                ", undecided"
            } else {
                ""
            };
            Some(format!(
                "{}: {}, {cost}{undecided}",
                title(contest),
                short_name(method, contest)
            ))
        })
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    let count = sittings(view.run).map_or(1, |sittings| sittings.count);
    let this = if count == 1 { "it" } else { "them" };
    let last = when(&last.started);
    let sentence = format!(
        "{} on this storage, the last {last}; this run will be combined with {this} (--alone: ignore {this}).",
        counted(count.into(), "sitting")
    );
    page.labelled(BOLD, "Known", 9, &sentence)?;
    lines.iter().try_for_each(|line| page.aside(DIM, line))
}
