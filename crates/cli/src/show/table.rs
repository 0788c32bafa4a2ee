//! Tables without lines, which fit a terminal: what does not is left out or broken, in a fixed order.

use std::io::Write;

use anstyle::Style;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::units::bar;
use super::width::{Width, columns_of, wrapped, wrapped_at_commas};
use super::{BOLD, DIM};

/// One line of a ranking.
pub struct TableRow {
    /// The method, without what all of the table share.
    pub name: String,
    /// Its rate as a part of the best one's.
    pub part: f64,
    /// The figures, in the order of the table's heads.
    pub figures: Vec<String>,
    /// A word at the end.
    pub verdict: String,
    /// How it looks.
    pub style: Style,
    /// A line of its own before this one.
    pub before: Option<&'static str>,
}

/// The longest bar, and the shortest that still tells something.
const BARS: std::ops::RangeInclusive<usize> = 6..=16;
/// The narrowest column of names: for the longest option, set in.
const NARROWEST_NAME: usize = 25;
/// Between columns.
const GAP: usize = 2;
/// Before the names.
const INDENT: &str = "  ";

/// What a ranking has room for.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    name: usize,
    bar: usize,
    figures: usize,
}

/// Prints a ranking below its title: name, the first figure, a bar, the other figures, a verdict. In a narrow terminal
/// the last figure goes first, then the bar becomes shorter and goes, then the names are broken.
pub fn print_ranking(
    out: &mut dyn Write,
    title: &str,
    heads: &[&str],
    rows: &[TableRow],
    width: Width,
) -> std::io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "{BOLD}{}{BOLD:#}", wrapped(0, title, width));
    }
    let layout = layout(heads, rows, width);
    let cells = |row: &TableRow| {
        let name = wrapped_at_commas(&row.name, layout.name, GAP);
        let name = name.lines().map(|line| format!("{INDENT}{line}")).collect::<Vec<_>>();
        let mut cells = vec![name.join("\n"), row.figures[0].clone()];
        if layout.bar > 0 {
            cells.push(bar(row.part, layout.bar));
        }
        cells.extend(row.figures[1..layout.figures].iter().cloned());
        cells.push(row.verdict.clone());
        cells
    };
    let bar_at = (layout.bar > 0).then_some(2);
    let mut header = vec!["", heads[0]];
    header.extend(bar_at.map(|_| ""));
    header.extend(&heads[1..layout.figures]);
    header.push("");
    let left = [Some(0), bar_at, Some(header.len() - 1)];
    let mut table = plain(&header, |column| left.contains(&Some(column)));
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let heights: Vec<usize> = cells.iter().map(|cells| cells[0].lines().count()).collect();
    table.add_rows(cells);
    let mut lines = table.lines();
    if let Some(header) = lines.next() {
        print_header(out, title, header.trim_end(), width)?;
    }
    for (row, height) in rows.iter().zip(heights) {
        if let Some(before) = row.before {
            writeln!(out, "{DIM}{INDENT}{before}{DIM:#}")?;
        }
        for line in lines.by_ref().take(height) {
            let style = row.style;
            writeln!(out, "{style}{}{style:#}", line.trim_end())?;
        }
    }
    Ok(())
}

/// The title stands before the heads, or above them where it is too long.
fn print_header(out: &mut dyn Write, title: &str, header: &str, width: Width) -> std::io::Result<()> {
    let heads = header.trim_start();
    let before = columns_of(header) - columns_of(heads);
    let taken = columns_of(title);
    if taken + GAP <= before {
        writeln!(out, "{BOLD}{title}{BOLD:#}{:1$}{DIM}{heads}{DIM:#}", "", before - taken)
    } else {
        let title = wrapped(0, title, width);
        writeln!(out, "{BOLD}{title}{BOLD:#}\n{DIM}{header}{DIM:#}")
    }
}

