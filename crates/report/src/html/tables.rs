//! Tables and the figures of a contest. The page's script turns headings of tables into buttons that sort.

use std::collections::BTreeMap;

use maud::{Markup, html};
use seekless_record::Entry;
use seekless_results::{ColumnKind, ContestView, Position, Sheet, SheetRow, short_name};

use super::words::{breaking, class, sign};

/// The most methods to name for one reason; more are counted.
const MOST_NAMED: usize = 12;

/// A sortable table; `ranked` gives the rows their ranks, by which they are sorted.
pub(super) fn table(sheet: &Sheet, ranked: bool) -> Markup {
    html! {
        div.scroll {
            table.sort {
                caption { (sheet.title) }
                thead { tr {
                    @if ranked { th.n scope="col" aria-sort="ascending" { "rank" } }
                    @for column in &sheet.columns {
                        th scope="col" class=[(column.kind == ColumnKind::Figure).then_some("n")] { (column.head) }
                    }
                } }
                tbody {
                    @for (rank, row) in (1_u32..).zip(&sheet.rows) {
                        tr {
                            @if ranked { td.n data-v=(rank) { (rank) } }
                            @for (column, of_column) in sheet.columns.iter().enumerate() { (cell(row, column, of_column.kind)) }
                        }
                    }
                }
            }
        }
    }
}

fn cell(row: &SheetRow, column: usize, kind: ColumnKind) -> Markup {
    let cell = &row.cells[column];
    let position = row.position.unwrap_or(Position::Unranked);
    html! {
        @match kind {
            ColumnKind::Method => { td.m {
                (breaking(cell.known()))
                @if column == 0 { @for (_, remark) in &row.remarks { br; small { (breaking(remark)) } } }
            } },
            ColumnKind::Figure => { td.n data-v=(sort_key(cell.figure)) { (cell.known()) } },
            ColumnKind::Words => { td.w { (cell.known()) } },
            ColumnKind::Verdict => { td class=(class(position)) { (sign(position)) " " (cell.text) } },
        }
    }
}

fn sort_key(figure: f64) -> String {
    if figure.is_finite() {
        format!("{figure:.5e}")
    } else {
        String::new()
    }
}

/// The effect of each option of a contest alone.
pub(super) fn effects(contest: &ContestView<'_>) -> Markup {
    let effects = contest.effects();
    html! {
        @if !effects.rows.is_empty() {
            details { summary { "Effect of each option alone (" (effects.rows.len()) ")" } (table(&effects, false)) }
        }
    }
}

/// The entries that are in no table, by reason.
pub(super) fn left_out(contest: &ContestView<'_>) -> Markup {
    let mut reasons: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for (entry, why) in &contest.left_out {
        reasons.entry(why).or_default().push(entry);
    }
    let count = contest.left_out.len();
    html! {
        @if count > 0 {
            details { summary { "Not in the ranking, and why (" (count) ")" }
                ul {
                    @for (reason, entries) in &reasons {
                        li {
                            span.m { @for (index, entry) in entries.iter().take(MOST_NAMED).enumerate() {
                                @if index > 0 { "; " } (short_name(&entry.name(), contest.contest))
                            } }
                            @if entries.len() > MOST_NAMED { " and " (entries.len() - MOST_NAMED) " more" }
                            ": " (reason)
                        }
                    }
                }
            }
        }
    }
}
