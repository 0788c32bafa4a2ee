//! A run on a terminal: notes, a ranked table for each contest, the answers, and what to do next.

use std::collections::HashMap;
use std::io::{self, Write};

use clap::Args;
use seekless_record::{Contest, Ended, Entry, EntryVerdict, Run, StorageId, Trial};
use seekless_results::{
    ContestView, Row, View, Visible, caution, is_failed, short_name, sittings, visible, why_missing,
};

use super::answers::show_answers;
use super::contest::{cut, show_contest, show_left_out};
use super::page::Page;
use super::system::show_system;
use super::table::{TableRow, TextTable};
use super::units::counted;
use super::wrap::tail;
use super::{BOLD, DIM, PLAIN, WARNING};

/// What is shown of a run before its answers.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct RunParts {
    /// Show the tables, too
    #[arg(long)]
    pub tables: bool,
    /// Show the tables with all methods
    ///
    /// This includes those that were dropped or are unavailable.
    #[arg(long)]
    pub all: bool,
    /// Show the notes, too
    ///
    /// They tell of the machine, the storage, choices and warnings.
    #[arg(long)]
    pub notes: bool,
}

/// Shows a run: what is asked for, then its answers. The caller says where the run is, and what to do next.
pub fn show_run(page: &mut Page<'_>, run: &Run, parts: RunParts) -> io::Result<()> {
    let shown = Visible::of(run);
    let view = View::of(&shown);
    let run = view.run;
    if parts.notes {
        show_notes(page, &view)?;
    }
    if parts.tables || parts.all {
        show_tables(page, &view, parts.all)?;
    }
    show_answers(page, view.contests.iter().filter_map(|contest| contest.answer.as_ref()))?;
    for answer in view.contests.iter().filter_map(|contest| contest.answer.as_ref()) {
        if let Some(single_use) = &answer.single_use {
            page.say(DIM, &format!("{}: {single_use}", answer.question))?;
        }
    }
    for contest in &view.contests {
        for entry in contest.contest.entries.iter().filter(|entry| is_failed(entry)) {
            let (name, why) = (short_name(&entry.name(), contest.contest), why_missing(entry, ""));
            page.say(WARNING, &format!("{}: {name}: {why}", contest.title))?;
        }
    }
    for answer in &view.storages {
        page.say(PLAIN, answer)?;
    }
    if run.ended == Ended::Interrupted {
        page.say(WARNING, "Interrupted: what was measured until then is shown and saved.")?;
    }
    if let Some(caution) = caution(run) {
        page.say(WARNING, &caution)?;
    }
    let hidden = notes(&view).map(|(_, lines)| lines.len()).iter().sum::<usize>();
    if !parts.notes && hidden > 0 {
        let notes = counted(hidden as u64, "note");
        page.say(DIM, &format!("{notes}: seekless runs show --notes {}", run.id))?;
    }
    Ok(())
}

/// The notes by their labels.
fn notes<'v>(view: &'v View<'_>) -> [(&'static str, &'v [String]); 4] {
    [
        ("Winner", &view.crossovers),
        ("Sittings", view.sittings.as_slice()),
        ("Chosen", &view.run.choices),
        ("Note", &view.run.warnings),
    ]
}

fn show_notes(page: &mut Page<'_>, view: &View<'_>) -> io::Result<()> {
    for (about, line) in view.facts.iter().filter(|(about, _)| NOTED.contains(about)) {
        page.labelled(BOLD, about, INDENT, line)?;
    }
    for (label, lines) in notes(view) {
        let style = if label == "Note" { WARNING } else { BOLD };
        for line in lines {
            page.labelled(style, label, INDENT, line)?;
        }
    }
    writeln!(page)
}

/// The circumstances that are shown.
const NOTED: [&str; 3] = ["Storage", "Machine", "Lab"];

fn show_tables(page: &mut Page<'_>, view: &View<'_>, all: bool) -> io::Result<()> {
    let mut groups = HashMap::<_, Vec<&ContestView<'_>>>::new();
    for contest in &view.contests {
        let group = groups.entry((&contest.contest.experiment, &contest.name));
        group.or_default().push(contest);
    }
    for contest in view.contests.iter().filter(|contest| !has_had_no_turn(contest.contest)) {
        // A group is shown as a whole when its first contest comes.
        if let Some(same) = groups.remove(&(&contest.contest.experiment, &contest.name)) {
            show_group(page, view.run, &same, all)?;
            writeln!(page)?;
        }
    }
    Ok(())
}

