//! Numbers, names and verdicts as the report writes them.

use maud::{Markup, html};
use seekless_record::{Cache, Contest, Entry, Interval, Status, Target, Verdict};
use seekless_results::{is_told_in_times, label_of};

use super::view::verdict_of;

/// Longer texts are clipped: the run inside the page has them whole.
const LONGEST_TEXT: usize = 1200;

/// A figure that can be drawn and divided by.
pub(super) fn sound(figure: f64) -> Option<f64> {
    (figure.is_finite() && figure > 0.0).then_some(figure)
}

/// A text of the document: what would be invisible, or turn the line round, is written out.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(LONGEST_TEXT));
    for (index, character) in text.chars().enumerate() {
        match character {
            _ if index >= LONGEST_TEXT => {
                shown.push('…');
                break;
            }
            hidden if hidden.is_control() || is_format(hidden) => shown.extend(hidden.escape_unicode()),
            plain => shown.push(plain),
        }
    }
    shown
}

/// Characters that change how others look: directions, joiners, marks of byte order.
fn is_format(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The beginning of a text that has room for so many characters.
pub(super) fn clipped(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let kept: String = text.chars().take(longest.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// A unit for several rates: its name, and how many bytes per second it is.
pub(super) fn rate_unit(largest: f64) -> (&'static str, f64) {
    match largest {
        rate if rate >= 1e9 => ("GB/s", 1e9),
        rate if rate >= 1e6 => ("MB/s", 1e6),
        rate if rate >= 1e3 => ("kB/s", 1e3),
        _ => ("B/s", 1.0),
    }
}

/// Bytes per second, in powers of 1000, three digits.
pub(super) fn rate(bytes_per_second: f64) -> String {
    let (unit, size) = rate_unit(bytes_per_second);
    format!("{} {unit}", three_digits(bytes_per_second / size))
}

/// Seconds, in the unit that suits them.
pub(super) fn seconds(seconds: f64) -> String {
    let (unit, size) = match seconds.abs() {
        0.0 => return "0 s".to_owned(),
        seconds if seconds >= 1.0 => ("s", 1.0),
        seconds if seconds >= 1e-3 => ("ms", 1e-3),
        _ => ("µs", 1e-6),
    };
    format!("{} {unit}", three_digits(seconds / size))
}

/// How long something took, for people.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        seconds if !(seconds.is_finite() && seconds >= 0.0) => "?".to_owned(),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{} h", three_digits(seconds / 3600.0)),
    }
}

/// A number with three digits; no wider than 8 characters whatever it is.
pub(super) fn three_digits(number: f64) -> String {
    match number.abs() {
        size if !size.is_finite() => "?".to_owned(),
        size if size >= 100_000.0 => format!("{number:.1e}"),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
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
    if interval.coverage.is_some() {
        format!("±{half}")
    } else {
        format!("~{half}")
    }
}

/// A ratio with its interval, as in `1.25x (1.20 to 1.31)`.
pub(super) fn times_with_bounds(ratio: &Interval) -> String {
    let (low, high) = (three_digits(ratio.low), three_digits(ratio.high));
    let range = if ratio.coverage.is_some() { "" } else { ", range" };
    format!("{} ({low} to {high}{range})", times(ratio.median))
}

/// The rate at a number of seconds, or the seconds where a rate over the file's size tells nothing.
pub(super) fn speed(contest: &Contest, bytes_per_second: f64) -> String {
    if is_told_in_times(contest) {
        seconds(contest.size_bytes as f64 * f64::from(contest.files) / bytes_per_second)
    } else {
        rate(bytes_per_second)
    }
}

/// The name under which a method was published, or the method without what the title of its contest says: its operation
/// and its durability.
pub(super) fn short_name(method: &str, contest: &Contest) -> String {
    if let Some(label) = label_of(contest, method) {
        return shown(label);
    }
    without(method, |option| option == contest.durability)
}

/// A method without its block and durability: what it has in common with the same method of another block.
pub(super) fn family(method: &str, contest: &Contest) -> String {
    without(method, |option| {
        option == contest.durability || option.starts_with("block=")
    })
}

/// The block of a method, in bytes.
pub(super) fn block_of(method: &str) -> Option<u64> {
    let block = method.split([',', '/']).find_map(|part| part.strip_prefix("block="))?;
    seekless::method::parse_size(block).ok()
}

/// A method's name, which may be broken behind its commas.
pub(super) fn breaking(name: &str) -> Markup {
    html! { @for part in name.split_inclusive(',') { (part) wbr; } }
}

fn without(method: &str, is_left_out: impl Fn(&str) -> bool) -> String {
    let name = method.split_once('/').map_or(method, |(_, name)| name);
    let mut parts = name.split(',');
    let mechanism = parts.next().unwrap_or_default();
    let options: Vec<&str> = parts.filter(|option| !is_left_out(option)).collect();
    if options.is_empty() {
        shown(mechanism)
    } else {
        shown(&format!("{mechanism} {}", options.join(",")))
    }
}

/// The state that a contest starts from, in words.
pub(super) fn state(contest: &Contest) -> &'static str {
    match (contest.cache, contest.target) {
        (Cache::None, Target::Overwrite) => "written over",
        (cache, _) => cache_words(cache),
    }
}

/// The same of a published figure.
pub(super) fn cache_words(cache: Cache) -> &'static str {
    match cache {
        Cache::Cold => "cold",
        Cache::Warm => "warm",
        Cache::Over => "more than memory",
        Cache::None => "new file",
    }
}

