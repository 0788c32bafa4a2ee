//! A profile as a page: for each operation, cache state and durability, how fast each method is over the size of a file.

use std::collections::BTreeSet;

use maud::{Markup, html};
use seekless_method::Operation;
use seekless_record::{Conditions, Curve, CurvePoint, Profile};
use seekless_results::{ColumnKind, Sheet, SheetCell, SheetColumn, SheetRow, document_size, seconds, sound};

use super::columns::mark;
use super::curves::{RateLine, rate_plot};
use super::labels::{breaking, heading};
use super::page::{Frame, framed};
use super::plot::key;
use super::tables::folded;

/// The curves under the same conditions, and the methods to use: each with the size from which on, ascending.
#[derive(Clone, Debug)]
pub struct ProfilePlot {
    /// What is measured, in words.
    pub title: String,
    /// The conditions.
    pub conditions: Conditions,
    /// The methods to use.
    pub used: Vec<(u64, String)>,
}

/// The page of a profile: facts about it, each with its name, and the plots.
#[must_use]
pub fn profile_to_html(profile: &Profile, facts: &[(&str, String)], plots: &[ProfilePlot]) -> String {
    let body = html! {
        header {
            p.brand { "seekless" span { "profile" } }
            @for (name, fact) in facts { p.facts { (name) ": " (fact) } }
            nav aria-label="Parts of this page" {
                @for (index, plot) in plots.iter().enumerate() { a href={"#plot-" (index)} { (heading(&plot.title)) } }
            }
        }
        main {
            p.aside {
                "Bytes per second of a file by its size, set-up included; both axes are logarithmic. Bands are the 95 % bounds for the \
                 next sitting. Colored lines are methods to use at some size; the others are gray, and hover over a line for its name."
            }
            @for (index, plot) in plots.iter().enumerate() { (section(profile, index, plot)) }
        }
    };
    framed("profile", &body, Frame::Alone).into_string()
}

/// A method's line: its place among the methods to use, if it is one.
struct MethodLine<'a> {
    look: Option<usize>,
    curve: &'a Curve,
}

impl MethodLine<'_> {
    fn rates(&self) -> RateLine {
        RateLine {
            name: self.curve.method.clone(),
            look: self.look,
            points: points(self.curve).collect(),
        }
    }
}

fn section(profile: &Profile, index: usize, plot: &ProfilePlot) -> Markup {
    let mut used: Vec<&str> = Vec::new();
    for (_, method) in &plot.used {
        if !used.contains(&method.as_str()) {
            used.push(method);
        }
    }
    let curves = profile
        .curves
        .iter()
        .filter(|curve| curve.conditions == plot.conditions);
    let lines = curves.map(|curve| MethodLine {
        look: used.iter().position(|method| *method == curve.method),
        curve,
    });
    let mut lines: Vec<MethodLine<'_>> = lines.collect();
    // The methods to use are drawn last, above the others.
    lines.sort_by_key(|line| std::cmp::Reverse(line.look.map_or(usize::MAX, |look| look)));
    html! {
        section id={"plot-" (index)} {
            h2 { (heading(&plot.title)) }
            ul.legend {
                @for (from, method) in &plot.used {
                    @let look = used.iter().position(|known| known == method).unwrap_or(0);
                    li { (key(&mark(look, 7.0, 7.0, true))) " from " (document_size(*from)) ": " span.m { (breaking(method)) } }
                }
            }
            (rate_plot(&format!("profile-{index}"), &plot.title, &lines.iter().map(MethodLine::rates).collect::<Vec<_>>()))
            (folded(&sheet(&lines), false))
        }
    }
}

/// The times of scans are shown for as many files.
const FILES_OF_SCAN: f64 = 1000.0;

/// Bytes per second at a point, of so many files together: the slowest, the most likely, and the fastest.
fn rates(point: &CurvePoint, files: f64) -> Option<[f64; 3]> {
    let setup_seconds = point.setup_seconds / files;
    let rate = |seconds: f64| sound(point.bytes as f64 / (seconds + setup_seconds)).filter(|rate| *rate > 0.0);
    let times = point.seconds;
    Some([rate(times.high)?, rate(times.median)?, rate(times.low)?])
}

