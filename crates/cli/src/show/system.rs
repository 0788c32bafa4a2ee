//! The whole system while each entry of a contest ran, as vmstat(8) shows it.

use std::io::Write;

use seekless_results::{ContestView, mode_words};

use super::page::Page;
use super::table::TextTable;
use super::{BOLD, DIM, PLAIN};

/// The columns that a narrow terminal omits, in this order, as indices of the heads: steal time, interrupts, residency
/// before and after, wait, KiB in, idle time, and cache growth.
const GO_FIRST: [usize; 8] = [4, 6, 9, 10, 3, 7, 2, 8];

/// Shows the table and the most frequent byte; nothing if nothing was measured.
pub fn show_system(page: &mut Page<'_>, view: &ContestView<'_>) -> std::io::Result<()> {
    let sheet = &view.system;
    if !sheet.rows.is_empty() {
        let mut table = TextTable::of(sheet);
        for (row, measured) in table.rows.iter_mut().zip(&sheet.rows) {
            row.style = if measured.verdict.is_none() { DIM } else { PLAIN };
        }
        table.print(page, &GO_FIRST)?;
        if sheet.rows.iter().any(|row| row.cells[1].text.is_empty()) {
            let sentence = "  Trials of less than 0.1 s are too short for the system's clock.";
            page.indented(DIM, "", 2, sentence)?;
        }
    }
    if let Some(mode) = view.contest.mode {
        writeln!(page, "{BOLD}{}{BOLD:#}", mode_words(mode))?;
    }
    Ok(())
}
