//! Rates over time: the reference and the best of a contest, to see whether the machine stayed the same.

use maud::{Markup, html};
use seekless_record::{Entry, EntryVerdict, Trial};
use seekless_results::{ContestView, View, duration, short_name, sound};

use super::labels::{clipped, unit_in};
use super::plot::{Scale, WIDTH, at, axis, level_lines, path, picture, short};

/// The most points of a line; more would not be visible.
const MOST_POINTS: usize = 300;
const MOST_RESUMED: usize = 50;
const LEFT: f64 = 56.0;
const TOP: f64 = 14.0;
const HEIGHT: f64 = 130.0;

struct Series {
    class: &'static str,
    name: String,
    /// The time, the rate, and whether the trial is valid.
    points: Vec<(f64, f64, bool)>,
}

/// The plot of a contest; empty with fewer than three trials of a method.
pub(super) fn drift(view: &View<'_>, contest: &ContestView<'_>) -> Markup {
    let series = series(contest);
    let points = || series.iter().flat_map(|series| &series.points);
    if points().count() < 3 {
        return html! {};
    }
    let times = || points().map(|(at, ..)| *at);
    let (start, end) = (times().fold(f64::MAX, f64::min), times().fold(f64::MIN, f64::max));
    let fastest = points().map(|(_, rate, _)| *rate).fold(0.0, f64::max);
    let (unit, unit_bytes) = unit_in(contest.contest, fastest);
    let across = Scale::linear(start, end, LEFT, WIDTH - LEFT - 20.0);
    let up = Scale::linear(0.0, fastest * 1.05 / unit_bytes, TOP + HEIGHT, -HEIGHT);
    let resumed = view.run.resumed_at_seconds.iter().copied();
    let resumed = resumed.filter(|at| (start..=end).contains(at));
    let resumed: Vec<f64> = resumed.take(MOST_RESUMED).collect();
    let drawing = html! {
        (level_lines(&up, 4, LEFT, WIDTH - 20.0, short))
        (axis(&across, 8, ("s", 1.0), TOP, TOP + HEIGHT))
        @for at_seconds in &resumed {
            @let x = across.place(*at_seconds);
            path.resumed d={"M" (at(x)) " " (at(TOP)) "V" (at(TOP + HEIGHT))} {}
            text.tick x=(at(x + 4.0)) y=(at(TOP + 8.0)) { "resumed" }
        }
        @for series in &series { (line(series, |at, rate| (across.place(at), up.place(rate / unit_bytes)))) }
    };
    let time = duration(end - start);
    let about =
        format!("Rates of single trials over {time} of the run. A level line means that the machine stayed the same.");
    html! {
        (picture(&format!("drift-{}", contest.index), &format!("Over time: {}", contest.title), &about, (WIDTH, TOP + HEIGHT + 24.0), &drawing))
        p.legend {
            (unit) " over seconds of the run: "
            @for series in &series {
                svg.key width="22" height="14" aria-hidden="true" {
                    path class={"line " (series.class)} d="M1 7H21" {} (point(series.class, 11.0, 7.0))
                }
                " " (series.name) "; "
            }
            "× invalid." @if !resumed.is_empty() { " Dashed: the run was resumed." }
        }
    }
}

fn series(contest: &ContestView<'_>) -> Vec<Series> {
    let entries = &contest.contest.entries;
    let is_reference = |entry: &Entry| entry.verdict.is_measured() && entry.command().is_none();
    let reference = entries.iter().position(is_reference);
    let is_best = |entry: &Entry| matches!(entry.verdict, EntryVerdict::Best(_));
    let best = entries.iter().position(is_best);
    let make = |class, word: &str, entry: Option<usize>| {
        let name = short_name(&entries[entry?].name(), contest.contest);
        Some(Series {
            class,
            name: format!("{word} ({})", clipped(&name, 60)),
            points: points(contest.trials(entry?)),
        })
    };
    let series = if reference == best {
        [make("winner", "reference and best", best), None]
    } else {
        [make("reference", "reference", reference), make("winner", "best", best)]
    };
    series.into_iter().flatten().collect()
}

fn points(trials: &[&Trial]) -> Vec<(f64, f64, bool)> {
    let point = |trial: &&Trial| {
        let rate = sound(trial.bytes as f64 / sound(trial.seconds)?)?;
        let at = Some(trial.at_seconds).filter(|at| at.is_finite())?;
        Some((at, rate, trial.valid))
    };
    let mut points: Vec<(f64, f64, bool)> = trials.iter().filter_map(point).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    points.into_iter().step_by(step).collect()
}

fn line(series: &Series, place: impl Fn(f64, f64) -> (f64, f64)) -> Markup {
    let valid = series.points.iter().filter(|(_, _, valid)| *valid);
    let valid = valid.map(|(at, rate, _)| place(*at, *rate));
    html! {
        @if valid.clone().next().is_some() { path class={"line " (series.class)} d=(path(valid)) {} }
        @for (at_seconds, rate, valid) in &series.points {
            @let (x, y) = place(*at_seconds, *rate);
            @if *valid { (point(series.class, x, y)) }
            @else { path.invalid d={"M" (at(x - 4.0)) " " (at(y - 4.0)) "l8 8m0-8l-8 8"} {} }
        }
    }
}

fn point(class: &str, x: f64, y: f64) -> Markup {
    html! {
        @if class == "winner" { path.winner d={"M" (at(x)) " " (at(y - 4.5)) "l4.5 4.5-4.5 4.5-4.5-4.5z"} {} }
        @else { circle.reference cx=(at(x)) cy=(at(y)) r="3" {} }
    }
}
