//! Tables without lines that fit a terminal: columns are omitted and names are wrapped, in a fixed order.

use std::io::{self, Write};

use anstyle::Style;
use seekless_results::{Sheet, SheetRow};

use super::page::Page;
use super::units::bar;
use super::wrap::{columns_of, wrapped, wrapped_at_commas};
use super::{BOLD, DIM};

/// A row of a table.
#[derive(Default)]
pub struct TableRow {
    /// Its name, which is wrapped after commas if it is too long.
    pub name: String,
    /// Its cells, in the order of the heads.
    pub cells: Vec<String>,
    /// Its rate as a part of the best rate, for the bar of a ranking.
    pub part: f64,
    /// The style of its name.
    pub style: Style,
    /// A line of its own before this one.
    pub before: Option<&'static str>,
}

impl TableRow {
    /// A row without a style.
    pub fn new(name: String, cells: Vec<String>) -> Self {
        Self {
            name,
            cells,
            ..Self::default()
        }
    }
}

/// The width of each column. A line may lack the last ones.
pub fn widths_of<'l>(lines: impl IntoIterator<Item = &'l Vec<String>>) -> Vec<usize> {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(line.len().max(widths.len()), 1);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = columns_of(cell).max(*width);
        }
    }
    widths
}

/// The cells of a line, each with a gap after it: names, bars and words aligned to the left, figures to the right.
pub fn aligned(cells: &[String], widths: &[usize], is_left: impl Fn(usize) -> bool) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let blank = " ".repeat(width - columns_of(cell));
        line += &if is_left(index) {
            cell.clone() + &blank
        } else {
            blank + cell
        };
        line += &" ".repeat(GAP);
    }
    line
}

/// Prints two columns of words, and a text behind them that wraps.
pub fn print_with_texts(page: &mut Page<'_>, heads: [&str; 3], rows: &[([String; 2], &str)]) -> io::Result<()> {
    let [first, second, last] = heads;
    let heads = ([first, second].map(str::to_owned), last);
    let lines = || [&heads].into_iter().chain(rows);
    let cells: Vec<Vec<String>> = lines().map(|(cells, _)| cells.to_vec()).collect();
    let widths = widths_of(&cells);
    for (index, (cells, (_, text))) in cells.iter().zip(lines()).enumerate() {
        let style = if index == 0 { BOLD } else { Style::new() };
        let head = aligned(cells, &widths, |_| true);
        page.indented(style, &head, columns_of(&head), text)?;
    }
    Ok(())
}

/// Heads, and rows with a cell below each of them.
pub struct TextTable<'a> {
    /// Printed before the heads. Without a title, columns of figures alternate with columns of words.
    title: Option<&'a str>,
    /// Those behind the first column, which has the names.
    pub heads: Vec<&'a str>,
    /// The rows.
    pub rows: Vec<TableRow>,
}

/// The shortest useful bar, and the longest.
const BARS: std::ops::RangeInclusive<usize> = 6..=16;
/// The narrowest column of names, with room for the longest option and its indent.
const NARROWEST_NAME: usize = 25;
/// Between columns.
pub const GAP: usize = 2;
/// Before the names.
const INDENT: &str = "  ";

