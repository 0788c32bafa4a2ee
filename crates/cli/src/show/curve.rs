//! A plot in a terminal of how long methods take over the size of a file, each drawn by a letter.

use std::io::{self, Write};

use seekless_engine::Method;
use seekless_engine::method::format_size;
use seekless_engine::plan::SizeTimes;
use seekless_results::{bytes, times};

use super::page::Page;
use super::table::{aligned, widths_of};
use super::units::nearest;
use super::wrap::columns_of;
use super::{BOLD, DIM, PLAIN};

/// The lines of the plot.
const ROWS: usize = 9;
/// The column of the axis.
const AXIS: usize = 13;
/// The most columns of the plot: the line after a label on a terminal of 80 columns.
const COLUMNS: usize = 65;
/// The plot has room for methods that take this many times as long as the simplest one.
const SLOWEST: f64 = 1.5;

/// A plot, a character for each place.
struct Picture {
    /// Ratios that are written beside their lines.
    figures: [(usize, f64); 3],
    lines: Vec<Vec<char>>,
}

/// Shows which method is used from which size on, and the times of these methods over that of the simplest one.
pub fn show_curve(page: &mut Page<'_>, label_at: usize, curve: &[SizeTimes], asked_bytes: u64) -> io::Result<()> {
    let changes: Vec<&SizeTimes> = SizeTimes::changes(curve).collect();
    let mut methods: Vec<Method> = Vec::new();
    for change in &changes {
        if !methods.contains(&change.method) {
            methods.push(change.method);
        }
    }
    let room = page.width().columns().saturating_sub(AXIS + 2).min(COLUMNS);
    let sampled: Vec<&SizeTimes> = curve.iter().step_by(curve.len().div_ceil(room.max(1)).max(1)).collect();
    // Rules choose without times of others.
    let is_compared = curve.iter().any(|size| size.over_plain.len() > 1);
    if is_compared {
        let [first, last] = [curve.first(), curve.last()].map(|size| size.map_or(0, |size| size.bytes));
        let asked = match asked_bytes {
            beyond if beyond > last => format!("{} is larger than any size in the plot", bytes(beyond)),
            below if below < first => format!("{} is smaller than any size in the plot", bytes(below)),
            within => format!("^ is {}", bytes(within)),
        };
        let about = format!("time vs the simplest method, by file size; {asked}");
        page.labelled(BOLD, "Sizes", label_at, &about)?;
        let picture = Picture::of(&sampled, &methods);
        for (at, line) in picture.lines.iter().enumerate() {
            let figure = picture.figures.iter().find(|(line, _)| *line == at);
            let figure = figure.map_or_else(String::new, |(_, ratio)| times(*ratio));
            let line: String = line.iter().collect();
            writeln!(page, "{DIM}{figure:>AXIS$}{DIM:#} │{}", line.trim_end())?;
        }
        let starts: Vec<u64> = changes.iter().map(|change| change.bytes).collect();
        let (ticks, labels) = axis(&sampled, &starts, asked_bytes);
        writeln!(page, "{DIM}{:>AXIS$} └{ticks}{DIM:#}", "")?;
        writeln!(page, "{DIM}{:>AXIS$}  {}{DIM:#}", "", labels.trim_end())?;
    } else {
        page.labelled(BOLD, "Sizes", label_at, "chosen by fixed rules, without measured times")?;
    }
    let line = |change: &&SizeTimes| {
        let place = methods.iter().position(|method| *method == change.method);
        let from = format!("{}  from {}", letter(place.unwrap_or(0)), bytes(change.bytes));
        let ratio = change.of(&change.method).filter(|_| is_compared);
        [Some(from), ratio.map(times)].into_iter().flatten().collect()
    };
    let lines: Vec<Vec<String>> = changes.iter().map(line).collect();
    let widths = widths_of(&lines);
    for (change, line) in changes.iter().zip(&lines) {
        let head = format!("{:label_at$}{}", "", aligned(line, &widths, |column| column == 0));
        page.indented(PLAIN, &head, columns_of(&head), &change.method.to_string())?;
    }
    Ok(())
}

/// The letter of a method.
fn letter(place: usize) -> char {
    ('A'..='Z').nth(place).unwrap_or('?')
}

