//! Numbers, names and verdicts as the report writes them.

use maud::{Markup, html};
use seekless_record::{Contest, Interval};
use seekless_results::{ContestView, IOPS, Position, RATES, Unit, rate_in, three_digits, unit};

/// The start of a text, if it is longer than this many characters.
pub(super) fn clipped(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let kept: String = text.chars().take(longest.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// A unit for several rates of a contest, in bytes per second.
pub(super) fn unit_in(contest: &Contest, largest: f64) -> Unit {
    let Some(random) = contest.random else {
        return unit(largest, &RATES);
    };
    let bytes = random.block_bytes as f64;
    let (name, requests) = unit(largest / bytes, &IOPS);
    (name, requests * bytes)
}

/// Seconds, in the unit that suits them.
pub(super) fn seconds(seconds: f64) -> String {
    in_unit(seconds, three_digits)
}

/// Seconds in the unit that suits them, by this way of writing figures.
pub(super) fn in_unit(seconds: f64, digits: fn(f64) -> String) -> String {
    if seconds.abs() == 0.0 {
        return "0 s".to_owned();
    }
    let (unit, size) = unit(seconds.abs(), &[("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)]);
    format!("{} {unit}", digits(seconds / size))
}

/// A duration as text.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        seconds if !(seconds.is_finite() && seconds >= 0.0) => "?".to_owned(),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{} h", three_digits(seconds / 3600.0)),
    }
}

/// A ratio, as in `1.25x`.
pub(super) fn times(ratio: f64) -> String {
    format!("{}x", three_digits(ratio))
}

/// A part of 1, in per cent.
pub(super) fn percent(part: f64) -> String {
    match part * 100.0 {
        percent if !percent.is_finite() => "?".to_owned(),
        percent if percent.abs() >= 100_000.0 => format!("{percent:.0e} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Half the width of an interval in per cent of its median; `~` where it is only a range.
pub(super) fn spread(interval: &Interval) -> String {
    let half = percent((interval.high - interval.low) / 2.0 / interval.median);
    let sign = if interval.coverage.is_some() { '±' } else { '~' };
    format!("{sign}{half}")
}

/// A ratio with its interval, as in `1.25x (1.20 to 1.31)`.
pub(super) fn times_with_bounds(ratio: &Interval) -> String {
    let (low, high) = (three_digits(ratio.low), three_digits(ratio.high));
    let range = if ratio.coverage.is_some() { "" } else { ", range" };
    format!("{} ({low} to {high}{range})", times(ratio.median))
}

/// The rate, or the seconds if a rate over the file's size would be meaningless.
pub(super) fn speed(view: &ContestView<'_>, bytes_per_second: f64) -> String {
    if view.in_times {
        let contest = view.contest;
        seconds(contest.size_bytes as f64 * f64::from(contest.files) / bytes_per_second)
    } else {
        rate_in(view.contest, bytes_per_second)
    }
}

/// The block of a method, in bytes.
pub(super) fn block_of(method: &str) -> Option<u64> {
    let block = method.split([',', '/']).find_map(|part| part.strip_prefix("block="))?;
    seekless_method::parse_size(block).ok()
}

/// A method's name, which may be wrapped after its commas.
pub(super) fn breaking(name: &str) -> Markup {
    html! { @for part in name.split_inclusive(',') { (part) wbr; } }
}

/// Words as a heading: with a capital letter.
pub(super) fn heading(words: &str) -> String {
    let mut characters = words.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

/// The verdict of an entry: its mark, which is a shape and not only a colour, and its word.
pub(super) fn standing(position: Position) -> (&'static str, String) {
    match position {
        Position::Failed => ("×", "failed".to_owned()),
        Position::Unranked => ("", String::new()),
        Position::Best => ("◆", "best".to_owned()),
        Position::Leading => ("◆", "leads".to_owned()),
        Position::Tie => ("○", "tie".to_owned()),
        Position::Open => ("○", "undecided".to_owned()),
        Position::Slower(ratio) => ("", times(ratio.median)),
    }
}

/// The class of a verdict, for its colour.
pub(super) fn class(position: Position) -> &'static str {
    match position {
        Position::Best | Position::Leading => "best",
        Position::Tie | Position::Open => "tie",
        Position::Slower(_) | Position::Failed | Position::Unranked => "slow",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_to_their_room_whatever_they_are() {
        assert_eq!(seconds(0.0042), "4.20 ms");
        assert_eq!(times(1.254), "1.25x");
        for wild in [f64::MAX, f64::MIN, f64::NAN, f64::INFINITY, -0.0, f64::MIN_POSITIVE] {
            for text in [seconds(wild), times(wild), percent(wild), duration(wild)] {
                assert!(text.chars().count() < 16, "{text}");
            }
        }
    }

    #[test]
    fn a_block_is_read_from_a_method() {
        let method = "write/sync,direct,block=4M,fsync";
        assert_eq!((block_of(method), block_of("read/mmap")), (Some(4 << 20), None));
    }
}
