//! What plans by a profile cost in a run: a row for each operation and cache state, a column for each size.

use std::collections::BTreeMap;
use std::io;

use seekless_engine::method::format_size;
use seekless_record::Run;
use seekless_results::{ContestRegret, regret_in_words, regret_row};

use super::BOLD;
use super::page::Page;
use super::table::{TableRow, TextTable};

/// Shows the grid of regrets in per cent, and what they are in all.
pub fn show_regrets(page: &mut Page<'_>, run: &Run, regrets: &[ContestRegret]) -> io::Result<()> {
    let Some(words) = regret_in_words(regrets) else {
        let none = "unknown: no earlier sitting covers a decided contest; run it again in an hour";
        return page.labelled(BOLD, "Regret", 8, none);
    };
    let words = format!("plans from earlier sittings, without this size: {words}");
    page.labelled(BOLD, "Regret", 8, &words)?;
    let mut rows: BTreeMap<String, BTreeMap<u64, String>> = BTreeMap::new();
    for regret in regrets {
        let contest = &run.contests[regret.contest];
        let cell = match &regret.planned {
            Some((_, found)) if regret.is_decided => format!("{:.0}", 100.0 * found.planned.max(0.0)),
            Some((_, found)) => format!("({:.0})", 100.0 * found.planned.max(0.0)),
            None => "-".to_owned(),
        };
        let row = rows.entry(regret_row(contest)).or_default();
        row.insert(contest.size_bytes, cell);
    }
    let mut sizes: Vec<u64> = rows.values().flat_map(|row| row.keys().copied()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let heads: Vec<String> = sizes.iter().map(|bytes| format_size(*bytes)).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = rows.into_iter().map(|(name, row)| {
        let cells = sizes.iter().map(|bytes| row.get(bytes).cloned().unwrap_or_default());
        TableRow::new(name, cells.collect())
    });
    let title = "% slower than the best; in brackets: undecided; -: not covered";
    TextTable::new(Some(title), &heads, rows).print(page, &[])
}
