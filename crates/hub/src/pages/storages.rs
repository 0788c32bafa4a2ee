//! A kind of storage, a model of a device, and runs.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use seekless_report::parts::{
    LOOKS, RateLine, Scale, at, axis, breaking, heading, key, label_width, mark, path, picture, rate_plot,
};
use seekless_results::{DeviceKind, RATES, chosen_size, percent, plural, rate, times, unit};

use super::{FEW, RUNS, address, class, colour, encoded, form, kind_words, list, rests_on, short, title};
use crate::index::{Filter, Index, Known};
use crate::trends::{Curve, Curves, KernelStep, Kernels, Spread, Standing, Task, curves, kernels, standings};

/// Tasks on a page; it stays below 200 kB.
const MOST_TASKS: usize = 8;
const MOST_MODELS: usize = 200;

/// The page of a kind of storage.
pub fn kind(index: &Index, kind: DeviceKind, filter: &Filter) -> Markup {
    let places = index.places_of(filter);
    let models: BTreeSet<&str> = places
        .iter()
        .map(|&place| index.place_at(place).model.as_str())
        .filter(|model| !model.is_empty())
        .collect();
    let own = html! {
        @if !models.is_empty() {
            section id="models" {
                h2 { "Models" }
                ul.models { @for model in models.iter().take(MOST_MODELS) { li { a href={"/devices/" (encoded(model))} { (model) } } } }
                @if models.len() > MOST_MODELS { p { (models.len() - MOST_MODELS) " more are not shown." } }
            }
        }
    };
    page(
        index,
        filter,
        (
            &heading(&kind_words(kind.slug())),
            &format!("/kinds/{}", kind.slug()),
            "kind",
        ),
        &own,
    )
}

/// The page of a model of a device.
pub fn device(index: &Index, model: &str, filter: &Filter) -> Markup {
    let own = compared(&standings(index, model, filter));
    page(
        index,
        filter,
        (model, &format!("/devices/{}", encoded(model)), "model"),
        &own,
    )
}

/// What both have, with what only one has between.
fn page(index: &Index, filter: &Filter, (name, path, fixed): (&str, &str, &str), own: &Markup) -> Markup {
    let curves = curves(index, filter);
    let tasks = || curves.iter().map(|curves| &curves.task);
    let shown: BTreeSet<&Task> = tasks().take(MOST_TASKS).collect();
    let kernels = kernels(index, filter);
    let runs: Vec<&Known> = index.runs_of(filter).take(20).collect();
    html! {
        header {
            h1 { (name) }
            p { "Medians over machines; bands and ranges are the middle half of the machines." }
        }
        main {
            (form(path, index, filter, fixed))
            @if curves.is_empty() { p.warnings { "No run that counts fits this." } }
            @for (at, curves) in curves.iter().take(MOST_TASKS).enumerate() { (task(at, curves, &title(&curves.task, tasks()))) }
            @if curves.len() > MOST_TASKS {
                p.warnings { (plural((curves.len() - MOST_TASKS) as u64, "more task is", "more tasks are")) " not shown. Choose an operation or a cache state." }
            }
            (own)
            @let kernels: Vec<&Kernels> = kernels.iter().filter(|of| shown.contains(&of.task)).collect();
            @if !kernels.is_empty() {
                section id="kernels" {
                    h2 { "By kernel" }
                    p.aside {
                        "Times over those under the version before are of machines that measured both with the same method, size and \
                         storage: other machines do not change them. Above 1 is slower."
                    }
                    @for (at, kernels) in kernels.iter().enumerate() { (by_kernel(at, kernels, &title(&kernels.task, tasks()))) }
                }
            }
            section id="runs" {
                h2 { "Newest runs" }
                (list(index, &runs))
                p { a href=(address("/runs", filter)) { "All runs of this" } }
            }
        }
    }
}

