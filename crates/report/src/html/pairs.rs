//! Cold beside warm: the same methods in two contests that differ in the state of the page cache alone.

use maud::{Markup, html};
use seekless_method::Operation;
use seekless_record::{Cache, Contest};
use seekless_results::{ContestView, RATES, Row, View, rate, rate_of, task, times, unit};

use super::labels::clipped;
use super::plot::{LONGEST_LABEL, Scale, WIDTH, at, axis, key, label_width, picture};

/// The most rows; more are in the tables.
const MOST_ROWS: usize = 20;
const ROW: f64 = 24.0;
const FIGURES: f64 = 230.0;

struct Pair<'a> {
    row: &'a Row<'a>,
    cold: f64,
    warm: f64,
}

/// A plot for each cold contest of the operation that has a warm one beside it.
pub(super) fn cold_and_warm(view: &View<'_>, operation: Operation) -> Markup {
    let found = view.contests_of(operation).filter_map(|cold| {
        let mut contests = view.contests_of(operation);
        let warm = contests.find(|warm| are_twins(cold.contest, warm.contest))?;
        Some((cold, pairs(cold, warm))).filter(|(_, pairs)| !pairs.is_empty())
    });
    let mut found = found.peekable();
    html! {
        @if found.peek().is_some() {
            h3 { "Cold and warm" }
            @for (contest, pairs) in found { (draw(contest, &pairs)) }
        }
    }
}

fn are_twins(cold: &Contest, warm: &Contest) -> bool {
    (cold.cache, warm.cache) == (Cache::Cold, Cache::Warm)
        && task(cold) == task(warm)
        && (cold.size_bytes, cold.files) == (warm.size_bytes, warm.files)
}

fn pairs<'a>(cold: &'a ContestView<'a>, warm: &ContestView<'_>) -> Vec<Pair<'a>> {
    let pairs = cold.rows.iter().take(4 * MOST_ROWS).filter_map(|row| {
        Some(Pair {
            row,
            cold: rate_of(row.entry)?,
            warm: rate_of(warm.entry(&row.entry.name())?)?,
        })
    });
    pairs.take(MOST_ROWS).collect()
}

fn draw(contest: &ContestView<'_>, pairs: &[Pair<'_>]) -> Markup {
    let id = format!("pairs-{}", contest.index);
    let title = contest.title.replacen(", cold", "", 1);
    let rates = || pairs.iter().flat_map(|pair| [pair.cold, pair.warm]);
    let (slowest, fastest) = (rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max));
    let label = label_width(pairs.iter().map(|pair| pair.row.name()));
    let scale = Scale::logarithmic(slowest * 0.85, fastest * 1.15, label, WIDTH - label - FIGURES);
    let bottom = ROW * pairs.len() as f64 + 6.0;
    let drawing = html! {
        (axis(&scale, 5, unit(fastest, &RATES), 2.0, bottom))
        @for (line, pair) in pairs.iter().enumerate() {
            @let y = 4.0 + ROW * (line as f64 + 0.5);
            @let (cold, warm) = (scale.place(pair.cold), scale.place(pair.warm));
            g {
                title { (pair.row.entry.name()) ": cold " (rate(pair.cold)) ", warm " (rate(pair.warm)) }
                text.label x=(at(label - 12.0)) y=(at(y + 4.0)) text-anchor="end" {
                    (clipped(&pair.row.name(), LONGEST_LABEL))
                }
                path.whisker d={"M" (at(cold)) " " (at(y)) "H" (at(warm))} {}
                (cold_mark(cold, y)) (warm_mark(warm, y))
                text.figure x=(at(WIDTH - 4.0)) y=(at(y + 4.0)) text-anchor="end" {
                    (rate(pair.cold)) " → " (rate(pair.warm)) ", " (times(pair.warm / pair.cold))
                }
            }
        }
    };
    let about = "The rate of each method with the file out of memory and in memory, joined by a line; the scale is \
                 logarithmic.";
    html! {
        (picture(&id, &format!("Cold and warm: {title}"), about, (WIDTH, bottom + 22.0), &drawing))
        p.legend {
            (key(&cold_mark(7.0, 7.0))) " cold " (key(&warm_mark(7.0, 7.0)))
            " warm, the same methods; logarithmic scale. In the order of the cold ranking."
        }
    }
}

fn cold_mark(x: f64, y: f64) -> Markup {
    html! { rect.cold x=(at(x - 4.5)) y=(at(y - 4.5)) width="9" height="9" {} }
}

fn warm_mark(x: f64, y: f64) -> Markup {
    html! { circle.warm cx=(at(x)) cy=(at(y)) r="5" {} }
}