/// The smallest budget that is worth a try, and the largest.
const SHORTEST_BUDGET_SECONDS: f64 = 10.0;
const LONGEST_BUDGET_SECONDS: f64 = 3600.0;

/// Whether it was measured on a simulated disk, which is gone as a rule.
pub fn is_simulated(run: &Run) -> bool {
    let mut ids = run.storages.iter().filter_map(|storage| storage.id.as_ref());
    ids.any(StorageId::is_simulated)
}

/// The command that would settle what is open, and what that is.
pub fn next_command(run: &Run) -> Option<String> {
    if is_simulated(run) {
        return None;
    }
    let id = visible(&run.id);
    let left = run.contests.iter().filter(|contest| has_had_no_turn(contest)).count() as u64;
    if left > 0 {
        let left = counted(left, "contest");
        return Some(format!("seekless bench --resume {id}  ({left} not measured yet)"));
    }
    let open = undecided(run);
    let seconds: f64 = open.iter().sum();
    if !open.is_empty() && seconds <= LONGEST_BUDGET_SECONDS {
        let (seconds, open) = (seconds.ceil().max(SHORTEST_BUDGET_SECONDS), open.len());
        return Some(format!(
            "seekless bench --resume {id} --budget {seconds:.0}s  ({open} undecided)"
        ));
    }
    let sittings = sittings(run)?;
    let more = sittings.needed?.saturating_sub(sittings.count);
    (more > 0).then(|| format!("seekless bench --like {id} --sittings {more} --every 4h  (other times of the day)"))
}

/// The seconds that should decide each undecided contest: as many times those that it took as it needs more rounds.
fn undecided(run: &Run) -> Vec<f64> {
    let seconds = |contest: Option<usize>| -> f64 {
        let is_meant = |trial: &&Trial| contest.is_none_or(|contest| trial.contest == contest);
        run.trials.iter().filter(is_meant).map(|trial| trial.seconds).sum()
    };
    // Trials prepare and check, too.
    let elapsed = run.elapsed_seconds / seconds(None);
    let more = |(index, contest): (usize, &Contest)| {
        let times = contest.conclusion.as_ref()?.decided_by_times?;
        Some((times - 1.0).max(0.0) * seconds(Some(index)) * elapsed)
    };
    run.contests.iter().enumerate().filter_map(more).collect()
}

/// Whether the run ended before a contest was measured.
fn has_had_no_turn(contest: &Contest) -> bool {
    let waits = |entry: &Entry| matches!(entry.verdict, EntryVerdict::Unmeasured(_));
    let is_missing = |entry: &Entry| matches!(entry.verdict, EntryVerdict::Unavailable { .. });
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
    let tails = contests.iter().map(|contest| tail(path(contest), LONGEST_HEAD));
    let tails: Vec<String> = tails.collect();
    let heads: Vec<&str> = tails.iter().flat_map(|tail| [tail.as_str(), ""]).collect();
    let mut methods = Vec::new();
    for row in contests.iter().flat_map(|contest| cut(&contest.rows, all)) {
        if !methods.contains(&row.entry.name()) {
            methods.push(row.entry.name());
        }
    }
    let cells = |contest: &&ContestView<'_>, method: &str| {
        let row = contest.rows.iter().find(|row| row.entry.name() == method);
        let speed = row.map_or_else(|| "-".to_owned(), Row::speed);
        [speed, contest.verdict_word(method)]
    };
    let rows = methods.iter().map(|method| {
        let cells = contests.iter().flat_map(|contest| cells(contest, method));
        TableRow::new(short_name(method, contests[0].contest), cells.collect())
    });
    let table = TextTable::new(None, &heads, rows);
    if !table.fits(page) {
        return Ok(false);
    }
    writeln!(page, "{BOLD}{}{BOLD:#}", contests[0].name)?;
    table.print(page, &[])?;
    for contest in contests {
        if let Some(conclusion) = &contest.contest.conclusion {
            page.say(PLAIN, &format!("{}: {}", path(contest), conclusion.sentence))?;
        }
        if contest.rows.is_empty() {
            show_left_out(page, contest, true)?;
        }
    }
    Ok(true)
}

/// The most columns of a storage's name in a heading.
const LONGEST_HEAD: usize = 20;
