//! Tables and lists. The page's script turns headings of tables into buttons that sort.

use maud::{Markup, html};
use seekless_results::{ColumnKind, Sheet, SheetRow};

use super::labels::{breaking, verdict_style};

/// A sortable table; `ranked` gives the rows their ranks, by which they are sorted.
#[must_use]
pub fn table(sheet: &Sheet, ranked: bool) -> Markup {
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
                            @for column in 0..row.cells.len() { (cell(row, column)) }
                        }
                    }
                }
            }
        }
    }
}

fn cell(row: &SheetRow, column: usize) -> Markup {
    let cell = &row.cells[column];
    let (class, sign) = row
        .verdict
        .as_ref()
        .map_or(("slow", ""), |shown| verdict_style(&shown.verdict));
    html! {
        @match cell.kind {
            ColumnKind::Method => { td.m {
                (breaking(cell.known()))
                @if column == 0 { @for (_, remark) in &row.remarks { br; small { (breaking(remark)) } } }
            } },
            ColumnKind::Figure => { td.n data-v=(sort_key(cell.figure)) { (cell.known()) } },
            ColumnKind::Words => { td.w { (cell.known()) } },
            ColumnKind::Verdict => { td class=(class) { (sign) " " (cell.text) } },
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

/// A table that can be folded, under its title and the number of its rows.
#[must_use]
pub fn folded(sheet: &Sheet, is_open: bool) -> Markup {
    html! {
        details open[is_open] {
            summary { (sheet.title) " (" (sheet.rows.len()) ")" }
            (table(sheet, false))
        }
    }
}

/// A list under a heading; empty without items.
#[must_use]
pub fn list(title: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            h3 { (title) }
            ul { @for item in items { li { (item) } } }
        }
    }
}