/// An operation as a heading.
pub(super) fn heading(operation: &str) -> String {
    let mut characters = shown(operation).chars().collect::<Vec<char>>().into_iter();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.into_iter().chain(characters.map(String::from)).collect()
}

/// Where an entry stands: its mark, which is a shape and not only a colour, and the word for it.
pub(super) fn standing(entry: &Entry) -> (&'static str, String) {
    if matches!(entry.status, Status::Failed(_)) {
        return ("×", "failed".to_owned());
    }
    match verdict_of(entry) {
        None => ("", String::new()),
        Some(Verdict::Best) => ("◆", "best".to_owned()),
        Some(Verdict::Tie) => ("○", "tie".to_owned()),
        Some(Verdict::Slower) => {
            let ratio = entry
                .standing
                .as_ref()
                .map_or(f64::NAN, |standing| standing.ratio.median);
            ("", times(ratio))
        }
    }
}

/// The class of a verdict, for its colour.
pub(super) fn class(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Best) => "best",
        Some(Verdict::Tie) => "tie",
        Some(Verdict::Slower) | None => "slow",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_invisible_is_written_out() {
        assert_eq!(shown("a\u{1b}[31m\n\u{202e}b"), "a\\u{1b}[31m\\u{a}\\u{202e}b");
        assert_eq!(shown(&"x".repeat(9999)).chars().count(), LONGEST_TEXT + 1);
    }

    #[test]
    fn numbers_keep_to_their_room_whatever_they_are() {
        assert_eq!(rate(1.0696e9), "1.07 GB/s");
        assert_eq!(seconds(0.0042), "4.20 ms");
        assert_eq!(times(1.254), "1.25x");
        for wild in [f64::MAX, f64::MIN, f64::NAN, f64::INFINITY, -0.0, f64::MIN_POSITIVE] {
            for text in [rate(wild), seconds(wild), times(wild), percent(wild), duration(wild)] {
                assert!(text.chars().count() < 16, "{text}");
            }
        }
    }

    #[test]
    fn a_method_is_named_without_what_its_heading_says() {
        let contest = Contest {
            durability: "fsync".to_owned(),
            ..seekless_results::simulation::contest(1 << 20, Vec::new())
        };
        let method = "write/sync,direct,block=4M,fsync";
        assert_eq!(short_name(method, &contest), "sync direct,block=4M");
        assert_eq!(family(method, &contest), "sync direct");
        assert_eq!((block_of(method), block_of("read/mmap")), (Some(4 << 20), None));
    }
}
