//! Cold beside warm: the same methods in two contests that differ in the state of the page cache alone.

use maud::{Markup, html};
use seekless_record::{Cache, Contest};
use seekless_results::pair_words;

use super::plot::{LONGEST_LABEL, Scale, WIDTH, at, axis, label_width, picture};
use super::view::{View, place_of, ranking, rate_of};
use super::words::{clipped, rate, rate_unit, short_name, shown, times};

/// More are in the tables.
const MOST_ROWS: usize = 20;
const ROW: f64 = 24.0;
const FIGURES: f64 = 230.0;

struct Pair<'a> {
    method: &'a str,
    cold: f64,
    warm: f64,
}

/// A plot for each cold contest of the operation that has a warm one beside it.
pub(super) fn cold_and_warm(view: &View<'_>, operation: &str) -> Markup {
    let cold = view
        .contests_of(operation)
        .filter(|(_, contest)| contest.cache == Cache::Cold);
    let found: Vec<(usize, &Contest, Vec<Pair<'_>>)> = cold
        .filter_map(|(index, cold)| {
            let warm = view
                .contests_of(operation)
                .find(|(_, warm)| is_warm_twin(cold, warm))?
                .1;
            let pairs = pairs(cold, warm);
            (!pairs.is_empty()).then_some((index, cold, pairs))
        })
        .collect();
    html! {
        @if !found.is_empty() {
            h3 { "Cold beside warm" }
            @for (index, contest, pairs) in found {
                (draw(&format!("pairs-{index}"), &view.title(contest).replacen(", cold", "", 1), contest, &pairs))
            }
        }
    }
}

fn is_warm_twin(cold: &Contest, other: &Contest) -> bool {
    other.cache == Cache::Warm
        && (
            &cold.experiment,
            cold.storage,
            cold.size_bytes,
            cold.files,
            &cold.kernel,
            &cold.durability,
        ) == (
            &other.experiment,
            other.storage,
            other.size_bytes,
            other.files,
            &other.kernel,
            &other.durability,
        )
        && (cold.target, cold.work_ns_per_kib, cold.shared_blocks)
            == (other.target, other.work_ns_per_kib, other.shared_blocks)
        && pair_words(cold) == pair_words(other)
}

fn pairs<'a>(cold: &'a Contest, warm: &Contest) -> Vec<Pair<'a>> {
    let rows = ranking(cold).into_iter().take(4 * MOST_ROWS);
    let mut pairs: Vec<Pair<'_>> = rows
        .filter_map(|(_, entry, _)| {
            let twin = warm.entries.get(place_of(warm, &entry.method)?)?;
            Some(Pair {
                method: &entry.method,
                cold: rate_of(entry)?,
                warm: rate_of(twin)?,
            })
        })
        .collect();
    pairs.truncate(MOST_ROWS);
    pairs
}

fn draw(id: &str, title: &str, contest: &Contest, pairs: &[Pair<'_>]) -> Markup {
    let rates = || pairs.iter().flat_map(|pair| [pair.cold, pair.warm]);
    let (slowest, fastest) = (rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max));
    let names: Vec<String> = pairs.iter().map(|pair| short_name(pair.method, contest)).collect();
    let label = label_width(names.iter().map(String::as_str));
    let scale = Scale::logarithmic(slowest * 0.85, fastest * 1.15, label, WIDTH - label - FIGURES);
    let bottom = ROW * pairs.len() as f64 + 6.0;
    let drawing = html! {
        (axis(&scale, 5, rate_unit(fastest), 2.0, bottom))
        @for (line, pair) in pairs.iter().enumerate() {
            @let y = 4.0 + ROW * (line as f64 + 0.5);
            @let (cold, warm) = (scale.place(pair.cold), scale.place(pair.warm));
            g {
                title { (shown(pair.method)) ": cold " (rate(pair.cold)) ", warm " (rate(pair.warm)) }
                text.label x=(at(label - 12.0)) y=(at(y + 4.0)) text-anchor="end" {
                    (clipped(&short_name(pair.method, contest), LONGEST_LABEL))
                }
                path.whisker d={"M" (at(cold)) " " (at(y)) "H" (at(warm))} {}
                rect.cold x=(at(cold - 4.5)) y=(at(y - 4.5)) width="9" height="9" {}
                circle.warm cx=(at(warm)) cy=(at(y)) r="5" {}
                text.figure x=(at(WIDTH - 4.0)) y=(at(y + 4.0)) text-anchor="end" {
                    (rate(pair.cold)) " → " (rate(pair.warm)) ", " (times(pair.warm / pair.cold))
                }
            }
        }
    };
    let about = "The rate of each method with the file out of memory and in memory, joined by a line; the scale is \
                 logarithmic.";
    html! {
        (picture(id, &format!("Cold beside warm: {title}"), about, (WIDTH, bottom + 22.0), &drawing))
        p.legend {
            svg.key width="14" height="14" aria-hidden="true" { rect.cold x="2.5" y="2.5" width="9" height="9" {} }
            " cold " svg.key width="14" height="14" aria-hidden="true" { circle.warm cx="7" cy="7" r="5" {} }
            " warm, the same methods; logarithmic scale. In the order of the cold ranking."
        }
    }
}
