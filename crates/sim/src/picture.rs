//! A picture of requests as SVG: time from left to right, the address on the disk from bottom to top. A thin line is the way from
//! one request to the next, as a head goes it.

use std::fmt::Write as _;

use crate::request::RequestKind;
use crate::trace::TracedRequest;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
/// Around the plot: left, right, above, below.
const MARGINS: [f64; 4] = [84.0, 16.0, 36.0, 44.0];
/// The largest number of marks along an axis.
const MARKS: u32 = 6;

/// How high a request is drawn at least, in pixels.
const LEAST_MARK: f64 = 4.0;

/// From a range of values to one of pixels.
struct Axis {
    first: f64,
    last: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn at(&self, value: u64) -> f64 {
        self.pixel(value as f64)
    }

    fn pixel(&self, value: f64) -> f64 {
        self.from + (value - self.first) / (self.last - self.first).max(1.0) * (self.to - self.from)
    }

    /// Round values along it.
    fn marks(&self) -> Vec<f64> {
        let step = round_step((self.last - self.first) / f64::from(MARKS));
        let first = (self.first / step).ceil();
        (0..=MARKS + 1)
            .map(|index| (first + f64::from(index)) * step)
            .take_while(|mark| *mark <= self.last)
            .collect()
    }
}

/// The requests that arrived before `until_ns`, drawn; `title` says what they are.
#[must_use]
pub fn picture(requests: &[TracedRequest], title: &str, until_ns: u64) -> String {
    let first_ns = requests.iter().map(|traced| traced.arrived_ns).min().unwrap_or(0);
    let mut shown: Vec<&TracedRequest> = requests
        .iter()
        .filter(|traced| traced.request.length_bytes > 0 && traced.arrived_ns - first_ns < until_ns)
        .collect();
    shown.sort_by_key(|traced| done_ns(traced, first_ns));
    let lowest = shown
        .iter()
        .map(|traced| traced.request.offset_bytes)
        .min()
        .unwrap_or(0);
    let highest = shown.iter().map(|traced| traced.request.end_bytes()).max().unwrap_or(1);
    let last_ns = shown.last().map_or(1, |traced| done_ns(traced, first_ns));
    let [left, right, above, below] = MARGINS;
    let time = Axis {
        first: 0.0,
        last: last_ns as f64,
        from: left,
        to: WIDTH - right,
    };
    let address = Axis {
        first: lowest as f64,
        last: highest as f64,
        from: HEIGHT - below,
        to: above,
    };

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{left}\" y=\"22\" font-size=\"14\" fill=\"#222222\">{}</text>\n",
        escaped(title)
    );
    axes(&mut svg, &time, &address);
    draw(&mut svg, &shown, first_ns, &time, &address);
    svg + "</svg>\n"
}

/// Nanoseconds from the first request until this one was completed.
fn done_ns(traced: &TracedRequest, first_ns: u64) -> u64 {
    traced.completed_ns.unwrap_or(traced.arrived_ns) - first_ns
}

/// Draws the way of the head, and a mark for each request.
fn draw(svg: &mut String, shown: &[&TracedRequest], first_ns: u64, time: &Axis, address: &Axis) {
    let (mut way, mut marks) = (String::new(), [String::new(), String::new(), String::new()]);
    let mut last = String::new();
    for traced in shown {
        let x = time.at(done_ns(traced, first_ns));
        let (low, high) = (
            address.at(traced.request.offset_bytes),
            address.at(traced.request.end_bytes()),
        );
        // Requests that would cover each other are drawn once.
        let mark = format!("{x:.1} {low:.1}V{:.1}", high.min(low - LEAST_MARK));
        if mark != last {
            let _ = write!(way, "{}{x:.1} {low:.1}", if way.is_empty() { "M" } else { "L" });
            let _ = write!(marks[color_of(traced.request.kind)], "M{mark}");
            last = mark;
        }
    }
    let _ = writeln!(
        svg,
        "<path d=\"{way}\" fill=\"none\" stroke=\"#9aa5b1\" stroke-width=\"0.7\"/>"
    );
    for (index, (name, color)) in COLORS.iter().enumerate() {
        if !marks[index].is_empty() {
            let x = time.to - 180.0 + 60.0 * index as f64;
            let _ = write!(
                svg,
                "<path d=\"{}\" stroke=\"{color}\" stroke-width=\"2.4\"/>\n<text x=\"{x}\" y=\"22\" fill=\"{color}\">{name}</text>\n",
                marks[index]
            );
        }
    }
}

const COLORS: [(&str, &str); 3] = [("read", "#1f6fb4"), ("write", "#c8501e"), ("discard", "#6b6b6b")];

fn color_of(kind: RequestKind) -> usize {
    match kind {
        RequestKind::Read => 0,
        RequestKind::Write => 1,
        RequestKind::Flush | RequestKind::Discard => 2,
    }
}

fn axes(svg: &mut String, time: &Axis, address: &Axis) {
    let (bottom, top) = (address.from, address.to);
    for mark in time.marks() {
        let x = time.pixel(mark);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {bottom}V{top}\" stroke=\"#eeeeee\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#444444\">{}</text>",
            bottom + 18.0,
            seconds(mark),
        );
    }
    for mark in address.marks() {
        let y = address.pixel(mark);
        let _ = writeln!(
            svg,
            "<path d=\"M{} {y:.1}H{}\" stroke=\"#eeeeee\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#444444\">{:.0} MB</text>",
            time.from,
            time.to,
            time.from - 6.0,
            y + 4.0,
            mark / 1e6,
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#444444\">time; address from bottom to top</text>",
        time.to,
        bottom + 36.0
    );
}

fn seconds(ns: f64) -> String {
    if ns >= 1e9 || ns == 0.0 {
        format!("{} s", ns / 1e9)
    } else {
        format!("{} ms", ns / 1e6)
    }
}

/// The next of 1, 2, 5, 10, ... that is no less, but at least 1.
fn round_step(least: f64) -> f64 {
    let mut step = 1.0;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
        if step >= least {
            break;
        }
        step *= factor;
    }
    step
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::BlockRequest;

    fn traced(arrived_ns: u64, offset_bytes: u64, kind: RequestKind) -> TracedRequest {
        let request = BlockRequest::new(kind, offset_bytes, 4096);
        TracedRequest {
            arrived_ns,
            completed_ns: Some(arrived_ns + 1_000_000),
            request,
        }
    }

    #[test]
    fn a_picture_has_a_mark_for_each_request_that_can_be_told_apart() {
        let mut requests: Vec<_> = (0..50)
            .map(|index| traced(index * 2_000_000, (index % 2) << 27, RequestKind::Read))
            .collect();
        requests.push(traced(100_000_000, 1 << 26, RequestKind::Write));
        requests.push(requests[50]);
        let drawn = picture(&requests, "two files & <more>", u64::MAX);
        let marks = |color: &str| -> usize {
            let lines = drawn.lines().filter(|line| line.contains(color));
            lines.map(|line| line.matches('M').count()).sum()
        };
        assert_eq!((marks("#1f6fb4"), marks("#c8501e")), (50, 1));
        for text in ["two files &amp; &lt;more&gt;", ">100 MB<", ">40 ms<"] {
            assert!(drawn.contains(text), "{drawn}");
        }
        assert!(!picture(&requests, "", 50_000_000).contains("#c8501e"));
    }

    #[test]
    fn nothing_can_be_drawn_too() {
        assert!(picture(&[], "nothing", u64::MAX).ends_with("</svg>\n"));
    }
}
