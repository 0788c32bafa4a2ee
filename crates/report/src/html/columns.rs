//! Times by file size in the columns of a document: a plot for each way of writing, with logarithmic axes and a line
//! for each column, beside the published times. All plots have the same axes, so that they can be compared.

use std::collections::BTreeSet;

use maud::{Markup, html};
use seekless_results::{Line, Table, View, document_size, sound, unit};

use super::plot::{Scale, at, key, level_lines, path, picture, short};
use super::tables::table;

/// The width of a plot; two fit side by side.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 30.0;
/// The number of colours and shapes, which repeat for further columns.
pub const LOOKS: usize = 6;

/// The axes of all plots.
struct Axes {
    sizes: Scale,
    seconds: Scale,
    size_ticks: BTreeSet<u64>,
}

/// The section; empty if no experiment names columns.
pub(super) fn columns(view: &View<'_>) -> Markup {
    let tables = &view.columns;
    let Some(axes) = axes(tables) else {
        return html! {};
    };
    let has_published = tables.iter().any(Table::has_published);
    html! {
        section id="columns" {
            h2 { "Time by file size" }
            p.aside {
                "The median time of one file, in the columns of the document. Both axes are logarithmic, and the same in all plots."
                @if has_published { " Published figures are drawn hollow; a point shows its machine." }
            }
            p.legend {
                @for (index, column) in tables[0].columns.iter().enumerate() {
                    span.key-name { (key(&mark(index, 7.0, 7.0, true))) " " (column.name) }
                }
            }
            div.beside { @for (index, table) in tables.iter().enumerate() { div { (plot(view, index, table, &axes)) } } }
        }
    }
}

/// The points of a line: the column, and its seconds.
fn points<'l>(line: &'l Line<'_>) -> impl Iterator<Item = (usize, f64)> + 'l {
    let cells = line.cells.iter().enumerate().filter(|_| line.size_bytes > 0);
    cells.filter_map(|(column, cell)| Some((column, sound(cell.as_ref()?.seconds)?)))
}

/// Axes that contain all points; `None` if there are none.
fn axes(tables: &[Table<'_>]) -> Option<Axes> {
    let lines = tables.iter().flat_map(|table| &table.lines);
    let points: Vec<(u64, f64)> = lines
        .flat_map(|line| points(line).map(|(_, seconds)| (line.size_bytes, seconds)))
        .collect();
    let sizes: BTreeSet<u64> = points.iter().map(|(bytes, _)| *bytes).collect();
    let (first, last) = (*sizes.first()? as f64, *sizes.last()? as f64);
    let fastest = points.iter().map(|(_, seconds)| *seconds).fold(f64::MAX, f64::min);
    let slowest = points.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    Some(Axes {
        sizes: Scale::logarithmic(first * 0.8, last * 1.25, LEFT, WIDTH - LEFT - RIGHT),
        // Upwards.
        seconds: Scale::logarithmic(fastest * 0.7, slowest * 1.4, HEIGHT - BOTTOM, TOP + BOTTOM - HEIGHT),
        size_ticks: sizes.into_iter().take(8).collect(),
    })
}

fn plot(view: &View<'_>, index: usize, told: &Table<'_>, axes: &Axes) -> Markup {
    let place = view.place(told.storage).map(|place| format!("{place}: "));
    let title = place.unwrap_or_default() + &told.title();
    let at_place = |line: &Line<'_>, seconds| (axes.sizes.place(line.size_bytes as f64), axes.seconds.place(seconds));
    let measured = told.lines.iter().filter(|line| line.published.is_none());
    let drawing = html! {
        (level_lines(&axes.seconds, 3, LEFT - 4.0, WIDTH - RIGHT + 4.0, time))
        @for &bytes in &axes.size_ticks {
            @let x = axes.sizes.place(bytes as f64);
            path.grid d={"M" (at(x)) " " (at(TOP)) "V" (at(HEIGHT - BOTTOM))} {}
            text.tick x=(at(x)) y=(at(HEIGHT - BOTTOM + 17.0)) text-anchor="middle" { (document_size(bytes)) }
        }
        @for column in 0..told.columns.len() {
            @let own = measured.clone().filter_map(|line| Some(at_place(line, points(line).find(|(of, _)| *of == column)?.1)));
            @if own.clone().next().is_some() { path class={"column s" (column % LOOKS)} d=(path(own)) {} }
        }
        @for line in &told.lines {
            @for (column, seconds) in points(line) {
                @let (x, y) = at_place(line, seconds);
                g {
                    title {
                        (told.columns[column].name) ", " (document_size(line.size_bytes)) ": " (time(seconds))
                        @if let Some(machine) = line.published { ", " (machine) }
                    }
                    (mark(column, x, y, line.published.is_none()))
                }
            }
        }
    };
    let about = "The time of a file by its size, a line for each column of the table below; both axes are logarithmic.";
    html! {
        (picture(&format!("columns-{index}"), &title, about, (WIDTH, HEIGHT), &drawing))
        details { summary { "Milliseconds" } (table(&told.sheet(&format!("Milliseconds: {title}")), false)) }
    }
}

/// A column's mark: known by its shape as well as by its colour.
#[must_use]
pub fn mark(column: usize, x: f64, y: f64, is_filled: bool) -> Markup {
    let class = format!("{} s{}", if is_filled { "point" } else { "hollow" }, column % LOOKS);
    let path = match column % LOOKS {
        0 => "m-4 -4h8v8h-8z",
        1 => "m0 -5l5 8.5h-10z",
        2 => "m0 -5l5 5l-5 5l-5 -5z",
        3 => "m0 5l5 -8.5h-10z",
        4 => "m-1.5 -5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
        _ => "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    };
    html! { path class=(class) d={"M" (at(x)) " " (at(y)) (path)} {} }
}

/// A time without insignificant digits.
fn time(seconds: f64) -> String {
    let (unit, size) = unit(seconds, &[("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)]);
    format!("{} {unit}", short(seconds / size))
}