fn layout(heads: &[&str], rows: &[TableRow], width: Width) -> Layout {
    let longest = |of: &dyn Fn(&TableRow) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let name = longest(&|row| columns_of(&row.name));
    let verdict = longest(&|row| columns_of(&row.verdict));
    let figures: Vec<usize> = (0..heads.len())
        .map(|index| GAP + columns_of(heads[index]).max(longest(&|row| columns_of(&row.figures[index]))))
        .collect();
    let rest = |count: usize| INDENT.len() + figures[..count].iter().sum::<usize>() + GAP + verdict;
    let room = |count: usize| width.columns().saturating_sub(rest(count));
    for count in [heads.len(), heads.len() - 1] {
        let bar = room(count).saturating_sub(name + GAP).min(*BARS.end());
        if bar >= *BARS.start() {
            return Layout {
                name,
                bar,
                figures: count,
            };
        }
    }
    for count in [heads.len(), heads.len() - 1] {
        if name <= room(count) {
            return Layout {
                name,
                bar: 0,
                figures: count,
            };
        }
    }
    let fits = |count: &usize| room(*count) >= NARROWEST_NAME;
    let count = (1..heads.len()).rev().find(fits).unwrap_or(1);
    Layout {
        name: room(count).max(NARROWEST_NAME),
        bar: 0,
        figures: count,
    }
}

/// A table without lines.
fn plain(header: &[&str], is_left: impl Fn(usize) -> bool) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_cell_alignment(if is_left(index) {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
        column.set_padding((0, GAP as u16));
    }
    table
}

/// A line of a table of columns.
pub struct Columns {
    /// What it is about; broken behind commas where it is too long.
    pub name: String,
    /// What is said of it, in the order of the heads.
    pub cells: Vec<String>,
    /// How it looks.
    pub style: Style,
}

/// Prints a table of columns below its title. Where there is no room, columns go, in the order given by their indices, and
/// then names are broken.
pub fn print_columns(
    out: &mut dyn Write,
    title: &str,
    heads: &[&str],
    rows: &[Columns],
    go_first: &[usize],
    width: Width,
) -> std::io::Result<()> {
    let name = rows.iter().map(|row| columns_of(&row.name)).max().unwrap_or(0);
    let column = |index: usize| {
        let cells = rows.iter().map(|row| columns_of(&row.cells[index]));
        GAP + cells.max().unwrap_or(0).max(columns_of(heads[index]))
    };
    let mut shown: Vec<usize> = (0..heads.len()).collect();
    let room = |shown: &[usize]| {
        let taken = INDENT.len() + shown.iter().map(|&index| column(index)).sum::<usize>();
        width.columns().saturating_sub(taken)
    };
    for index in go_first {
        if room(&shown) < name.min(NARROWEST_NAME + GAP) {
            shown.retain(|other| other != index);
        }
    }
    let room = room(&shown).max(NARROWEST_NAME);
    let mut header = vec![""];
    header.extend(shown.iter().map(|&index| heads[index]));
    let last = header.len() - 1;
    let mut table = plain(&header, |column| column == 0 || column == last);
    let mut heights = Vec::new();
    for row in rows {
        let name = wrapped_at_commas(&row.name, room, GAP);
        let name: Vec<String> = name.lines().map(|line| format!("{INDENT}{line}")).collect();
        heights.push(name.len());
        let mut cells = vec![name.join("\n")];
        cells.extend(shown.iter().map(|&index| row.cells[index].clone()));
        table.add_row(cells);
    }
    let mut lines = table.lines();
    if let Some(header) = lines.next() {
        print_header(out, title, header.trim_end(), width)?;
    }
    for (row, height) in rows.iter().zip(heights) {
        for line in lines.by_ref().take(height) {
            let style = row.style;
            writeln!(out, "{style}{}{style:#}", line.trim_end())?;
        }
    }
    Ok(())
}

/// A method on several storages.
pub struct Across {
    /// The method.
    pub name: String,
    /// A rate and a verdict on each.
    pub cells: Vec<(String, String)>,
}

