//! A run on a terminal: the machine and the storages, a ranked table for each contest, and conclusions over contests.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use seekless_record::{Contest, Ended, Entry, Run, Status};
use seekless_results::{ContestView, Row, View, Visible, short_name, sittings};

use super::contest::{cut, show_contest};
use super::page::{Page, tail};
use super::system::show_system;
use super::table::{TableRow, TextTable};
use super::{BOLD, DIM, PLAIN, WARNING};

/// Shows a run; `all` also shows dropped and unavailable methods.
pub fn show_run(page: &mut Page<'_>, run: &Run, all: bool) -> io::Result<()> {
    let shown = Visible::of(run);
    let view = View::of(&shown);
    let run = view.run;
    for answer in &view.storages {
        page.labelled(BOLD, "Answer", INDENT, answer)?;
    }
    for (about, line) in &view.facts {
        match *about {
            "Lab" => page.indented(DIM, "Lab      ", INDENT, line)?,
            "Storage" | "Machine" => page.labelled(BOLD, about, INDENT, line)?,
            _ => {}
        }
    }
    let mut groups = HashMap::<_, Vec<&ContestView<'_>>>::new();
    for contest in &view.contests {
        let group = groups.entry((&contest.contest.experiment, &contest.name));
        group.or_default().push(contest);
    }
    let left = run.contests.iter().filter(|contest| has_had_no_turn(contest)).count();
    for contest in view.contests.iter().filter(|contest| !has_had_no_turn(contest.contest)) {
        // A group is shown as a whole when its first contest comes.
        if let Some(same) = groups.remove(&(&contest.contest.experiment, &contest.name)) {
            show_group(page, run, &same, all)?;
        }
    }
    for sentence in &view.crossovers {
        writeln!(page)?;
        page.say(PLAIN, sentence)?;
    }
    if let Some(sentence) = &view.sittings {
        writeln!(page)?;
        let needed = sittings(run).and_then(|sittings| Some(sittings.needed? - sittings.count));
        let how = needed.map_or_else(String::new, |more| {
            let id = &run.id;
            format!(" `seekless bench --like {id} --sittings {more} --every 4h` measures in the background.")
        });
        page.labelled(BOLD, "Sittings", INDENT, &format!("{sentence}{how}"))?;
    }
    if run.ended == Ended::Interrupted {
        let what = "Interrupted: what was measured until then is shown and saved.";
        writeln!(page)?;
        page.say(WARNING, what)?;
    }
    if left > 0 {
        writeln!(page)?;
        let sentence = format!(
            "{left} of {} contests not measured yet: `seekless bench --resume {}` continues.",
            run.contests.len(),
            run.id
        );
        page.labelled(BOLD, "Left", INDENT, &sentence)?;
    }
    if !run.choices.is_empty() || !run.warnings.is_empty() {
        writeln!(page)?;
    }
    for choice in &run.choices {
        page.indented(DIM, "Chosen   ", INDENT, choice)?;
    }
    for warning in &run.warnings {
        page.labelled(WARNING, "Note", INDENT, warning)?;
    }
    Ok(())
}

/// Whether the run ended before a contest was measured.
fn has_had_no_turn(contest: &Contest) -> bool {
    let waits = |entry: &Entry| matches!(entry.status, Status::Unmeasured(_));
    let is_missing = |entry: &Entry| matches!(entry.status, Status::Unavailable(_));
    let mut entries = contest.entries.iter();
    entries.clone().any(waits) && entries.all(|entry| waits(entry) || is_missing(entry))
}

/// The column of the text after a label.
const INDENT: usize = 9;

/// Shows the contests of a group, which differ only in their storage: side by side, or one after the other.
fn show_group(page: &mut Page<'_>, run: &Run, group: &[&ContestView<'_>], all: bool) -> io::Result<()> {
    let is_ranked = group.iter().all(|contest| contest.sustained.is_none());
    let is_side_by_side = is_ranked && group.len() > 1 && show_side_by_side(page, run, group, all)?;
    for contest in group {
        if !is_side_by_side {
            writeln!(page)?;
            show_contest(page, contest, all)?;
        }
        if all || contest.asks_for_system {
            if is_side_by_side {
                writeln!(page, "{DIM}{}{DIM:#}", run.storages[contest.contest.storage].path)?;
            }
            show_system(page, contest)?;
        }
    }
    Ok(())
}

/// Shows a contest on several storages, with a column of rates and verdicts for each. Returns whether there was room
/// for that.
fn show_side_by_side(page: &mut Page<'_>, run: &Run, contests: &[&ContestView<'_>], all: bool) -> io::Result<bool> {
    let path = |contest: &ContestView<'_>| run.storages[contest.contest.storage].path.as_str();
    let tails: Vec<String> = contests
        .iter()
        .map(|contest| tail(path(contest), LONGEST_HEAD))
        .collect();
    let heads: Vec<&str> = tails.iter().flat_map(|tail| [tail.as_str(), ""]).collect();
    let mut methods = Vec::new();
    for row in contests.iter().flat_map(|contest| cut(&contest.rows, all)) {
        if !methods.contains(&row.entry.name()) {
            methods.push(row.entry.name());
        }
    }
    let cells = |contest: &&ContestView<'_>, method: &str| {
        let row = contest.rows.iter().find(|row| row.entry.name() == method);
        [
            row.map_or_else(|| "-".to_owned(), Row::speed),
            contest.position(method).word(),
        ]
    };
    let rows = methods.iter().map(|method| TableRow {
        name: short_name(method, contests[0].contest),
        cells: contests.iter().flat_map(|contest| cells(contest, method)).collect(),
        ..TableRow::default()
    });
    let table = TextTable::new(None, &heads, rows);
    if !table.fits(page) {
        return Ok(false);
    }
    writeln!(page, "\n{BOLD}{}{BOLD:#}", contests[0].name)?;
    table.print(page, &[])?;
    for contest in contests {
        if let Some(conclusion) = &contest.contest.conclusion {
            page.say(PLAIN, &format!("{}: {}", path(contest), conclusion.sentence))?;
        }
        if contest.rows.is_empty() {
            show_reasons(page, contest.contest)?;
        }
    }
    Ok(true)
}

/// Shows why nothing was measured on a storage, each reason once.
fn show_reasons(page: &mut Page<'_>, contest: &Contest) -> io::Result<()> {
    let reasons = contest.entries.iter().filter_map(|entry| match &entry.status {
        Status::Unavailable(why) | Status::Unmeasured(why) | Status::Failed(why) => Some(why),
        Status::Measured | Status::Dropped(_) => None,
    });
    let reasons: BTreeSet<&String> = reasons.collect();
    reasons
        .into_iter()
        .try_for_each(|reason| page.indented(DIM, "  ", 2, reason))
}

/// The most columns of a storage's name in a heading.
const LONGEST_HEAD: usize = 20;
