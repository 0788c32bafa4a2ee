//! The ranked plot of a contest: bars with intervals, and the verdict as a shape and a word.

use maud::{Markup, html};
use seekless_record::Interval;
use seekless_results::{ContestView, Row};

use super::labels::{clipped, unit_in, verdict_style};
use super::plot::{LONGEST_LABEL, Scale, WIDTH, at, axis, key, label_width, mark, picture};

/// More are in the table.
const MOST_ROWS: usize = 16;
const ROW: f64 = 24.0;
const FIGURES: f64 = 190.0;

/// The fastest of a contest; nothing where nothing was measured.
pub(super) fn ranked(contest: &ContestView<'_>) -> Markup {
    let with_rates = contest.rows.iter().filter_map(|row| Some((row, row.rates()?)));
    let drawn: Vec<(&Row<'_>, Interval)> = with_rates.take(MOST_ROWS).collect();
    if drawn.is_empty() {
        return html! {};
    }
    let rightmost = drawn.iter().map(|(_, rates)| rates.high).fold(0.0, f64::max);
    let fastest = drawn.iter().map(|(_, rates)| rates.median).fold(0.0, f64::max);
    // Limit the axis, so that a single very wide interval does not push the rest to the left.
    let label = label_width(drawn.iter().map(|(row, _)| row.name()));
    let (unit, unit_bytes) = unit_in(contest.contest, fastest);
    let longest = rightmost.min(fastest * 1.6) / unit_bytes;
    let scale = Scale::linear(0.0, longest, label, WIDTH - label - FIGURES);
    let bottom = ROW * drawn.len() as f64 + 6.0;
    let drawing = html! {
        (axis(&scale, 5, (unit, 1.0), 2.0, bottom))
        @for (line, (one, rates)) in drawn.iter().enumerate() {
            (row(contest, one, rates, |rate| scale.place(rate / unit_bytes), 4.0 + ROW * (line as f64 + 0.5)))
        }
    };
    let best = drawn.first().map_or_else(String::new, |(row, rates)| {
        format!("{} leads with {}.", row.name(), contest.speed(rates.median))
    });
    let about = format!(
        "Bars of the rate at the median with intervals, the best first. {best} All figures are in the table below."
    );
    let left_out = contest.rows.len() - drawn.len();
    html! {
        (picture(&format!("ranked-{}", contest.index), &format!("Ranking: {}", contest.title), &about, (WIDTH, bottom + 22.0), &drawing))
        p.legend {
            (key(&mark("best", 7.0, 7.0))) " best or leads " (key(&mark("tie", 7.0, 7.0))) " not shown to be slower "
            (key(&mark("slow", 7.0, 7.0)))
            " slower; lines are 95 % intervals, dashed lines the ranges of fewer than 6 rounds."
            @if left_out > 0 { " " (left_out) " more are in the table." }
        }
    }
}

fn row(contest: &ContestView<'_>, row: &Row<'_>, rates: &Interval, place: impl Fn(f64) -> f64, y: f64) -> Markup {
    let (class, sign) = verdict_style(&row.verdict.verdict);
    let (zero, median) = (place(0.0), place(rates.median));
    let (low, high) = (place(rates.low), place(rates.high));
    html! {
        g {
            title { (row.entry.name()) ": " (contest.speed(rates.low)) " to " (contest.speed(rates.high)) }
            text class={"label " (class)} x=(at(zero - 12.0)) y=(at(y + 4.0)) text-anchor="end" {
                (clipped(&row.name(), LONGEST_LABEL))
            }
            rect class={"bar " (class)} x=(at(zero)) y=(at(y - 7.0)) width=(at(median - zero)) height="14" rx="2" {}
            path.whisker.range[rates.coverage.is_none()] d={"M" (at(low)) " " (at(y)) "H" (at(high))} {}
            (mark(class, median, y))
            text.figure x=(at(WIDTH - FIGURES + 88.0)) y=(at(y + 4.0)) text-anchor="end" { (contest.speed(rates.median)) }
            text class={"figure " (class)} x=(at(WIDTH - FIGURES + 102.0)) y=(at(y + 4.0)) { (sign) " " (row.verdict.word()) }
        }
    }
}