fn points(curve: &Curve) -> impl Iterator<Item = (u64, [f64; 3])> {
    // The files of a scan share its set-up.
    let is_scan = curve.conditions.operation == Operation::Scan;
    let files = if is_scan { FILES_OF_SCAN } else { 1.0 };
    let points = curve.points.iter();
    points.filter_map(move |point| Some((point.bytes, rates(point, files)?)))
}

/// The times with their bounds, a row for each method, those to use first.
fn sheet(lines: &[MethodLine<'_>]) -> Sheet {
    let sizes: BTreeSet<u64> = lines
        .iter()
        .flat_map(|line| &line.curve.points)
        .map(|point| point.bytes)
        .collect();
    let column = |head: String, kind| SheetColumn { head, kind };
    let heads = sizes
        .iter()
        .map(|bytes| column(document_size(*bytes), ColumnKind::Figure));
    let row = |line: &MethodLine<'_>| {
        let name = SheetCell {
            text: line.curve.method.clone(),
            figure: f64::NAN,
            kind: ColumnKind::Method,
        };
        let cells = sizes.iter().map(|bytes| {
            let point = line.curve.points.iter().find(|point| point.bytes == *bytes);
            let figure = point.map_or(f64::NAN, |point| point.seconds.median);
            let text = point.map_or_else(String::new, |point| {
                let [low, high] = [point.seconds.low, point.seconds.high].map(seconds);
                format!("{} ({low} to {high})", seconds(figure))
            });
            SheetCell {
                text,
                figure,
                kind: ColumnKind::Figure,
            }
        });
        SheetRow {
            cells: [name].into_iter().chain(cells).collect(),
            remarks: Vec::new(),
            verdict: None,
        }
    };
    Sheet {
        title: "Times with bounds".to_owned(),
        columns: [column("method".to_owned(), ColumnKind::Method)]
            .into_iter()
            .chain(heads)
            .collect(),
        rows: lines.iter().rev().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use seekless_record::{Interval, ProfileHead};

    use super::*;

    fn curve(method: &str, seconds: f64) -> Curve {
        let point = |bytes: u64| CurvePoint {
            bytes,
            seconds: Interval::around(seconds, 2.0, Some(0.95)),
            ..CurvePoint::default()
        };
        Curve {
            method: method.to_owned(),
            points: [1 << 14, 1 << 20, 1 << 26].map(point).to_vec(),
            ..Curve::default()
        }
    }

    fn page(curves: Vec<Curve>) -> String {
        let head = ProfileHead::default();
        let plot = ProfilePlot {
            title: "read, cold".to_owned(),
            conditions: Conditions::default(),
            used: vec![(1 << 14, "read/mmap".to_owned())],
        };
        let facts = [("Storage", "<b>ext4".to_owned())];
        profile_to_html(&Profile { head, curves }, &facts, &[plot])
    }

    #[test]
    fn the_methods_to_use_have_bands_and_the_others_are_named_lines() {
        let page = page(vec![curve("read/sync", 0.2), curve("read/mmap", 0.1)]);
        let lines = ["class=\"band", "class=\"other"].map(|class| page.matches(class).count());
        assert_eq!(lines, [1, 1], "{page}");
        for text in ["<title>read/sync</title>", "100.0 ms (50.0 ms to 200.0 ms)"] {
            assert!(page.contains(text), "{page}");
        }
    }

    #[test]
    fn texts_are_escaped_and_impossible_times_are_not_drawn() {
        let wild = [("<script>x", f64::NAN), ("read/mmap", 0.0), ("read/sync", 1e-320)];
        let wild = page(wild.map(|(method, seconds)| curve(method, seconds)).to_vec());
        for text in ["<script>x", "<b>ext4", "NaN", "inf"] {
            assert!(!wild.contains(text), "{wild}");
        }
        assert!(page(Vec::new()).contains("No method has plausible times"));
    }
}
