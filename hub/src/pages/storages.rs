//! A kind of storage, a model of a device, and runs.

use std::collections::BTreeSet;

use maud::{Markup, html};
use seekless_report::parts::{
    LOOKS, RateLine, Scale, at, axis, breaking, heading, key, label_width, mark, path, picture, rate_plot,
};
use seekless_results::{DeviceKind, RATES, chosen_size, percent, plural, rate, times, unit};

use super::{FEW, address, colour, encoded, form, heat, kind_words, list, nothing, rests_on, revisions, short, title};
use crate::api::Part;
use crate::figure::Word;
use crate::index::{Filter, Index, Known};
use crate::trends::{Asked, Curve, Curves, KernelStep, Kernels, Spread, Standing, curves, kernels, standings};

/// Tasks on a page; it stays below 200 kB.
const MOST_TASKS: usize = 8;
const MOST_MODELS: usize = 200;

/// The page of a kind of storage.
pub fn kind(index: &Index, kind: DeviceKind, filter: &Filter) -> Markup {
    let filter = filter.with(Word::Kind, Some(kind.slug()));
    let models = index
        .places_of(&filter)
        .into_iter()
        .map(|place| place[Word::Model].as_str());
    let models: BTreeSet<&str> = models.filter(|model| !model.is_empty()).collect();
    let own = html! {
        @if !models.is_empty() {
            section id="models" {
                h2 { "Models" }
                ul.models { @for model in models.iter().take(MOST_MODELS) { li { a href={"/devices/" (encoded(model))} { (model) } } } }
                @if models.len() > MOST_MODELS { p { (models.len() - MOST_MODELS) " more are not shown." } }
            }
        }
    };
    let path = format!("/kinds/{}", kind.slug());
    page(
        index,
        &filter,
        &heading(&kind_words(kind.slug())),
        (&path, Word::Kind),
        &own,
    )
}

/// The page of a model of a device.
pub fn device(index: &Index, model: &str, filter: &Filter) -> Markup {
    let filter = filter.with(Word::Model, Some(model));
    let own = compared(&standings(index, model, &filter));
    page(
        index,
        &filter,
        model,
        (&format!("/devices/{}", encoded(model)), Word::Model),
        &own,
    )
}

