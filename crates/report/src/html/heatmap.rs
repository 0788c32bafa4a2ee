//! Heat maps: a method's family in each row, a block or a file size in each column, the rate as colour and number.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use seekless_record::{Contest, EntryVerdict, Run};
use seekless_results::{
    ContestRegret, ContestView, RATES, ShownVerdict, chosen_size, family, rate, rate_of, regret_in_words, regret_row,
    three_digits, unit, why_missing,
};

use super::labels::{block_of, clipped};
use super::plot::{LONGEST_LABEL, WIDTH, at, label_width, picture};

/// More rows or columns are only in the tables.
const MOST_ROWS: usize = 40;
const MOST_COLUMNS: usize = 24;

const ROW: f64 = 26.0;
const HEAD: f64 = 24.0;
/// The parts of the fastest rate at which the next of eight colours begins, closer together near the top.
const COLOURS: [f64; 7] = [0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.97];

struct Cell {
    rate: Option<f64>,
    verdict: ShownVerdict,
    about: String,
}

/// Rows by name, columns by size, and a cell for each entry.
#[derive(Default)]
struct Grid {
    cells: BTreeMap<(String, Option<u64>), Cell>,
}

/// Method by block; empty with fewer than two blocks.
pub(super) fn by_block(contest: &ContestView<'_>) -> Markup {
    let mut grid = Grid::default();
    grid.add(contest.contest, block_of, str::to_owned);
    if grid.columns().iter().flatten().count() < 2 {
        return html! {};
    }
    let about = "Rates by method, in rows, and block, in columns. The figures are in the table of all methods below.";
    let (id, title) = (format!("blocks-{}", contest.index), &contest.title);
    grid.draw(&id, &format!("Rate by method and block: {title}"), about, "none")
}

