//! The whole system while each entry of a contest ran, as vmstat(8) shows it.

use std::io::Write;

use seekless_results::{ContestView, SYSTEM_HEADS, mode_words, short_name};

use super::page::Page;
use super::table::{TableRow, TextTable};
use super::{BOLD, DIM, PLAIN};

/// The columns that a narrow terminal omits, in this order, as indices of the heads: steal time, interrupts, residency
/// before and after, wait, KiB in, idle time, and cache growth.
const GO_FIRST: [usize; 8] = [4, 6, 9, 10, 3, 7, 2, 8];

/// Shows the table and the most frequent byte; nothing if nothing was measured.
pub fn show_system(page: &mut Page<'_>, view: &ContestView<'_>) -> std::io::Result<()> {
    if !view.system.is_empty() {
        let rows = view.system.iter().map(|row| TableRow {
            name: match &row.published {
                Some(source) => format!("{source}, {}", row.method),
                None => short_name(&row.method, view.contest),
            },
            style: if row.published.is_some() { DIM } else { PLAIN },
            cells: row.cells.clone(),
            ..TableRow::default()
        });
        let table = TextTable::new(Some("the whole system meanwhile"), &SYSTEM_HEADS, rows);
        table.print(page, &GO_FIRST)?;
        if view.system.iter().any(|row| row.cells[0].is_empty()) {
            let sentence = "  Trials of less than 0.1 s are too short for the system's clock.";
            page.indented(DIM, "", 2, sentence)?;
        }
    }
    if let Some(mode) = view.contest.mode {
        writeln!(page, "{BOLD}{}{BOLD:#}", mode_words(mode))?;
    }
    Ok(())
}