impl Picture {
    /// The methods that are used at some size: a capital letter where a method is used, and a small one where it is not.
    fn of(sizes: &[&SizeTimes], methods: &[Method]) -> Self {
        let ratios = sizes
            .iter()
            .flat_map(|size| methods.iter().filter_map(|method| size.of(method)));
        let shown = ratios.filter(|ratio| *ratio > 0.0 && *ratio <= SLOWEST);
        let (low, high) = shown.fold((1.0_f64, 1.0_f64), |(low, high), ratio| {
            (low.min(ratio), high.max(ratio))
        });
        let step = (high / low).powf(1.0 / (ROWS - 1) as f64).max(1.01);
        let row = |ratio: f64| nearest((high / ratio).ln() / step.ln(), ROWS - 1);
        let mut lines = vec![vec![' '; sizes.len()]; ROWS];
        lines[row(1.0)].iter_mut().for_each(|place| *place = '·');
        for (column, size) in sizes.iter().enumerate() {
            // The method that is used is drawn last.
            let others = methods.iter().enumerate().filter(|(_, method)| **method != size.method);
            let used = methods.iter().enumerate().filter(|(_, method)| **method == size.method);
            for (place, method) in others.chain(used) {
                let shown = size.of(method).filter(|ratio| (low..=high).contains(ratio));
                let Some(row) = shown.map(row) else { continue };
                let letter = letter(place);
                lines[row][column] = if *method == size.method {
                    letter
                } else {
                    letter.to_ascii_lowercase()
                };
            }
        }
        let figures = [(row(1.0), 1.0), (0, high), (ROWS - 1, low)];
        Self { figures, lines }
    }
}

/// The axis with a tick at each of these sizes, and below it those that have room. The size asked about is marked.
fn axis(sizes: &[&SizeTimes], ticks: &[u64], asked_bytes: u64) -> (String, String) {
    let column = |bytes: u64| {
        sizes
            .partition_point(|size| size.bytes < bytes)
            .min(sizes.len().saturating_sub(1))
    };
    let mut line = vec!['─'; sizes.len()];
    let mut labels = String::new();
    for &bytes in ticks.iter().chain(sizes.last().map(|last| &last.bytes)) {
        let at = column(bytes);
        line[at] = '┴';
        let label = format_size(bytes);
        // The last one ends where the axis does.
        let from = at.min(sizes.len().saturating_sub(label.len()));
        if labels.is_empty() || from > labels.len() {
            labels = format!("{labels:from$}{label}");
        }
    }
    let ends = sizes.first().zip(sizes.last());
    if ends.is_some_and(|(first, last)| (first.bytes..=last.bytes).contains(&asked_bytes)) {
        line[column(asked_bytes)] = '^';
    }
    (line.into_iter().collect(), labels)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seekless_engine::plan::Predicted;

    use super::super::wrap::Width;
    use super::*;

    /// Two methods, the second of which is faster from 1 MiB on.
    fn curve() -> Vec<SizeTimes> {
        let [plain, direct] = ["read/sync,block=1M", "read/sync,direct,block=4M"].map(|text| text.parse().unwrap());
        let at = |power: u32| SizeTimes {
            bytes: 1 << power,
            method: if power < 20 { plain } else { direct },
            predicted: Predicted {
                value: Duration::from_micros(1),
                ..Predicted::default()
            },
            over_plain: vec![(plain, 1.0), (direct, 1.5 * 0.5_f64.powf(f64::from(power - 14) / 10.0))],
        };
        (14..30).map(at).collect()
    }

    fn shown(curve: &[SizeTimes]) -> String {
        let mut out = Vec::new();
        show_curve(&mut Page::new(&mut out, Width::of(80)), 9, curve, 16 << 20).unwrap();
        String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap()
    }

    #[test]
    fn a_curve_shows_where_the_method_changes_and_what_the_others_would_take() {
        let expected = "\
Sizes    time vs the simplest method, by file size; ^ is 16.0 MiB
        1.50x │b
              │ bb
              │   bb
        1.00x │AAAAAABaaaaaaaaa
              │       BB
              │         BB
              │           BB
              │             BB
        0.53x │               B
              └┴─────┴───^────┴
               16K   1M    512M
         A  from 16.0 KiB  1.00x  read/sync,block=1M
         B  from 1.00 MiB  0.99x  read/sync,direct,block=4M
";
        assert_eq!(shown(&curve()), expected);
    }

    #[test]
    fn methods_that_were_not_compared_are_only_listed() {
        let mut curve = curve();
        for size in &mut curve {
            size.over_plain.truncate(1);
        }
        let expected = "\
Sizes    chosen by fixed rules, without measured times
         A  from 16.0 KiB  read/sync,block=1M
         B  from 1.00 MiB  read/sync,direct,block=4M
";
        assert_eq!(shown(&curve), expected);
    }

    #[test]
    fn no_ratio_and_no_width_leaves_the_picture() {
        for ratio in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e-300, 1e300] {
            let mut curve = curve();
            for size in &mut curve {
                size.over_plain[1].1 = ratio;
            }
            for columns in [1, 40, 80, 500] {
                let mut out = Vec::new();
                show_curve(&mut Page::new(&mut out, Width::of(columns)), 9, &curve, 1).unwrap();
            }
        }
    }
}
