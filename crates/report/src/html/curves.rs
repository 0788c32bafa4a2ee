//! Bytes per second by the size of a file: a line for each method, with a band around those that matter.

use std::collections::BTreeSet;

use maud::{Markup, html};
use seekless_results::{RATES, document_size, unit};

use super::columns::{LOOKS, mark};
use super::labels::heading;
use super::plot::{Scale, WIDTH, at, level_lines, path, picture, short};

const HEIGHT: f64 = 340.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 30.0;
/// The width of a size below the axis.
const LABEL: f64 = 40.0;

/// The rates of a method.
#[derive(Clone, Debug)]
pub struct RateLine {
    /// Its name.
    pub name: String,
    /// Its colour and shape; without one it is gray and has no band.
    pub look: Option<usize>,
    /// By ascending size of a file in bytes: the lowest, the most likely, and the highest bytes per second.
    pub points: Vec<(u64, [f64; 3])>,
}

/// The plot of lines, in the order in which they are drawn; `id` is unique on the page. Rates are positive and finite.
#[must_use]
pub fn rate_plot(id: &str, title: &str, lines: &[RateLine]) -> Markup {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let sizes: BTreeSet<u64> = all().map(|(bytes, _)| bytes).collect();
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else {
        return html! { p { "No method has plausible times." } };
    };
    let slowest = all().map(|(_, rates)| rates[1]).fold(f64::MAX, f64::min);
    let fastest = all().map(|(_, rates)| rates[1]).fold(0.0, f64::max);
    let across = Scale::logarithmic(*first as f64 * 0.8, *last as f64 * 1.25, LEFT, WIDTH - LEFT - RIGHT);
    // Upwards.
    let up = Scale::logarithmic(slowest * 0.8, fastest * 1.3, HEIGHT - BOTTOM, TOP + BOTTOM - HEIGHT);
    let place = |bytes: u64, rate: f64| (across.place(bytes as f64), up.place(rate));
    let mut labelled: Vec<u64> = Vec::new();
    for &bytes in &sizes {
        let before = labelled.last().map_or(0.0, |&before| across.place(before as f64));
        if across.place(bytes as f64) - before >= LABEL {
            labelled.push(bytes);
        }
    }
    let drawing = html! {
        (level_lines(&up, 3, LEFT - 4.0, WIDTH - RIGHT + 4.0, rate))
        @for &bytes in &sizes {
            @let x = at(across.place(bytes as f64));
            path.grid d={"M" (x) " " (at(TOP)) "V" (at(HEIGHT - BOTTOM))} {}
        }
        @for bytes in labelled {
            @let x = at(across.place(bytes as f64));
            text.tick x=(x) y=(at(HEIGHT - BOTTOM + 17.0)) text-anchor="middle" { (document_size(bytes)) }
        }
        @for line in lines {
            @let found = line.points.iter().copied();
            @let middle = path(found.clone().map(|(bytes, rates)| place(bytes, rates[1])));
            @if let Some(look) = line.look {
                @let above = found.clone().map(|(bytes, rates)| place(bytes, rates[2]));
                @let below = found.clone().rev().map(|(bytes, rates)| place(bytes, rates[0]));
                path class={"band s" (look % LOOKS)} d={(path(above.chain(below))) "Z"} {}
                path class={"column s" (look % LOOKS)} d=(middle) {}
                @for (bytes, rates) in found {
                    @let (x, y) = place(bytes, rates[1]);
                    g { title { (line.name) ", " (document_size(bytes)) ": " (rate(rates[1])) } (mark(look, x, y, true)) }
                }
            } @else if found.clone().next().is_some() {
                path.other d=(middle) { title { (line.name) } }
            }
        }
    };
    let title = format!("{}: bytes per second", heading(title));
    let about = "The bytes per second of each method by the size of a file; both axes are logarithmic.";
    picture(id, &title, about, (WIDTH, HEIGHT), &drawing)
}

/// A rate without insignificant digits.
fn rate(bytes_per_second: f64) -> String {
    let (name, size) = unit(bytes_per_second, &RATES);
    format!("{} {name}", short(bytes_per_second / size))
}
