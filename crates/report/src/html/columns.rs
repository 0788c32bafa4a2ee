//! Times over file size in the columns of a document: a plot for each way of writing, both axes logarithmic, a line for each
//! column, and what was published beside. All plots have the same axes, so that they can be held against each other.

use maud::{Markup, html};
use seekless_method::format_size;
use seekless_results::{Line, Table, View, sound};

use super::plot::{Scale, at, picture, short};
use super::tables::{figure, known, table};

/// Two stand side by side.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 30.0;
/// Between machines that published figures of one size.
const BESIDE: f64 = 11.0;
/// Colours and shapes; further columns have those of the first again.
const LOOKS: usize = 6;

/// The axes of all plots.
struct Axes {
    sizes: Scale,
    seconds: Scale,
    size_ticks: Vec<u64>,
}

/// The section; nothing where no experiment gives columns.
pub(super) fn columns(view: &View<'_>) -> Markup {
    let tables = &view.columns;
    let Some(axes) = axes(tables) else {
        return html! {};
    };
    let names: Vec<&str> = tables[0].columns.iter().map(|column| column.name.as_str()).collect();
    let mut machines: Vec<&str> = Vec::new();
    for machine in tables
        .iter()
        .flat_map(|table| &table.lines)
        .filter_map(|line| line.published)
    {
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    html! {
        section id="columns" {
            h2 { "Time by file size" }
            p.aside {
                "The median time of one file, in the columns of the document. Both axes are logarithmic, and the same in all plots."
                @if !machines.is_empty() { " What was published is drawn hollow, machine beside machine where several have one size; a point tells its own." }
            }
            @if !machines.is_empty() { ul { @for machine in machines { li { (machine) } } } }
            p.legend {
                @for (index, name) in names.iter().enumerate() {
                    span.key-name { svg.key width="16" height="14" aria-hidden="true" { (mark(index, 8.0, 7.0, true)) } " " (name) }
                }
            }
            div.beside { @for (index, table) in tables.iter().enumerate() { div { (plot(view, index, table, &axes)) } } }
        }
    }
}

/// What can be drawn of a line: the column, and its seconds.
fn points<'l>(line: &'l Line<'_>) -> impl Iterator<Item = (usize, f64)> + 'l {
    let cells = line.cells.iter().enumerate().filter(|_| line.size_bytes > 0);
    cells.filter_map(|(column, cell)| Some((column, sound(cell.as_ref()?.seconds)?)))
}

/// Axes that hold everything; none where there is nothing.
fn axes(tables: &[Table<'_>]) -> Option<Axes> {
    let lines = tables.iter().flat_map(|table| &table.lines);
    let points = lines.flat_map(|line| points(line).map(|(_, seconds)| (line.size_bytes, seconds)));
    let points: Vec<(u64, f64)> = points.collect();
    let (first, last) = (
        points.iter().map(|(bytes, _)| *bytes).min()?,
        points.iter().map(|(bytes, _)| *bytes).max()?,
    );
    let fastest = points.iter().map(|(_, seconds)| *seconds).fold(f64::MAX, f64::min);
    let slowest = points.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let mut size_ticks: Vec<u64> = points.iter().map(|(bytes, _)| *bytes).collect();
    size_ticks.sort_unstable();
    size_ticks.dedup();
    size_ticks.truncate(8);
    let sizes = Scale::logarithmic(first as f64 * 0.8, last as f64 * 1.25, LEFT, WIDTH - LEFT - RIGHT);
    // Upwards.
    let seconds = Scale::logarithmic(fastest * 0.7, slowest * 1.4, HEIGHT - BOTTOM, TOP + BOTTOM - HEIGHT);
    Some(Axes {
        sizes,
        seconds,
        size_ticks,
    })
}

fn plot(view: &View<'_>, index: usize, told: &Table<'_>, axes: &Axes) -> Markup {
    let place = view
        .place(told.storage)
        .map(|place| format!("{place}: "))
        .unwrap_or_default();
    let title = format!("{place}{}", told.title());
    let published = told.lines.iter().filter(|line| line.published.is_some());
    let published: Vec<(&Line<'_>, usize, f64)> = published
        .flat_map(|line| points(line).map(move |(column, seconds)| (line, column, seconds)))
        .collect();
    let drawing = html! {
        (grid(axes))
        @for column in 0..told.columns.len() { (line(told, column, axes)) }
        @for (index, (line, column, seconds)) in published.iter().enumerate() {
            @let before = published[..index].iter().filter(|(other, of, _)| (other.size_bytes, of) == (line.size_bytes, column));
            @let x = axes.sizes.place(line.size_bytes as f64) + BESIDE * before.count() as f64;
            g {
                title { (told.columns[*column].name) ", " (size(line.size_bytes)) ": " (time(*seconds)) ", " (line.published.unwrap_or_default()) }
                (mark(*column, x, axes.seconds.place(*seconds), false))
            }
        }
    };
    let about = "The time of a file over its size, a line for each column of the table below, both logarithmic.";
    html! {
        (picture(&format!("columns-{index}"), &title, about, (WIDTH, HEIGHT), &drawing))
        details { summary { "Milliseconds" } (figures(&title, told)) }
    }
}

fn grid(axes: &Axes) -> Markup {
    let (left, right) = (LEFT - 4.0, WIDTH - RIGHT + 4.0);
    // Ones only, where there are many powers of ten.
    let ticks = axes.seconds.ticks(5);
    let ones: Vec<f64> = ticks
        .iter()
        .copied()
        .filter(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-6)
        .collect();
    let ticks = if ones.len() > 3 { ones } else { ticks };
    html! {
        @for tick in ticks {
            @let y = at(axes.seconds.place(tick));
            line.grid x1=(at(left)) x2=(at(right)) y1=(y) y2=(y) {}
            text.tick x=(at(left - 6.0)) y=(at(axes.seconds.place(tick) + 4.0)) text-anchor="end" { (time(tick)) }
        }
        @for &bytes in &axes.size_ticks {
            @let x = at(axes.sizes.place(bytes as f64));
            line.grid x1=(x) x2=(x) y1=(at(TOP)) y2=(at(HEIGHT - BOTTOM)) {}
            text.tick x=(x) y=(at(HEIGHT - BOTTOM + 17.0)) text-anchor="middle" { (size(bytes)) }
        }
    }
}

/// A column's line with its marks.
fn line(told: &Table<'_>, column: usize, axes: &Axes) -> Markup {
    let measured = told.lines.iter().filter(|line| line.published.is_none());
    let cells = measured.filter_map(|line| Some((line.size_bytes, points(line).find(|(of, _)| *of == column)?.1)));
    let points: Vec<(u64, f64)> = cells.take(100).collect();
    let place = |&(bytes, seconds): &(u64, f64)| (axes.sizes.place(bytes as f64), axes.seconds.place(seconds));
    let path: Vec<String> = points
        .iter()
        .map(place)
        .map(|(x, y)| format!("{} {}", at(x), at(y)))
        .collect();
    html! {
        @if !points.is_empty() {
            path class={"column s" (column % LOOKS)} d={"M" (path.join("L"))} {}
            @for point in &points {
                @let (x, y) = place(point);
                g {
                    title { (told.columns[column].name) ", " (size(point.0)) ": " (time(point.1)) }
                    (mark(column, x, y, true))
                }
            }
        }
    }
}

/// A column's mark: known by its shape as well as by its colour.
fn mark(column: usize, x: f64, y: f64, is_filled: bool) -> Markup {
    let class = format!("{} s{}", if is_filled { "point" } else { "hollow" }, column % LOOKS);
    let from = format!("M{} {}", at(x), at(y));
    let path = match column % LOOKS {
        0 => "m-4 -4h8v8h-8z",
        1 => "m0 -5l5 8.5h-10z",
        2 => "m0 -5l5 5l-5 5l-5 -5z",
        3 => "m0 5l5 -8.5h-10z",
        4 => "m-1.5 -5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
        _ => "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    };
    html! { path class=(class) d={ (from) (path) } {} }
}

fn figures(title: &str, told: &Table<'_>) -> Markup {
    let names: Vec<String> = told.columns.iter().map(|column| format!("#{}", column.name)).collect();
    let mut heads = vec!["#File"];
    heads.extend(names.iter().map(String::as_str));
    heads.push("#Extents of the first");
    let rows = html! {
        @for line in told.lines.iter().filter(|line| line.published.is_none()) {
            tr {
                (figure(&size(line.size_bytes), line.size_bytes as f64))
                @for cell in &line.cells {
                    (known(cell.and_then(|cell| sound(cell.seconds)), |seconds| format!("{:.3}", seconds * 1e3)))
                }
                @let extents = line.cells.first().copied().flatten().and_then(|cell| cell.extents);
                (known(extents, short))
            }
        }
    };
    table(&format!("Milliseconds: {title}"), &heads, None, &rows)
}

/// A size as the documents write it, where it is one of theirs.
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1_000_000) => format!("{} MB", bytes / 1_000_000),
        bytes if bytes > 0 && bytes.is_multiple_of(1000) => format!("{} kB", bytes / 1000),
        bytes => format_size(bytes),
    }
}

/// A time without digits that say nothing.
fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 1.0 => format!("{} s", short(seconds)),
        seconds if seconds >= 1e-3 => format!("{} ms", short(seconds * 1e3)),
        seconds => format!("{} µs", short(seconds * 1e6)),
    }
}