/// Method by file size, with the best block of each; empty with fewer than two sizes.
pub(super) fn by_size(id: &str, title: &str, series: &[&ContestView<'_>]) -> Markup {
    let mut grid = Grid::default();
    for contest in series.iter().map(|contest| contest.contest) {
        let size = chosen_size(contest.size_bytes);
        let at_size = |name: &str| format!("{name} at {size}");
        grid.add(contest, |_| Some(contest.size_bytes), at_size);
    }
    let about = "Rates by method, in rows, and file size, in columns; with the best block of each method.";
    grid.draw(id, &format!("Rate by method and file size: {title}"), about, "")
}

/// The regrets at which the next of eight colours begins, from the weakest to the strongest.
const REGRETS: [f64; 7] = [1.0, 0.5, 0.25, 0.15, 0.1, 0.05, 0.02];

/// What plans by the profile cost: a row for each operation and cache state, a column for each size.
pub(super) fn by_regret(run: &Run, regrets: &[ContestRegret]) -> Markup {
    let Some(words) = regret_in_words(regrets) else {
        return html! {};
    };
    let mut cells: BTreeMap<(String, u64), &ContestRegret> = BTreeMap::new();
    for regret in regrets {
        if let Some(contest) = run.contests.get(regret.contest) {
            cells.insert((regret_row(contest), contest.size_bytes), regret);
        }
    }
    let rows: BTreeSet<&String> = cells.keys().map(|(row, _)| row).collect();
    let columns: BTreeSet<u64> = cells.keys().map(|(_, bytes)| *bytes).collect();
    let label = label_width(rows.iter().map(|row| row.as_str()));
    let width = ((WIDTH - label) / columns.len().max(1) as f64).clamp(38.0, 96.0);
    let size = (
        label + width * columns.len() as f64 + 2.0,
        HEAD + ROW * rows.len() as f64 + 2.0,
    );
    let content = html! {
        @for (index, bytes) in columns.iter().enumerate() {
            text.tick x=(at(label + width * (index as f64 + 0.5))) y="15" text-anchor="middle" { (chosen_size(*bytes)) }
        }
        @for (line, row) in rows.iter().enumerate() {
            @let y = HEAD + ROW * line as f64;
            text.label x=(at(label - 10.0)) y=(at(y + 17.0)) text-anchor="end" { (row) }
            @for (index, bytes) in columns.iter().enumerate() {
                @if let Some(cell) = cells.get(&((*row).clone(), *bytes)) {
                    (draw_regret(cell, label + width * index as f64, y, width))
                }
            }
        }
    };
    let about = "By how many per cent the planned method is slower than the best one; operations in rows, file sizes in columns.";
    html! {
        (picture("regret", "Regret of plans by the profile of other sittings, without the size", about, size, &content))
        p.legend { (words) ". % slower than the best: the stronger the colour, the less. Framed:\u{a0}undecided, ·\u{a0}not covered." }
    }
}

fn draw_regret(cell: &ContestRegret, x: f64, y: f64, width: f64) -> Markup {
    let (class, figure, about) = match &cell.planned {
        Some((method, regrets)) => {
            let colour = REGRETS.iter().filter(|&&next| regrets.planned <= next).count();
            let figure = format!("{:.0}", 100.0 * regrets.planned.max(0.0));
            (format!("q{colour}"), figure, method.as_str())
        }
        None => ("none".to_owned(), "·".to_owned(), "not covered by the profile"),
    };
    html! {
        g class=(class) {
            title { (clipped(about, 200)) }
            rect x=(at(x + 1.0)) y=(at(y + 1.0)) width=(at(width - 2.0)) height=(at(ROW - 2.0)) rx="3" {}
            @if !cell.is_decided && cell.planned.is_some() {
                rect.frame x=(at(x + 2.5)) y=(at(y + 2.5)) width=(at(width - 5.0)) height=(at(ROW - 5.0)) rx="2" {}
            }
            text x=(at(x + width / 2.0)) y=(at(y + 17.0)) text-anchor="middle" { (figure) }
        }
    }
}

impl Grid {
    /// Adds the entries of a contest, each with its column and what it is called. Of several in one cell, the best stays, or else
    /// the fastest.
    fn add(&mut self, contest: &Contest, column: impl Fn(&str) -> Option<u64>, called: impl Fn(&str) -> String) {
        for entry in &contest.entries {
            let name = entry.name();
            let place = (family(&name, contest), column(&name));
            let (rate_here, verdict) = (rate_of(entry), ShownVerdict::of(entry, contest));
            let gives_way = |old: &Cell| verdict.leads() || !old.verdict.leads() && rate_here > old.rate;
            if !self.cells.get(&place).is_none_or(gives_way) {
                continue;
            }
            let measured = rate_here.map(|rate_here| format!("{}, {}", rate(rate_here), verdict.word()));
            let told = why_missing(entry, measured.as_deref().unwrap_or("no valid trial"));
            let cell = Cell {
                rate: rate_here,
                verdict,
                about: clipped(&format!("{}: {told}", called(&name)), 200),
            };
            self.cells.insert(place, cell);
        }
    }

    /// By size; a column without one comes last.
    fn columns(&self) -> Vec<Option<u64>> {
        let columns: BTreeSet<_> = self.cells.keys().map(|(_, of)| (of.is_none(), *of)).collect();
        columns.into_iter().map(|(_, column)| column).collect()
    }

    /// The fastest first. Methods without figures are in the contest's list of reasons.
    fn rows(&self) -> Vec<(&str, f64)> {
        let mut fastest: BTreeMap<&str, f64> = BTreeMap::new();
        for ((name, _), cell) in &self.cells {
            let rate = fastest.entry(name).or_default();
            *rate = rate.max(cell.rate.unwrap_or(0.0));
        }
        let mut rows: Vec<(&str, f64)> = fastest.into_iter().filter(|(_, rate)| *rate > 0.0).collect();
        rows.sort_by(|one, other| other.1.total_cmp(&one.1));
        rows
    }

    fn draw(&self, id: &str, title: &str, about: &str, no_column: &str) -> Markup {
        let (mut rows, mut columns) = (self.rows(), self.columns());
        let left_out = (
            rows.len().saturating_sub(MOST_ROWS),
            columns.len().saturating_sub(MOST_COLUMNS),
        );
        if rows.is_empty() {
            return html! {};
        }
        rows.truncate(MOST_ROWS);
        columns.truncate(MOST_COLUMNS);
        let label = label_width(rows.iter().map(|(name, _)| name));
        let width = ((WIDTH - label) / columns.len().max(1) as f64).clamp(38.0, 96.0);
        let size = (
            label + width * columns.len() as f64 + 2.0,
            HEAD + ROW * rows.len() as f64 + 2.0,
        );
        // If columns are file sizes, colours are relative to the best of the column.
        let is_by_size = no_column.is_empty();
        let fastest_of = |column: &Option<u64>| {
            let cells = self.cells.iter().filter(|((_, of), _)| !is_by_size || of == column);
            cells.filter_map(|(_, cell)| cell.rate).fold(0.0, f64::max)
        };
        let fastest: Vec<f64> = columns.iter().map(fastest_of).collect();
        let unit = unit(fastest.iter().copied().fold(0.0, f64::max), &RATES);
        let axis = if is_by_size { "file" } else { "block" };
        let content = html! {
            text.tick x=(at(label - 10.0)) y="15" text-anchor="end" { (axis) }
            @for (index, column) in columns.iter().enumerate() {
                text.tick x=(at(label + width * (index as f64 + 0.5))) y="15" text-anchor="middle" {
                    @match column { Some(bytes) => { (chosen_size(*bytes)) }, None => { (no_column) } }
                }
            }
            @for (line, (name, _)) in rows.iter().enumerate() {
                @let y = HEAD + ROW * line as f64;
                text.label x=(at(label - 10.0)) y=(at(y + 17.0)) text-anchor="end" { (clipped(name, LONGEST_LABEL)) }
                @for (index, column) in columns.iter().enumerate() {
                    @if let Some(cell) = self.cells.get(&((*name).to_owned(), *column)) {
                        (draw_cell(cell, fastest[index], unit.1, label + width * index as f64, y, width))
                    }
                }
            }
        };
        html! {
            (picture(id, title, about, size, &content))
            p.legend {
                (unit.0) " at the median: the stronger the colour, the faster"
                @if is_by_size { " at that size" }
                ". ◆\u{a0}best or leads, framed:\u{a0}not shown to be slower, ·\u{a0}not measured."
                @if left_out != (0, 0) { " " (left_out.0) " more rows and " (left_out.1) " more columns are in the table." }
            }
        }
    }
}

fn draw_cell(cell: &Cell, fastest: f64, unit: f64, x: f64, y: f64, width: f64) -> Markup {
    let (class, figure) = match cell.rate {
        Some(rate) => {
            let part = rate / fastest;
            let colour = COLOURS.iter().filter(|&&next| part >= next).count();
            (format!("q{colour}"), three_digits(rate / unit))
        }
        None => ("none".to_owned(), "·".to_owned()),
    };
    let verdict = cell.rate.map(|_| &cell.verdict.verdict);
    html! {
        g class=(class) {
            title { (cell.about) }
            rect x=(at(x + 1.0)) y=(at(y + 1.0)) width=(at(width - 2.0)) height=(at(ROW - 2.0)) rx="3" {}
            @if matches!(verdict, Some(EntryVerdict::Best(_) | EntryVerdict::Tie(_))) {
                rect.frame x=(at(x + 2.5)) y=(at(y + 2.5)) width=(at(width - 5.0)) height=(at(ROW - 5.0)) rx="2" {}
            }
            text x=(at(x + width / 2.0)) y=(at(y + 17.0)) text-anchor="middle" { @if matches!(verdict, Some(EntryVerdict::Best(_))) { "◆" } (figure) }
        }
    }
}