/// What both have, with what only one has between.
fn page(index: &Index, filter: &Filter, name: &str, (path, fixed): (&str, Word), own: &Markup) -> Markup {
    let asked = Asked::of(index, filter);
    let (curves, more) = curves(&asked, MOST_TASKS);
    let title = |of: &Curves<'_>| title(of.task, curves.iter().map(|curves| curves.task));
    let kernels = curves
        .iter()
        .filter_map(|of| Some((title(of), kernels(&asked, &of.task)?)));
    let kernels: Vec<(String, Kernels<'_>)> = kernels.collect();
    let runs: Vec<&Known> = index.runs_of(filter).take(20).collect();
    html! {
        header {
            h1 { (name) }
            p { "Medians over machines; bands and ranges are the middle half of the machines." }
        }
        main {
            (form(path, index, filter, Some(fixed)))
            @if curves.is_empty() { (nothing(index, filter)) }
            @for (at, curves) in curves.iter().enumerate() { (task(at, curves, &title(curves))) }
            @if more > 0 { p.warnings { (plural(more as u64, "more task is", "more tasks are")) " not shown. Choose an operation or a cache state." } }
            (own)
            @if !kernels.is_empty() {
                section id="kernels" {
                    h2 { "By kernel" }
                    p.aside {
                        "Times over those under the version before are of machines that measured both with the same method, size and \
                         storage: other machines do not change them. Above 1 is slower."
                    }
                    @for (at, (title, kernels)) in kernels.iter().enumerate() { (by_kernel(at, kernels, title)) }
                }
            }
            @if !runs.is_empty() {
                section id="runs" {
                    h2 { "Newest runs" }
                    (list(index, &runs))
                    p { a href=(address("/runs", filter)) { "All runs of this" } }
                }
            }
        }
    }
}

fn task(at: usize, curves: &Curves<'_>, title: &str) -> Markup {
    let line = |(look, curve): (usize, &Curve<'_>)| RateLine {
        name: curve.method.to_owned(),
        look: Some(look),
        points: (curve.points.iter())
            .filter_map(|(bytes, spread)| Some((*bytes, rates(*bytes, spread)?)))
            .collect(),
    };
    let lines = curves.methods.iter().enumerate().map(line);
    let lines: Vec<RateLine> = lines.filter(|line| !line.points.is_empty()).collect();
    let names: Vec<&str> = curves.methods.iter().map(|curve| curve.method).collect();
    let won = |(from, method): &(u64, _)| (format!("fastest from {}", chosen_size(*from)), *method);
    let mut legend: Vec<(String, &str)> = curves.winners.iter().map(won).collect();
    // The simplest method is the last, if it does not win anywhere.
    let is_winner = |name: &&str| curves.winners.iter().any(|(_, method)| method == name);
    let simplest = names.last().filter(|name| !is_winner(name));
    legend.extend(simplest.map(|name| ("the simplest".to_owned(), *name)));
    html! {
        section id={"task-" (at)} {
            h2 { (heading(title)) }
            p.aside { (summed_up(curves)) }
            ul.legend {
                @for (what, method) in &legend {
                    @let look = names.iter().position(|name| name == method).unwrap_or(0);
                    li { (key(&mark(look % LOOKS, 7.0, 7.0, true))) " " (what) ": " span.m { (breaking(method)) } }
                }
            }
            (rate_plot(&format!("plot-{at}"), title, &lines))
            details { summary { "Figures" } (figures(curves, title)) }
        }
    }
}

/// What a task rests on, in a sentence.
fn summed_up(curves: &Curves<'_>) -> String {
    let basis = &curves.basis;
    let few = if basis.machines < FEW {
        "; fewer than three machines are no trend"
    } else {
        ""
    };
    let runs = plural(basis.runs as u64, "run", "runs");
    format!("{}, {runs}, {}{few}.", rests_on(basis), revisions(basis))
}

/// Bytes per second of a file: the slowest, the median and the fastest.
fn rates(bytes: u64, spread: &Spread) -> Option<[f64; 3]> {
    let [low, middle, high] = spread.quartiles.map(|seconds| bytes as f64 / seconds);
    [high, middle, low]
        .iter()
        .all(|rate| rate.is_finite() && *rate > 0.0)
        .then_some([high, middle, low])
}

fn figures(curves: &Curves<'_>, title: &str) -> Markup {
    let sizes: BTreeSet<u64> = curves
        .methods
        .iter()
        .flat_map(|curve| curve.points.keys().copied())
        .collect();
    let caption = format!("Rates by method and size: {title}; {}", revisions(&curves.basis));
    let heads = curves
        .methods
        .iter()
        .map(|curve| html! { span.m { (short(curve.method)) } });
    let heads = std::iter::once(html! { "size" }).chain(heads);
    let row = |bytes: &u64| {
        let cell =
            |curve: &Curve<'_>| html! { @if let Some(spread) = curve.points.get(bytes) { (told(*bytes, spread)) } };
        (chosen_size(*bytes), curves.methods.iter().map(cell).collect())
    };
    table(&caption, heads.collect(), sizes.iter().map(row))
}

fn table(caption: &str, heads: Vec<Markup>, rows: impl Iterator<Item = (String, Vec<Markup>)>) -> Markup {
    html! {
        div.scroll { table {
            caption { (caption) }
            thead { tr { @for head in heads { th scope="col" { (head) } } } }
            tbody { @for (name, cells) in rows { tr { th scope="row" { (name) } @for cell in cells { td { (cell) } } } } }
        } }
    }
}

/// A rate with its range and what it rests on.
fn told(bytes: u64, spread: &Spread) -> Markup {
    html! {
        @if let Some([low, middle, high]) = rates(bytes, spread) { (rate(middle)) " (" (rate(low)) " to " (rate(high)) "), " }
        (rests_on(&spread.basis))
    }
}

fn by_kernel(index: usize, kernels: &Kernels<'_>, title: &str) -> Markup {
    let heads = [
        "kernel",
        &format!("fastest at {}", chosen_size(kernels.size_bytes)),
        "time vs the one before",
        "changed most",
    ];
    let heads = heads.map(|head| html! { (head) });
    let change = |of: &Spread| html! { (times(of.quartiles[1])) ", " (rests_on(&of.basis)) };
    let row = |(at, step): (usize, &KernelStep<'_>)| {
        let seconds = html! { @if let Some(seconds) = &step.seconds { (told(kernels.size_bytes, seconds)) } };
        let changed = html! {
            @match &step.change { Some(of) => (change(of)), None if at > 0 => "no machine measured both", None => "" }
        };
        let most = html! { @if let Some((method, of)) = &step.most { span.m { (short(method)) } ": " (change(of)) } };
        (step.kernel.to_owned(), vec![seconds, changed, most])
    };
    let basis = kernels
        .steps
        .iter()
        .find_map(|step| Some(&step.seconds.as_ref()?.basis));
    let caption = format!("By kernel: {title}; {}", basis.map(revisions).unwrap_or_default());
    html! {
        h3 { (heading(title)) }
        (drawn(index, kernels, title))
        (table(&caption, heads.into(), kernels.steps.iter().enumerate().map(row)))
    }
}

/// A range for each version, the oldest first.
fn drawn(index: usize, kernels: &Kernels<'_>, title: &str) -> Markup {
    const ROW: f64 = 24.0;
    const WIDTH: f64 = 640.0;
    let rows = |step: &KernelStep<'_>| {
        Some((
            step.kernel.to_owned(),
            rates(kernels.size_bytes, step.seconds.as_ref()?)?,
        ))
    };
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

fn compared(standings: &[Standing<'_>]) -> Markup {
    let cell = |of: &Standing<'_>| {
        let is_few = of.basis.machines.min(of.others.machines) < FEW;
        html! {
            td class=(if is_few { "few".to_owned() } else { colour(of.faster_than) }) {
                "faster than " (percent(of.faster_than))
                small { "of " (rests_on(&of.others)) }
                small { "with it: " (rests_on(&of.basis)) }
            }
        }
    };
    let caption =
        "The part of the machines with other storages of the same kind that are slower, by task and size of files";
    html! {
        @if let Some(first) = standings.first() {
            section id="kind" {
                h2 { "Compared with its kind" }
                (heat(&format!("{caption}; {}", revisions(&first.basis)), standings, 4 * MOST_TASKS, |of| of.class, cell))
            }
        }
    }
}

/// A part of the list of runs.
pub fn runs(index: &Index, filter: &Filter, part: Part) -> Markup {
    let (runs, next) = part.of(index.runs_of(filter));
    html! {
        header { h1 { "Runs" } p { "The newest first. " a href="/compare" { "Compare two runs" } "." } }
        main {
            (form("/runs", index, filter, None))
            @if runs.is_empty() { (nothing(index, filter)) } @else { (list(index, &runs)) }
            @if let Some(next) = next {
                @let path = address("/runs", filter);
                p { a.button href={(path) (if path.contains('?') { "&" } else { "?" }) "before=" (next)} { "Older runs" } }
            }
        }
    }
}
