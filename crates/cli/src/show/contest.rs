//! One contest on a terminal: its ranking, the entries left out, and the conclusion.

use std::io;

use anstyle::Style;
use seekless_record::{Entry, EntryVerdict};
use seekless_results::{Change, ContestView, Detail, Row, SheetRow};

use super::page::Page;
use super::table::TextTable;
use super::{DIM, GOOD, PLAIN, WARNING};

/// The number of rows to show, even if most methods were dropped.
const FEWEST_ROWS: usize = 6;

/// The rows that are shown.
pub fn cut<'v, 'a>(rows: &'v [Row<'a>], all: bool) -> &'v [Row<'a>] {
    let standing = rows.iter().filter(|row| !row.is_dropped()).count();
    let shown = if all { rows.len() } else { standing.max(FEWEST_ROWS) };
    &rows[..shown.min(rows.len())]
}

/// Shows a contest, under its title.
pub fn show_contest(page: &mut Page<'_>, view: &ContestView<'_>, all: bool) -> io::Result<()> {
    let shown = cut(&view.rows, all);
    show_figures(page, view, shown, all)?;
    let hidden = view.rows.len() - shown.len();
    if hidden > 0 {
        page.aside(DIM, &format!("... {hidden} more, all slower (--all shows them)"))?;
    }
    show_left_out(page, view, all)?;
    if let Some(conclusion) = &view.contest.conclusion {
        page.say(PLAIN, &conclusion.sentence)?;
    }
    show_stretches(page, view)?;
    if let Some(finding) = view.kinds() {
        page.aside(DIM, &finding)?;
    }
    show_effects(page, view, all)
}

/// The unit of durable appends.
const COMMITS: &str = " commits/s";

/// Shows the table, with the methods behind published names and plans, and the notes of commands.
fn show_figures(page: &mut Page<'_>, view: &ContestView<'_>, shown: &[Row<'_>], all: bool) -> io::Result<()> {
    let sheet = view.figures(if all { Detail::More } else { Detail::Brief });
    let mut table = TextTable::of(&sheet);
    // A rate and a verdict tell what they are.
    if let [speed, .., verdict] = table.heads.as_mut_slice() {
        (*speed, *verdict) = ("", "");
    }
    table.rows.truncate(shown.len());
    // A long unit leaves no room for percentiles in 80 columns, so it stands once, in the head.
    if !table.rows.is_empty() && table.rows.iter().all(|row| row.cells[0].ends_with(COMMITS)) {
        table.heads[0] = COMMITS.trim_start();
        for row in &mut table.rows {
            let digits = row.cells[0].len() - COMMITS.len();
            row.cells[0].truncate(digits);
        }
    }
    table.add_bars(shown.iter().map(|row| row.summary.bytes_per_second));
    let first_dropped = shown.iter().position(Row::is_dropped);
    for (index, (line, row)) in table.rows.iter_mut().zip(shown).enumerate() {
        line.style = style_of(row);
        line.before = (first_dropped == Some(index)).then_some("no longer measured:");
    }
    table.print_ranking(page)?;
    for (about, remark) in sheet.rows.iter().take(shown.len()).flat_map(|row| &row.remarks) {
        page.aside(DIM, &format!("{about}: {remark}"))?;
    }
    Ok(())
}

/// The number of lines for the rate of a sustained write.
const STRETCHES: usize = 10;

/// Shows the rate of a sustained write over the bytes written.
fn show_stretches(page: &mut Page<'_>, view: &ContestView<'_>) -> io::Result<()> {
    let sheet = view.stretches(STRETCHES);
    if sheet.rows.is_empty() {
        return Ok(());
    }
    let mut table = TextTable::of(&sheet);
    table.add_bars(sheet.rows.iter().map(|row| row.cells[1].figure));
    // Parts of a write have no verdict.
    table.heads.push("");
    table.rows.iter_mut().for_each(|row| row.cells.push(String::new()));
    table.print_ranking(page)
}

/// Shows what options gained or cost; what was not shown only if all is asked for.
fn show_effects(page: &mut Page<'_>, view: &ContestView<'_>, all: bool) -> io::Result<()> {
    for (effect, row) in view.effects_recorded().iter().zip(view.effects().rows) {
        if all || matches!(Change::of(&effect.ratio), Change::Faster | Change::Slower) {
            let [option, without, words, ..] = row.cells.as_slice() else {
                continue;
            };
            page.aside(DIM, &format!("{} vs {}: {}", option.text, without.text, words.text))?;
        }
    }
    Ok(())
}

fn style_of(row: &Row<'_>) -> Style {
    match (&row.verdict.verdict, row.verdict.is_decided) {
        (EntryVerdict::Failed { .. }, _) => WARNING,
        (EntryVerdict::Best(_), true) => GOOD.bold(),
        (EntryVerdict::Tie(_), true) => GOOD,
        _ if row.is_dropped() => DIM,
        _ => PLAIN,
    }
}

/// Shows why entries are not in the table: those that failed, the others if they are all or all is asked for.
pub fn show_left_out(page: &mut Page<'_>, view: &ContestView<'_>, all: bool) -> io::Result<()> {
    let all = all || view.rows.is_empty();
    let left_out = view.left_out();
    let is_failed = |row: &&SheetRow| {
        let verdict = row.verdict.as_ref().map(|shown| &shown.verdict);
        matches!(verdict, Some(EntryVerdict::Failed { .. }))
    };
    for row in left_out.rows.iter().filter(|row| all || is_failed(row)) {
        let style = if is_failed(&row) { WARNING } else { DIM };
        page.aside(style, &format!("{}: {}", row.cells[0].text, row.cells[1].text))?;
    }
    let is_missing = |entry: &&Entry| entry.summary.is_none() && !matches!(entry.verdict, EntryVerdict::Failed { .. });
    match view.contest.entries.iter().filter(is_missing).count() {
        missing @ 1.. if !all => page.aside(DIM, &format!("{missing} unavailable or not measured (--all says why)")),
        _ => Ok(()),
    }
}