impl<'a> TextTable<'a> {
    /// A table to be printed.
    pub fn new(title: Option<&'a str>, heads: &[&'a str], rows: impl IntoIterator<Item = TableRow>) -> Self {
        let (heads, rows) = (heads.to_vec(), rows.into_iter().collect());
        Self { title, heads, rows }
    }

    /// A sheet with its title, without bars or styles.
    pub fn of(sheet: &'a Sheet) -> Self {
        let heads = sheet.columns.iter().skip(1);
        let heads: Vec<&str> = heads.map(|column| column.head.as_str()).collect();
        let row = |row: &SheetRow| {
            let mut cells = row.cells.iter().map(|cell| cell.text.clone());
            TableRow::new(cells.next().unwrap_or_default(), cells.collect())
        };
        Self::new(Some(&sheet.title), &heads, sheet.rows.iter().map(row))
    }

    /// Gives each row its bar.
    pub fn add_bars(&mut self, figures: impl Iterator<Item = f64> + Clone) {
        let best = figures.clone().fold(f64::MIN_POSITIVE, f64::max);
        for (row, figure) in self.rows.iter_mut().zip(figures) {
            row.part = figure / best;
        }
    }

    /// Prints it. If there is no room, it first omits columns, in the order of these indices, then wraps names.
    pub fn print(&self, page: &mut Page<'_>, go_first: &[usize]) -> io::Result<()> {
        let mut shown: Vec<usize> = (0..self.heads.len()).collect();
        for index in go_first {
            if self.room(page, &shown) < self.longest_name().min(NARROWEST_NAME + GAP) {
                shown.retain(|other| other != index);
            }
        }
        self.print_columns(page, &shown, 0)
    }

    /// Prints a ranking: name, first figure, bar, other figures, and a verdict in the last column. A narrow terminal
    /// first loses the last figure; then the bar becomes shorter and goes; then names are wrapped.
    pub fn print_ranking(&self, page: &mut Page<'_>) -> io::Result<()> {
        if self.rows.is_empty() {
            return self.print_columns(page, &[], 0);
        }
        let verdict = self.heads.len() - 1;
        let columns = |figures: usize| -> Vec<usize> { (0..figures).chain([verdict]).collect() };
        let room = |figures: usize| self.room(page, &columns(figures));
        let name = self.longest_name();
        let mut widest = [verdict, verdict - 1].into_iter();
        let bar = |figures: usize| room(figures).saturating_sub(name + GAP).min(*BARS.end());
        if let Some(figures) = widest.clone().find(|&figures| BARS.contains(&bar(figures))) {
            return self.print_columns(page, &columns(figures), bar(figures));
        }
        let whole = widest.find(|&figures| name <= room(figures));
        let broken = || (1..verdict).rev().find(|&figures| room(figures) >= NARROWEST_NAME);
        let figures = whole.or_else(broken).unwrap_or(1);
        self.print_columns(page, &columns(figures), 0)
    }

    /// Whether all of it fits.
    pub fn fits(&self, page: &Page<'_>) -> bool {
        let all: Vec<usize> = (0..self.heads.len()).collect();
        self.room(page, &all) >= NARROWEST_NAME
    }

    fn longest_name(&self) -> usize {
        let names = self.rows.iter().map(|row| columns_of(&row.name));
        names.max().unwrap_or(0)
    }

    /// The room that these columns leave for the names.
    fn room(&self, page: &Page<'_>, shown: &[usize]) -> usize {
        let column = |&index: &usize| {
            let cells = self.rows.iter().map(|row| columns_of(&row.cells[index]));
            // An empty column keeps a column, so that its neighbours stay apart.
            GAP + cells.fold(columns_of(self.heads[index]).max(1), usize::max)
        };
        let taken = INDENT.len() + shown.iter().map(column).sum::<usize>();
        page.width().columns().saturating_sub(taken)
    }

    /// Prints the names and these columns; after the first a bar, unless its width is 0.
    fn print_columns(&self, page: &mut Page<'_>, shown: &[usize], bar_width: usize) -> io::Result<()> {
        if self.rows.is_empty() {
            return page.say(BOLD, self.title.unwrap_or_default());
        }
        let room = self.room(page, shown).max(NARROWEST_NAME);
        let with_bar = |mut cells: Vec<String>, bar: String| {
            if bar_width > 0 {
                cells.insert(2, bar);
            }
            cells
        };
        let heads = shown.iter().map(|&index| self.heads[index].to_owned());
        let header = with_bar([String::new()].into_iter().chain(heads).collect(), String::new());
        // The first line of a wrapped name has the cells.
        let mut lines = Vec::new();
        for row in &self.rows {
            let name = wrapped_at_commas(&row.name, room, GAP);
            let mut names = name.split('\n').map(|line| format!("{INDENT}{line}"));
            let cells = shown.iter().map(|&index| row.cells[index].clone());
            let first = names.next().into_iter().chain(cells).collect();
            lines.push((row, row.before, with_bar(first, bar(row.part, bar_width))));
            lines.extend(names.map(|name| (row, None, vec![name])));
        }
        let widths = widths_of([&header].into_iter().chain(lines.iter().map(|(.., cells)| cells)));
        let is_left = |index: usize| match self.title {
            Some(_) => index == 0 || index + 1 == widths.len() || (bar_width > 0 && index == 2),
            None => index.is_multiple_of(2),
        };
        let aligned = |cells: &[String]| aligned(cells, &widths, is_left).trim_end().to_owned();
        self.print_header(page, &aligned(&header))?;
        for (row, before, cells) in &lines {
            if let Some(before) = before {
                writeln!(page, "{DIM}{INDENT}{before}{DIM:#}")?;
            }
            let (style, line) = (row.style, aligned(cells));
            writeln!(page, "{style}{line}{style:#}")?;
        }
        Ok(())
    }

    /// Prints the title before the heads, or above them if it is too long.
    fn print_header(&self, page: &mut Page<'_>, header: &str) -> io::Result<()> {
        let Some(title) = self.title else {
            return writeln!(page, "{DIM}{header}{DIM:#}");
        };
        let heads = header.trim_start();
        let before = columns_of(header) - columns_of(heads);
        let gap = before.saturating_sub(columns_of(title));
        if gap >= GAP {
            writeln!(page, "{BOLD}{title}{BOLD:#}{:gap$}{DIM}{heads}{DIM:#}", "")
        } else {
            let title = wrapped(0, title, page.width());
            writeln!(page, "{BOLD}{title}{BOLD:#}\n{DIM}{header}{DIM:#}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wrap::Width;
    use super::*;

    const HEADS: [&str; 6] = ["", "95 %", "cpu", "fsync", "rounds", ""];

    fn rows() -> Vec<TableRow> {
        let row = |name: &str, verdict: &str| TableRow {
            name: name.to_owned(),
            cells: ["1.02 GB/s", "±24 %", "41 %", "1 %", "24", verdict]
                .map(str::to_owned)
                .to_vec(),
            part: 0.5,
            ..TableRow::default()
        };
        vec![
            row("io_uring depth=8,direct,block=1M,preallocate=allocate", "best"),
            row("sync block=1M", "1.10x"),
        ]
    }

    fn printed(columns: usize) -> String {
        let mut out = Vec::new();
        let table = TextTable::new(Some("write 8M, new file"), &HEADS, rows());
        table
            .print_ranking(&mut Page::new(&mut out, Width::of(columns)))
            .unwrap();
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
    fn a_table_without_rows_is_its_title() {
        let mut out = Vec::new();
        let table = TextTable::new(Some("write 8M"), &HEADS, []);
        let mut page = Page::new(&mut out, Width::of(60));
        table
            .print(&mut page, &[])
            .and_then(|()| table.print_ranking(&mut page))
            .unwrap();
        drop(page);
        assert_eq!(anstream::adapter::strip_bytes(&out).into_vec(), b"write 8M\nwrite 8M\n");
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
            let row = TableRow {
                name: "sync block=1M".to_owned(),
                cells: ["1.02 GB/s", "best", "1.02 GB/s", "best"].map(str::to_owned).to_vec(),
                ..TableRow::default()
            };
            let table = TextTable::new(None, &["/ssd", "", "/disk", ""], [row]);
            table.fits(&Page::new(Vec::new(), Width::of(columns)))
        };
        assert!(across(80) && !across(50));
    }
}
