//! The section of an operation: the sizes at a glance, cold beside warm, and each contest with its plots and figures.

use maud::{Markup, html};
use seekless_record::{Conclusion, Contest, Interval};
use seekless_results::{SYSTEM_HEADS, asks_for_system, is_told_in_times, mode_words, pair_words, system_rows};

use super::view::View;
use super::words::{breaking, heading, short_name, shown, sound, speed};
use super::{drift, heatmap, pairs, ranked, tables};

/// An operation with at most so many contests has them all unfolded.
const MOST_UNFOLDED: usize = 4;

/// All of an operation.
pub(super) fn operation(view: &View<'_>, operation: &str) -> Markup {
    let contests: Vec<(usize, &Contest)> = view.contests_of(operation).collect();
    let unfolded = contests.len() <= MOST_UNFOLDED;
    html! {
        section id={"op-" (anchor(operation))} {
            h2 { (heading(operation)) }
            div.beside {
                @for series in series(&contests) {
                    @if let [first, _, ..] = series.as_slice() {
                        div { (heatmap::by_size(&format!("sizes-{first}"), &series_title(view, *first), view, &series)) }
                    }
                }
            }
            (pairs::cold_and_warm(view, operation))
            @if contests.len() > 1 { h3 { "Contest by contest" } }
            @for (position, (index, contest)) in contests.iter().enumerate() {
                details.contest open[unfolded || position == 0] id={"contest-" (index)} {
                    summary { (summary(view, contest)) }
                    (body(view, *index, contest))
                }
            }
        }
    }
}

/// A word that is safe in an address.
pub(super) fn anchor(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).take(40).collect()
}

/// The contests that differ in the file's size alone, by size.
fn series(contests: &[(usize, &Contest)]) -> Vec<Vec<usize>> {
    let mut series: Vec<Vec<(usize, &Contest)>> = Vec::new();
    for &(index, contest) in contests {
        match series.iter_mut().find(|series| is_alike(series[0].1, contest)) {
            Some(series) => series.push((index, contest)),
            None => series.push(vec![(index, contest)]),
        }
    }
    let by_size = |mut series: Vec<(usize, &Contest)>| {
        series.sort_by_key(|(_, contest)| contest.size_bytes);
        series.into_iter().map(|(index, _)| index).collect()
    };
    series.into_iter().map(by_size).collect()
}

fn is_alike(one: &Contest, other: &Contest) -> bool {
    (
        &one.experiment,
        one.storage,
        one.cache,
        one.target,
        &one.kernel,
        &one.durability,
    ) == (
        &other.experiment,
        other.storage,
        other.cache,
        other.target,
        &other.kernel,
        &other.durability,
    ) && (one.work_ns_per_kib, one.shared_blocks) == (other.work_ns_per_kib, other.shared_blocks)
        && pair_words(one) == pair_words(other)
}

/// The title of a series: that of its first contest, without the size.
fn series_title(view: &View<'_>, index: usize) -> String {
    let Some(contest) = view.run.contests.get(index) else {
        return String::new();
    };
    let place = view
        .run
        .storages
        .get(contest.storage)
        .filter(|_| view.run.storages.len() > 1);
    let mut words = vec![shown(&contest.operation), super::words::state(contest).to_owned()];
    words.extend(pair_words(contest).strip_prefix(", ").map(str::to_owned));
    words.extend(place.map(|storage| shown(&storage.path)));
    words.join(", ")
}

fn summary(view: &View<'_>, contest: &Contest) -> Markup {
    let conclusion = contest.conclusion.as_ref();
    let recommended = conclusion.and_then(|conclusion| conclusion.recommended.as_deref());
    html! {
        span.title { (view.title(contest)) }
        span.winner {
            @match recommended {
                Some(method) => { span.m { (breaking(&short_name(method, contest))) } },
                None => { "undecided" },
            }
        }
    }
}

fn body(view: &View<'_>, index: usize, contest: &Contest) -> Markup {
    let title = view.title(contest);
    html! {
        @if let Some(conclusion) = &contest.conclusion { (said(contest, conclusion)) }
        (ranked::ranked(&format!("ranked-{index}"), &title, contest))
        (heatmap::by_block(&format!("blocks-{index}"), &title, contest))
        (drift::drift(&format!("drift-{index}"), &title, view, index, contest))
        details open[contest.entries.len() <= 24] {
            summary { "All figures" }
            (tables::figures(&title, contest))
        }
        (system(view, index, contest, &title))
        @if let Some(conclusion) = &contest.conclusion { (tables::effects(&title, contest, &conclusion.effects)) }
        (tables::left_out(contest))
    }
}

/// What the whole system did beside each entry; unfolded where the experiment is about it.
fn system(view: &View<'_>, index: usize, contest: &Contest, title: &str) -> Markup {
    let rows = system_rows(view.run, index);
    let mut heads = vec!["Method".to_owned()];
    heads.extend(SYSTEM_HEADS.iter().map(|head| format!("#{head}")));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let body = html! {
        @for row in &rows {
            tr {
                td.m {
                    @if let Some(source) = &row.published { (shown(source)) ", " (breaking(&shown(&row.method))) }
                    @else { (breaking(&short_name(&row.method, contest))) }
                }
                @for cell in &row.cells { td.n { (cell) } }
            }
        }
    };
    html! {
        @if !rows.is_empty() {
            details open[asks_for_system(view.run, contest)] {
                summary { "The whole system meanwhile, as vmstat shows it" }
                (tables::table(&format!("The whole system meanwhile: {title}"), &heads, None, &body))
            }
        }
    }
}

fn said(contest: &Contest, conclusion: &Conclusion) -> Markup {
    let confirmed = conclusion
        .confirmed_bytes_per_second
        .filter(|rates| sound(rates.median).is_some());
    let kinds = conclusion
        .best_synchronous
        .as_deref()
        .zip(conclusion.best_overlapping.as_deref());
    html! {
        p.said { (shown(&conclusion.sentence)) }
        p.aside {
            @if let Some(mode) = contest.mode { (heading(&mode_words(mode))) ". " }
            @if let Some((synchronous, overlapping)) = kinds {
                "Best synchronous " span.m { (breaking(&short_name(synchronous, contest))) } ", best overlapping "
                span.m { (breaking(&short_name(overlapping, contest))) } ". "
            }
            @if let Some(rates) = confirmed {
                "Measured again on fresh rounds: " (speed(contest, rates.median)) " (" (range(contest, &rates)) ")."
            }
        }
    }
}

/// The ends of an interval of rates, the smaller figure first: of times that is the faster one.
fn range(contest: &Contest, rates: &Interval) -> String {
    let ends = [rates.low, rates.high].map(|rate| speed(contest, rate));
    let [low, high] = if is_told_in_times(contest) {
        [&ends[1], &ends[0]]
    } else {
        [&ends[0], &ends[1]]
    };
    format!("{low} to {high}")
}
