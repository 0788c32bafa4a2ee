//! What the whole system did while each entry of a contest ran, as vmstat(8) shows it.

use std::io::Write;

use anstyle::Style;
use seekless_results::{ContestView, SYSTEM_HEADS, mode_words, short_name};

use super::table::{Columns, print_columns};
use super::width::{Width, wrapped};
use super::{BOLD, DIM};

/// What a narrow terminal does without, by the places of the heads: stolen time, wait, interrupts, what was held.
const GO_FIRST: [usize; 6] = [4, 6, 9, 10, 3, 7];

/// Shows the table and the most frequent byte; nothing where nothing was measured.
pub fn show_system(out: &mut dyn Write, view: &ContestView<'_>, width: Width) -> std::io::Result<()> {
    if !view.system.is_empty() {
        let rows: Vec<Columns> = view
            .system
            .iter()
            .map(|row| Columns {
                name: match &row.published {
                    Some(source) => format!("{source}, {}", row.method),
                    None => short_name(&row.method, view.contest),
                },
                style: if row.published.is_some() { DIM } else { Style::new() },
                cells: row.cells.clone(),
            })
            .collect();
        print_columns(
            out,
            "the whole system meanwhile",
            &SYSTEM_HEADS,
            &rows,
            &GO_FIRST,
            width,
        )?;
        if rows.iter().any(|row| row.cells[0].is_empty()) {
            let sentence = "  Trials of less than 0.1 s are too short for the system's clock.";
            writeln!(out, "{DIM}{}{DIM:#}", wrapped(2, sentence, width))?;
        }
    }
    if let Some(mode) = view.contest.mode {
        writeln!(out, "{BOLD}{}{BOLD:#}", mode_words(mode))?;
    }
    Ok(())
}
