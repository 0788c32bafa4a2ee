//! Latencies of random requests: percentiles of each method, on a logarithmic scale.

use maud::{Markup, html};
use seekless_record::Latency;
use seekless_results::{ContestView, Row, seconds, sound, unit};

use super::labels::{clipped, verdict_style};
use super::plot::{LONGEST_LABEL, Scale, WIDTH, at, axis, key, label_width, picture};

/// More are in the table.
const MOST_ROWS: usize = 16;
const ROW: f64 = 26.0;
/// Right of the longest latency.
const MARGIN: f64 = 30.0;

/// The percentiles of a contest's methods, the best first; empty if requests were not timed.
pub(super) fn latency(contest: &ContestView<'_>) -> Markup {
    let is_sound = |latency: &Latency| latency.percentiles().iter().all(|&(_, ns)| sound(ns as f64).is_some());
    let timed = contest.rows.iter().filter_map(|row| Some((row, row.summary.latency?)));
    let drawn: Vec<(&Row<'_>, Latency)> = timed.filter(|(_, latency)| is_sound(latency)).take(MOST_ROWS).collect();
    let figures = || drawn.iter().flat_map(|(_, latency)| latency.percentiles());
    let (Some(shortest), Some(longest)) = (figures().map(|(_, ns)| ns).min(), figures().map(|(_, ns)| ns).max()) else {
        return html! {};
    };
    let label = label_width(drawn.iter().map(|(row, _)| row.name()));
    let length = WIDTH - label - MARGIN;
    let scale = Scale::logarithmic(shortest as f64 * 0.8, longest as f64 * 1.1, label, length);
    let bottom = ROW * drawn.len() as f64 + 6.0;
    let unit = unit(longest as f64, &[("s", 1e9), ("ms", 1e6), ("µs", 1e3)]);
    let drawing = html! {
        (axis(&scale, 5, unit, 2.0, bottom))
        @for (line, (row, latency)) in drawn.iter().enumerate() {
            (percentiles(row, latency, &scale, 4.0 + ROW * (line as f64 + 0.5)))
        }
    };
    let title = format!("Latency of requests: {}", contest.title);
    let about = "A line for each method from the median of its requests' latencies to the longest, on a scale of powers of \
                 ten. All figures are in the table below.";
    html! {
        (picture(&format!("latency-{}", contest.index), &title, about, (WIDTH, bottom + 22.0), &drawing))
        p.legend {
            @for (which, name) in ["p50, half of the requests are faster", "p90", "p99", "p99.9"].iter().enumerate() {
                (key(&mark(which, 7.0, 7.0))) " " (name) " "
            }
            (key(&mark(4, 7.0, 7.0))) " the longest of all rounds; the others are medians over the rounds."
        }
    }
}

fn percentiles(row: &Row<'_>, latency: &Latency, scale: &Scale, y: f64) -> Markup {
    let (class, _) = verdict_style(&row.verdict.verdict);
    let percentiles = latency.percentiles();
    let told = percentiles.map(|(name, ns)| format!("{name} {}", seconds(ns as f64 / 1e9)));
    let places = percentiles.map(|(_, ns)| scale.place(ns as f64));
    html! {
        g {
            title { (row.entry.name()) ": " (told.join(", ")) }
            text class={"label " (class)} x=(at(scale.start - 12.0)) y=(at(y + 4.0)) text-anchor="end" {
                (clipped(&row.name(), LONGEST_LABEL))
            }
            path.whisker d={"M" (at(places[0])) " " (at(y)) "H" (at(places[4]))} {}
            @for (which, x) in places.iter().enumerate() { (mark(which, *x, y)) }
        }
    }
}

/// A mark for each percentile by its shape: a diamond for the median, bars that become shorter, a ring for the longest.
fn mark(which: usize, x: f64, y: f64) -> Markup {
    html! {
        @match which {
            0 => { path.best d={"M" (at(x)) " " (at(y - 7.0)) "l7 7-7 7-7-7z"} {} }
            4 => { circle.tie cx=(at(x)) cy=(at(y)) r="4" {} }
            _ => {
                @let height = 18.0 - 4.0 * which as f64;
                rect.slow x=(at(x - 1.5)) y=(at(y - height / 2.0)) width="3" height=(at(height)) {}
            }
        }
    }
}
