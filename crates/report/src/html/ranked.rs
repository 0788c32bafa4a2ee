//! The ranked plot of a contest: bars with intervals, and the verdict as a shape and a word.

use maud::{Markup, html};
use seekless_record::{Contest, Entry, Interval, Summary};

use super::plot::{LONGEST_LABEL, Scale, WIDTH, at, axis, label_width, mark, picture};
use super::view::{ranking, rates_of, verdict_of};
use super::words::{class, clipped, rate_unit, short_name, speed, standing};

/// More are in the table.
const MOST_ROWS: usize = 16;
const ROW: f64 = 24.0;
const FIGURES: f64 = 175.0;

/// The fastest of a contest; nothing where nothing was measured.
pub(super) fn ranked(id: &str, title: &str, contest: &Contest) -> Markup {
    let ranked = ranking(contest);
    let drawn: Vec<(&Entry, &Summary, Interval)> = ranked
        .iter()
        .filter_map(|(_, entry, summary)| Some((*entry, *summary, rates_of(summary)?)))
        .take(MOST_ROWS)
        .collect();
    if drawn.is_empty() {
        return html! {};
    }
    let rightmost = drawn.iter().map(|(_, _, rates)| rates.high).fold(0.0, f64::max);
    let fastest = drawn.iter().map(|(_, _, rates)| rates.median).fold(0.0, f64::max);
    // A single wild interval must not push all else to the left.
    let names: Vec<String> = drawn
        .iter()
        .map(|(entry, ..)| short_name(&entry.method, contest))
        .collect();
    let label = label_width(names.iter().map(String::as_str));
    let scale = Scale::linear(0.0, rightmost.min(fastest * 1.6), label, WIDTH - label - FIGURES);
    let bottom = ROW * drawn.len() as f64 + 6.0;
    let drawing = html! {
        (axis(&scale, 5, rate_unit(fastest), 2.0, bottom))
        @for (line, (entry, _, rates)) in drawn.iter().enumerate() {
            (row(contest, entry, rates, &scale, 4.0 + ROW * (line as f64 + 0.5)))
        }
    };
    let best = drawn.first().map_or_else(String::new, |(entry, _, rates)| {
        format!(
            "{} leads with {}.",
            short_name(&entry.method, contest),
            speed(contest, rates.median)
        )
    });
    let about = format!(
        "Bars of the rate at the median with intervals, the best first. {best} All figures are in the table below."
    );
    let left_out = ranked.len() - drawn.len();
    html! {
        (picture(id, &format!("Ranking: {title}"), &about, (WIDTH, bottom + 22.0), &drawing))
        p.legend {
            (key("best")) " best " (key("tie")) " tie " (key("slow"))
            " slower; lines are 95 % intervals, dashed where fewer than 6 rounds give only a range."
            @if left_out > 0 { " " (left_out) " more are in the table." }
        }
    }
}

fn row(contest: &Contest, entry: &Entry, rates: &Interval, scale: &Scale, y: f64) -> Markup {
    let class = class(verdict_of(entry));
    let (sign, word) = standing(entry);
    let label = scale.start();
    let (zero, median) = (scale.place(0.0), scale.place(rates.median));
    let (low, high) = (scale.place(rates.low), scale.place(rates.high));
    let range = if rates.coverage.is_some() {
        "whisker"
    } else {
        "whisker range"
    };
    html! {
        g {
            title { (super::words::shown(&entry.method)) ": " (speed(contest, rates.low)) " to " (speed(contest, rates.high)) }
            text class={"label " (class)} x=(at(label - 12.0)) y=(at(y + 4.0)) text-anchor="end" {
                (clipped(&short_name(&entry.method, contest), LONGEST_LABEL))
            }
            rect class={"bar " (class)} x=(at(zero)) y=(at(y - 7.0)) width=(at(median - zero)) height="14" rx="2" {}
            path class=(range) d={"M" (at(low)) " " (at(y)) "H" (at(high))} {}
            (mark(class, median, y))
            text.figure x=(at(WIDTH - FIGURES + 88.0)) y=(at(y + 4.0)) text-anchor="end" { (speed(contest, rates.median)) }
            text class={"figure " (class)} x=(at(WIDTH - FIGURES + 102.0)) y=(at(y + 4.0)) { (sign) " " (word) }
        }
    }
}

/// A mark for a legend.
fn key(class: &str) -> Markup {
    html! { svg.key width="14" height="14" aria-hidden="true" { (mark(class, 7.0, 7.0)) } }
}