fn task(at: usize, curves: &Curves, title: &str) -> Markup {
    let line = |(look, curve): (usize, &Curve)| RateLine {
        name: curve.method.clone(),
        look: Some(look),
        points: curve
            .points
            .iter()
            .filter_map(|(bytes, spread)| Some((*bytes, rates(*bytes, spread)?)))
            .collect(),
    };
    let lines: Vec<RateLine> = curves
        .methods
        .iter()
        .enumerate()
        .map(line)
        .filter(|line| !line.points.is_empty())
        .collect();
    let look = |method: &str| {
        curves
            .methods
            .iter()
            .position(|curve| curve.method == method)
            .unwrap_or(0)
    };
    let is_winner = |curve: &&Curve| curves.winners.iter().any(|(_, method)| *method == curve.method);
    html! {
        section id={"task-" (at)} {
            h2 { (heading(title)) }
            p.aside { (rests_on(&curves.basis)) "." }
            ul.legend {
                @for (from, method) in &curves.winners {
                    li { (key(&mark(look(method) % LOOKS, 7.0, 7.0, true))) " fastest from " (chosen_size(*from)) ": " span.m { (breaking(method)) } }
                }
                @for plain in curves.methods.iter().filter(|curve| !is_winner(curve)) {
                    li { (key(&mark(look(&plain.method) % LOOKS, 7.0, 7.0, true))) " the simplest: " span.m { (breaking(&plain.method)) } }
                }
            }
            (rate_plot(&format!("plot-{at}"), title, &lines))
            details { summary { "Figures" } (figures(curves, title)) }
        }
    }
}

/// Bytes per second of a file: the slowest, the median and the fastest.
fn rates(bytes: u64, spread: &Spread) -> Option<[f64; 3]> {
    let [low, middle, high] = spread.quartiles.map(|seconds| bytes as f64 / seconds);
    [high, middle, low]
        .iter()
        .all(|rate| rate.is_finite() && *rate > 0.0)
        .then_some([high, middle, low])
}

fn figures(curves: &Curves, title: &str) -> Markup {
    let sizes: BTreeSet<u64> = curves
        .methods
        .iter()
        .flat_map(|curve| curve.points.iter().map(|(bytes, _)| *bytes))
        .collect();
    html! {
        div.scroll { table {
            caption { "Rates by method and size: " (title) }
            thead { tr { th scope="col" { "size" } @for curve in &curves.methods { th scope="col" { span.m { (short(&curve.method)) } } } } }
            tbody {
                @for bytes in &sizes {
                    tr {
                        th scope="row" { (chosen_size(*bytes)) }
                        @for curve in &curves.methods {
                            td { @if let Some((_, spread)) = curve.points.iter().find(|(of, _)| of == bytes) { (told(*bytes, spread)) } }
                        }
                    }
                }
            }
        } }
    }
}

/// A rate with its range and the number of machines, which is said to be small.
fn told(bytes: u64, spread: &Spread) -> Markup {
    let machines = plural(spread.machines as u64, "machine", "machines");
    html! {
        @if let Some([low, middle, high]) = rates(bytes, spread) { (rate(middle)) " (" (rate(low)) " to " (rate(high)) ")" } ", "
        @if spread.machines < FEW { "only " } (machines)
    }
}

fn by_kernel(index: usize, kernels: &Kernels, title: &str) -> Markup {
    let size = chosen_size(kernels.size_bytes);
    let change = |change: Option<Spread>| {
        html! {
            @match change {
                Some(change) => { (times(change.quartiles[1])) ", " @if change.machines < FEW { "only " } (plural(change.machines as u64, "machine", "machines")) },
                None => "no machine measured both",
            }
        }
    };
    html! {
        h3 { (heading(title)) }
        (drawn(index, kernels, title))
        div.scroll { table {
            caption { "By kernel: " (title) }
            thead { tr {
                th scope="col" { "kernel" } th scope="col" { "fastest at " (size) } th scope="col" { "time vs the one before" }
                th scope="col" { "changed most" }
            } }
            tbody {
                @for (at, step) in kernels.steps.iter().enumerate() {
                    tr {
                        th scope="row" { (step.kernel) }
                        td { @if let Some(seconds) = &step.seconds { (told(kernels.size_bytes, seconds)) } }
                        td { @if at > 0 { (change(step.change)) } }
                        td { @if let Some((method, of_method)) = &step.most { span.m { (short(method)) } ": " (change(Some(*of_method))) } }
                    }
                }
            }
        } }
    }
}

