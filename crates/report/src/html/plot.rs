//! Code that the plots share: a picture with a name, coordinates within it, and axes with round numbers.

use maud::{Markup, html};

use seekless_results::three_digits;

/// The width of a picture, in pixels: that of the page's column.
pub const WIDTH: f64 = 960.0;

/// A picture with a name and a description for screen readers. `id` is unique on the page.
#[must_use]
pub fn picture(id: &str, title: &str, about: &str, size: (f64, f64), content: &Markup) -> Markup {
    let (width, height) = (at(size.0), at(size.1));
    html! {
        figure {
            figcaption { (title) }
            div.scroll {
                svg id=(id) width=(width) height=(height) viewBox={"0 0 " (width) " " (height)} role="img"
                    aria-labelledby={(id) "-t"} aria-describedby={(id) "-d"} {
                    title id={(id) "-t"} { (title) }
                    desc id={(id) "-d"} { (about) }
                    (content)
                }
            }
        }
    }
}

/// A coordinate as text, limited to a range.
#[must_use]
pub fn at(coordinate: f64) -> String {
    let coordinate = if coordinate.is_finite() { coordinate } else { 0.0 };
    let bounded = coordinate.clamp(-1e5, 1e5);
    let text = format!("{bounded:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Pixels that a character of a method's name takes.
const CHARACTER: f64 = 7.3;

/// Longer names are clipped where they are labels.
pub(super) const LONGEST_LABEL: usize = 56;

/// The width of a column of labels.
#[must_use]
pub fn label_width(names: impl IntoIterator<Item = impl AsRef<str>>) -> f64 {
    let lengths = names.into_iter().map(|name| name.as_ref().chars().count());
    lengths.max().unwrap_or(0).clamp(10, LONGEST_LABEL) as f64 * CHARACTER + 14.0
}

/// A scale from figures to pixels.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    from: f64,
    to: f64,
    /// Its first pixel.
    pub start: f64,
    length: f64,
    logarithmic: bool,
}

impl Scale {
    /// A linear scale from `from` to `to`, which are made to differ.
    #[must_use]
    pub fn linear(from: f64, to: f64, start: f64, length: f64) -> Self {
        let from = if from.is_finite() { from } else { 0.0 };
        let to = if to.is_finite() && to > from { to } else { from + 1.0 };
        Self {
            from,
            to,
            start,
            length,
            logarithmic: false,
        }
    }

    /// The same with logarithms; both are finite and positive.
    #[must_use]
    pub fn logarithmic(from: f64, to: f64, start: f64, length: f64) -> Self {
        Self {
            logarithmic: true,
            ..Self::linear(from.log10(), to.log10(), start, length)
        }
    }

    /// The position of a figure, limited to the scale.
    #[must_use]
    pub fn place(&self, figure: f64) -> f64 {
        let figure = if self.logarithmic { figure.log10() } else { figure };
        let part = (figure - self.from) / (self.to - self.from);
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        self.start + part * self.length
    }

    /// Round figures between the ends, about as many as asked for.
    #[must_use]
    pub fn ticks(&self, about: usize) -> Vec<f64> {
        if self.logarithmic {
            return self.decades(about);
        }
        let rough = (self.to - self.from) / about.max(1) as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let Some(step) = step.into_iter().find(|&step| step >= rough * 0.999) else {
            return Vec::new();
        };
        let first = (self.from / step).ceil();
        let ticks = (0..=2 * about).map(|n| (first + n as f64) * step);
        ticks.take_while(|&tick| tick <= self.to * 1.000_001).collect()
    }

    /// Ones, twos and fives; only ones where there are more powers of ten than asked for.
    fn decades(&self, about: usize) -> Vec<f64> {
        let (low, high) = (self.from.floor().max(-30.0) as i32, self.to.ceil().min(30.0) as i32);
        let count = if self.to - self.from > about as f64 { 1 } else { 3 };
        let factors = &[1.0, 2.0, 5.0][..count];
        let ticks = (low..=high).flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
        let inside = |tick: &f64| (self.from..=self.to).contains(&tick.log10());
        ticks.filter(inside).take(24).collect()
    }
}

/// Upright lines of a horizontal axis, with their figures in units of `unit` below.
#[must_use]
pub fn axis(scale: &Scale, about: usize, unit: (&str, f64), top: f64, bottom: f64) -> Markup {
    let ticks = scale.ticks(about);
    let last = ticks.len().saturating_sub(1);
    html! {
        @for (index, tick) in ticks.iter().enumerate() {
            @let x = at(scale.place(*tick));
            line.grid x1=(x) x2=(x) y1=(at(top)) y2=(at(bottom)) {}
            text.tick x=(x) y=(at(bottom + 15.0)) text-anchor="middle" {
                (short(tick / unit.1)) @if index == last { " " (unit.0) }
            }
        }
    }
}

/// Level lines of an upright axis, with their figures on the left.
#[must_use]
pub fn level_lines(scale: &Scale, about: usize, left: f64, right: f64, figure: impl Fn(f64) -> String) -> Markup {
    html! {
        @for tick in scale.ticks(about) {
            @let y = scale.place(tick);
            path.grid d={"M" (at(left)) " " (at(y)) "H" (at(right))} {}
            text.tick x=(at(left - 8.0)) y=(at(y + 4.0)) text-anchor="end" { (figure(tick)) }
        }
    }
}

/// The lines from point to point.
#[must_use]
pub fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let points: Vec<String> = points.map(|(x, y)| format!("{} {}", at(x), at(y))).collect();
    format!("M{}", points.join("L"))
}

/// The text of a tick, without insignificant digits.
#[must_use]
pub fn short(number: f64) -> String {
    let text = three_digits(number);
    if text.contains('e') || !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A mark: a diamond for the best, a ring for a tie, a bar for slower.
pub(super) fn mark(class: &str, x: f64, y: f64) -> Markup {
    html! {
        @match class {
            "best" => { path.best d={"M" (at(x)) " " (at(y - 6.0)) "l6 6-6 6-6-6z"} {} }
            "tie" => { circle.tie cx=(at(x)) cy=(at(y)) r="4.5" {} }
            _ => { rect.slow x=(at(x - 2.0)) y=(at(y - 5.0)) width="4" height="10" {} }
        }
    }
}

/// A mark of a legend, around 7, 7.
#[must_use]
pub fn key(mark: &Markup) -> Markup {
    html! { svg.key width="14" height="14" aria-hidden="true" { (mark) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_lie_inside() {
        let ticks = |to: f64| Scale::linear(0.0, to, 0.0, 100.0).ticks(5);
        assert_eq!(ticks(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(1.3e9).last(), Some(&1.0e9));
        let logarithmic = Scale::logarithmic(90.0, 1100.0, 0.0, 1.0);
        assert_eq!(logarithmic.ticks(5), [100.0, 200.0, 500.0, 1000.0]);
    }

    #[test]
    fn no_figure_leaves_the_picture() {
        let endless = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let wild = [&endless[..], &[f64::MAX, f64::MIN, 0.0, -1.0, 1e-320]].concat();
        for &from in &wild {
            for &to in &wild {
                for new in [Scale::linear, Scale::logarithmic] {
                    let scale = new(from, to, 10.0, 80.0);
                    assert!(scale.ticks(6).len() <= 40);
                    for &figure in &wild {
                        let place = scale.place(figure);
                        assert!((10.0..=90.0).contains(&place), "{scale:?} {figure} {place}");
                        assert!(at(figure).len() < 10);
                    }
                }
            }
        }
    }
}
