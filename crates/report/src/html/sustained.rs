//! The rate of a sustained write over what was written.

use maud::{Markup, html};
use seekless_results::{ContestView, RATES, unit};

use super::plot::{Scale, WIDTH, axis, level_lines, path, picture, short};

/// The most points of a line; more would not be visible.
const MOST_POINTS: usize = 300;
const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 50.0;
const TOP: f64 = 14.0;
const HEIGHT: f64 = 200.0;

/// The plot of a contest; empty if it is not a sustained write.
pub(super) fn sustained(contest: &ContestView<'_>) -> Markup {
    let Some(sustained) = &contest.sustained else {
        return html! {};
    };
    let points = sustained.stretches(MOST_POINTS);
    let fastest = points.iter().map(|point| point.bytes_per_second).fold(0.0, f64::max);
    let (unit, unit_bytes) = unit(fastest, &RATES);
    let written = points.last().map_or(0.0, |point| point.to_bytes);
    let across = Scale::linear(0.0, written / GIB, LEFT, RIGHT - LEFT);
    let up = Scale::linear(0.0, fastest * 1.05 / unit_bytes, TOP + HEIGHT, -HEIGHT);
    // A step for each stretch, at its mean rate.
    let steps = points.iter().flat_map(|point| {
        let y = up.place(point.bytes_per_second / unit_bytes);
        [point.from_bytes, point.to_bytes].map(|bytes| (across.place(bytes / GIB), y))
    });
    let drawing = html! {
        (level_lines(&up, 4, LEFT, RIGHT, short))
        (axis(&across, 8, ("GiB", 1.0), TOP, TOP + HEIGHT))
        path.line.winner d=(path(steps)) {}
    };
    let title = format!("Rate over what was written: {}", contest.title);
    let about = format!("The rate in {unit} of files written one after the other, over the bytes written before.");
    html! {
        (picture(&format!("sustained-{}", contest.index), &title, &about, (WIDTH, TOP + HEIGHT + 24.0), &drawing))
        p.legend { (unit) " over GiB written. Each step is the mean rate of its part." }
    }
}

const GIB: f64 = (1 << 30) as f64;
