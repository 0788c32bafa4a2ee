//! Times over file size in the columns of a document: a plot for each way of writing, both axes logarithmic, a line for each
//! column, and what was published beside. All plots have the same axes, so that they can be held against each other.

use maud::{Markup, html};
use seekless::method::format_size;
use seekless_record::{Finding, Published};
use seekless_results::{Elsewhere, Table, View, elsewhere, sound, tables};

use super::plot::{Scale, at, picture, short};
use super::tables::{figure, table};

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

/// Whether a published finding is a figure of a column.
pub(super) fn is_of_column(view: &View<'_>, source: &Published, finding: &Finding) -> bool {
    let mut columns = view.run.columns.iter();
    columns.any(|column| (&column.experiment, &column.name) == (&source.experiment, &finding.method))
}

/// Whether there is anything to show.
pub(super) fn is_shown(view: &View<'_>) -> bool {
    !tables(view.run).is_empty()
}

/// The section; nothing where no experiment gives columns.
pub(super) fn columns(view: &View<'_>) -> Markup {
    let tables = tables(view.run);
    let all: Vec<(&Table<'_>, Vec<Elsewhere<'_>>)> =
        tables.iter().map(|table| (table, elsewhere(view.run, table))).collect();
    let Some(axes) = axes(&all) else {
        return html! {};
    };
    let names: Vec<&str> = tables[0].columns.iter().map(|column| column.name.as_str()).collect();
    let has_published = all.iter().any(|(_, published)| !published.is_empty());
    html! {
        section id="columns" {
            h2 { "Time by file size" }
            p.aside {
                "The median time of one file, in the columns of the document. Both axes are logarithmic, and the same in all plots."
                @if has_published { " What was published is drawn hollow, machine beside machine where several have one size; a point tells its own." }
            }
            @if has_published {
                ul { @for source in sources(view) { li { (source) } } }
            }
            p.legend {
                @for (index, name) in names.iter().enumerate() {
                    span.key-name { svg.key width="16" height="14" aria-hidden="true" { (mark(index, 8.0, 7.0, true)) } " " (name) }
                }
            }
            div.beside {
                @for (index, (table, published)) in all.iter().enumerate() {
                    div { (plot(view, index, table, published, &axes)) }
                }
            }
        }
    }
}

/// The machines that figures of columns come from.
fn sources<'a>(view: &View<'a>) -> Vec<&'a str> {
    let of_columns = |source: &&&Published| {
        source
            .findings
            .iter()
            .any(|finding| is_of_column(view, source, finding))
    };
    let published: Vec<&Published> = view.run.published.iter().collect();
    let found = published.iter().filter(of_columns).take(20);
    found.map(|source| source.machine.as_str()).collect()
}

/// Axes that hold everything; none where there is nothing.
fn axes(all: &[(&Table<'_>, Vec<Elsewhere<'_>>)]) -> Option<Axes> {
    let measured = all.iter().flat_map(|(table, _)| &table.lines).flat_map(|line| {
        let seconds = line.cells.iter().flatten().filter_map(|cell| sound(cell.seconds));
        seconds.map(|seconds| (line.size_bytes, seconds))
    });
    let published = all
        .iter()
        .flat_map(|(_, published)| published)
        .map(|one| (one.size_bytes, one.seconds));
    let points: Vec<(u64, f64)> = measured.chain(published).filter(|(bytes, _)| *bytes > 0).collect();
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

fn plot(view: &View<'_>, index: usize, told: &Table<'_>, published: &[Elsewhere<'_>], axes: &Axes) -> Markup {
    let storage = view
        .run
        .storages
        .get(told.storage)
        .filter(|_| view.run.storages.len() > 1);
    let place = storage.map_or_else(String::new, |storage| format!("{}: ", storage.path));
    let title = format!("{place}{}", told.title());
    let drawing = html! {
        (grid(axes))
        @for column in 0..told.columns.len() { (line(told, column, axes)) }
        @for (index, one) in published.iter().enumerate() {
            @let before = published[..index].iter().filter(|other| (other.column, other.size_bytes) == (one.column, one.size_bytes));
            @let x = axes.sizes.place(one.size_bytes as f64) + BESIDE * before.count() as f64;
            g {
                title { (told.columns[one.column].name) ", " (size(one.size_bytes)) ": " (time(one.seconds)) ", " (one.machine) }
                (mark(one.column, x, axes.seconds.place(one.seconds), false))
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
    let cells = told.lines.iter().filter_map(|line| {
        let seconds = sound(line.cells.get(column).copied().flatten()?.seconds)?;
        (line.size_bytes > 0).then_some((line.size_bytes, seconds))
    });
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
        @for line in &told.lines {
            tr {
                (figure(&size(line.size_bytes), line.size_bytes as f64))
                @for cell in &line.cells {
                    @let seconds = cell.and_then(|cell| sound(cell.seconds));
                    (figure(&seconds.map_or_else(|| "–".to_owned(), |seconds| format!("{:.3}", seconds * 1e3)), seconds.unwrap_or(f64::NAN)))
                }
                @let extents = line.cells.first().copied().flatten().and_then(|cell| cell.extents);
                (figure(&extents.map_or_else(|| "–".to_owned(), short), extents.unwrap_or(f64::NAN)))
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