/// A range for each version, the oldest first.
fn drawn(index: usize, kernels: &Kernels, title: &str) -> Markup {
    const ROW: f64 = 24.0;
    const WIDTH: f64 = 640.0;
    let rows = |step: &KernelStep| Some((step.kernel.clone(), rates(kernels.size_bytes, step.seconds.as_ref()?)?));
    let rows: Vec<(String, [f64; 3])> = kernels.steps.iter().filter_map(rows).collect();
    let fastest = rows.iter().map(|(_, rates)| rates[2]).fold(0.0, f64::max);
    let (name, size) = unit(fastest, &RATES);
    let label = label_width(rows.iter().map(|(kernel, _)| kernel));
    let scale = Scale::linear(0.0, fastest / size, label, WIDTH - label - 40.0);
    let bottom = ROW * rows.len() as f64 + 6.0;
    let content = html! {
        (axis(&scale, 5, (name, 1.0), 2.0, bottom))
        @for (row, (kernel, [low, middle, high])) in rows.iter().enumerate() {
            @let y = 4.0 + ROW * (row as f64 + 0.5);
            @let place = |rate: &f64| scale.place(rate / size);
            text.label x=(at(label - 12.0)) y=(at(y + 4.0)) text-anchor="end" { (kernel) }
            path.whisker d=(path([(place(low), y), (place(high), y)].into_iter())) {}
            (mark(2, place(middle), y, true))
        }
    };
    let about = "The rate of the fastest method under each kernel: the median and the middle half of the machines. The figures are in the table.";
    let title = format!("Files of {} by kernel: {title}", chosen_size(kernels.size_bytes));
    picture(
        &format!("kernels-{index}"),
        &title,
        about,
        (WIDTH, bottom + 22.0),
        &content,
    )
}

fn compared(standings: &[Standing]) -> Markup {
    let mut tasks: BTreeMap<&Task, Vec<&Standing>> = BTreeMap::new();
    for standing in standings {
        tasks.entry(&standing.task).or_default().push(standing);
    }
    let classes: BTreeSet<(u64, u64)> = standings.iter().map(|of| (of.above_bytes, of.up_to_bytes)).collect();
    let cell = |of: &Standing| {
        html! {
            td class=(if of.machines.min(of.others) < FEW { "few".to_owned() } else { colour(of.faster_than) }) {
                "faster than " (percent(of.faster_than))
                small { "of " (plural(of.others as u64, "machine", "machines")) "; " @if of.machines < FEW { "only " } (of.machines) " with it" }
            }
        }
    };
    html! {
        @if !tasks.is_empty() {
            section id="kind" {
                h2 { "Compared with its kind" }
                div.scroll { table.heat {
                    caption { "The part of the machines with other storages of the same kind that are slower, by task and size of files" }
                    thead { tr { th scope="col" { "files" } @for (above, up_to) in &classes { th scope="col" { (class(*above, *up_to)) } } } }
                    tbody {
                        @for (task, standings) in tasks.iter().take(4 * MOST_TASKS) {
                            tr {
                                th scope="row" { (title(task, tasks.keys().copied())) }
                                @for (above, _) in &classes {
                                    @match standings.iter().find(|of| of.above_bytes == *above) { Some(of) => (cell(of)), None => td.none { "·" } }
                                }
                            }
                        }
                    }
                } }
            }
        }
    }
}

/// The page of runs before one in the order in which they came.
pub fn runs(index: &Index, filter: &Filter, before: Option<i64>) -> Markup {
    let found = index
        .runs_of(filter)
        .filter(|run| before.is_none_or(|before| run.stored.sequence < before));
    let mut runs: Vec<&Known> = found.take(RUNS + 1).collect();
    let next = runs.get(RUNS).map(|_| runs[RUNS - 1].stored.sequence);
    runs.truncate(RUNS);
    html! {
        header { h1 { "Runs" } p { "The newest first. " a href="/compare" { "Compare two runs" } "." } }
        main {
            (form("/runs", index, filter, ""))
            (list(index, &runs))
            @if let Some(next) = next {
                @let path = address("/runs", filter);
                p { a.button href={(path) (if path.contains('?') { "&" } else { "?" }) "before=" (next)} { "Older runs" } }
            }
        }
    }
}