/// Prints a column of rates and one of verdicts for each storage. Tells whether there was room for them.
pub fn print_across(out: &mut dyn Write, heads: &[String], rows: &[Across], width: Width) -> std::io::Result<bool> {
    let column = |index: usize| {
        let widths = rows.iter().map(|row| &row.cells[index]);
        let (rates, verdicts): (Vec<usize>, Vec<usize>) = widths
            .map(|(rate, verdict)| (columns_of(rate), columns_of(verdict)))
            .unzip();
        let rate = rates.into_iter().chain([columns_of(&heads[index])]).max().unwrap_or(0);
        2 * GAP + rate + verdicts.into_iter().max().unwrap_or(0)
    };
    let taken = INDENT.len() + (0..heads.len()).map(column).sum::<usize>();
    let room = width.columns().saturating_sub(taken);
    if room < NARROWEST_NAME {
        return Ok(false);
    }
    let mut header = vec![""];
    header.extend(heads.iter().flat_map(|head| [head.as_str(), ""]));
    let mut table = plain(&header, |column| column % 2 == 0);
    for row in rows {
        let name = wrapped_at_commas(&row.name, room, GAP);
        let name = name.lines().map(|line| format!("{INDENT}{line}")).collect::<Vec<_>>();
        let mut cells = vec![name.join("\n")];
        cells.extend(
            row.cells
                .iter()
                .flat_map(|(rate, verdict)| [rate.clone(), verdict.clone()]),
        );
        table.add_row(cells);
    }
    for (index, line) in table.lines().enumerate() {
        let style = if index == 0 { DIM } else { Style::new() };
        writeln!(out, "{style}{}{style:#}", line.trim_end())?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: [&str; 5] = ["", "95 %", "cpu", "fsync", "rounds"];

    fn rows() -> Vec<TableRow> {
        let row = |name: &str, verdict: &str| TableRow {
            name: name.to_owned(),
            part: 0.5,
            figures: ["1.02 GB/s", "±24 %", "41 %", "1 %", "24"].map(str::to_owned).to_vec(),
            verdict: verdict.to_owned(),
            style: Style::new(),
            before: None,
        };
        vec![
            row("io_uring depth=8,direct,block=1M,preallocate=allocate", "best"),
            row("sync block=1M", "1.10x"),
        ]
    }

    fn printed(columns: usize) -> String {
        let mut out = Vec::new();
        print_ranking(&mut out, "write 8M, new file", &HEADS, &rows(), Width::of(columns)).unwrap();
        String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap()
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in 45..140 {
            let text = printed(columns);
            assert!(
                text.lines().all(|line| columns_of(line) <= columns),
                "{columns}\n{text}"
            );
        }
    }

    #[test]
    fn bar_and_rounds_go_before_names_are_broken() {
        assert!(printed(120).contains('█') && printed(120).contains("rounds"));
        assert!(
            printed(104).contains('█') && !printed(104).contains("rounds"),
            "{}",
            printed(104)
        );
        assert!(!printed(94).contains('█') && printed(94).contains("block=1M,preallocate=allocate"));
        let narrow = printed(80);
        assert!(narrow.contains("block=1M,  1.02 GB/s"), "{narrow}");
        assert!(narrow.contains("\n    preallocate=allocate\n"), "{narrow}");
    }

    #[test]
    fn storages_stand_side_by_side_where_there_is_room() {
        let across = |columns| {
            let cells = vec![("1.02 GB/s".to_owned(), "best".to_owned()); 2];
            let rows = [Across {
                name: "sync block=1M".to_owned(),
                cells,
            }];
            let heads = ["/ssd".to_owned(), "/disk".to_owned()];
            print_across(&mut Vec::new(), &heads, &rows, Width::of(columns)).unwrap()
        };
        assert!(across(80) && !across(50));
    }
}
