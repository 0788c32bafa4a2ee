//! Figures for people: three digits, rates in units of 1000, sizes in units of 1024.

use seekless_method::format_size;
use seekless_record::{Interval, Target};

/// A unit: its name and its size.
pub type Unit = (&'static str, f64);

/// Units of bytes per second.
pub const RATES: [Unit; 4] = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0)];
/// Units of requests per second.
const IOPS: [Unit; 3] = [("MIOPS", 1e6), ("kIOPS", 1e3), ("IOPS", 1.0)];
/// Units of durable appends per second.
const COMMITS: [Unit; 1] = [("commits/s", 1.0)];
const SIZES: [Unit; 5] = [
    ("TiB", (1_u64 << 40) as f64),
    ("GiB", (1_u64 << 30) as f64),
    ("MiB", (1_u64 << 20) as f64),
    ("KiB", 1024.0),
    ("B", 1.0),
];

/// The first of some units that is no larger than a figure; else the last.
#[must_use]
pub fn unit(figure: f64, units: &[Unit]) -> Unit {
    let fitting = units.iter().find(|(_, size)| figure >= *size).or(units.last());
    fitting.copied().unwrap_or(("", 1.0))
}

fn in_unit(figure: f64, units: &[Unit]) -> String {
    let (unit, size) = unit(figure, units);
    format!("{} {unit}", three_digits(figure / size))
}

/// Bytes per second, in powers of 1000, three digits.
#[must_use]
pub fn rate(bytes_per_second: f64) -> String {
    if bytes_per_second.abs() < 1e3 {
        return format!("{bytes_per_second:.0} B/s");
    }
    in_unit(bytes_per_second, &RATES)
}

/// The units of requests per second to a target.
#[must_use]
pub fn request_units(target: Target) -> &'static [Unit] {
    if target == Target::Append { &COMMITS } else { &IOPS }
}

/// Requests per second to a target, three digits.
pub(crate) fn requests_in(target: Target, per_second: f64) -> String {
    in_unit(per_second, request_units(target))
}

/// Bytes, in powers of 1024, three digits.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let Some(power) = (1..SIZES.len()).rev().find(|power| bytes >> (10 * power) > 0) else {
        return format!("{bytes} B");
    };
    // As `size` does, in whole numbers: groups of files have many sizes, and digits of an f64 take longer.
    let (unit, _) = SIZES[SIZES.len() - 1 - power];
    let shift = 10 * power as u32;
    let digits = match bytes >> shift {
        100.. => 0,
        10.. => 1,
        _ => 2,
    };
    let ten = 10_u64.pow(digits);
    let (scaled, half) = (u128::from(bytes) * u128::from(ten), 1_u128 << (shift - 1));
    // A half is rounded to an even digit.
    let is_odd = scaled >> shift & 1;
    let rounded = ((scaled + half - 1 + is_odd) >> shift) as u64;
    let (whole, part) = (rounded / ten, rounded % ten);
    match digits {
        _ if whole >= 100_000 => size(bytes as f64),
        0 => format!("{whole} {unit}"),
        digits => format!("{whole}.{part:0width$} {unit}", width = digits as usize),
    }
}

/// A size that was chosen, such as that of a file: a whole number of its unit, as in `64 MiB`.
#[must_use]
pub fn chosen_size(bytes: u64) -> String {
    let text = format_size(bytes);
    match text.strip_suffix(['K', 'M', 'G', 'T']) {
        Some(number) => format!("{number} {}iB", &text[number.len()..]),
        None => self::bytes(bytes),
    }
}

/// The same of a computed size.
#[must_use]
pub fn size(bytes: f64) -> String {
    if bytes.abs() < 1024.0 {
        return format!("{bytes:.0} B");
    }
    in_unit(bytes, &SIZES)
}

/// Seconds, in the unit that suits them.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    match seconds {
        wild if !(0.0..1e6).contains(&wild) => format!("{} s", three_digits(wild)),
        0.0 => "0 s".to_owned(),
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.1} µs", seconds * 1e6),
    }
}

/// A difference of seconds, with its sign.
pub(crate) fn signed(difference: f64) -> String {
    let sign = if difference < 0.0 { "-" } else { "+" };
    format!("{sign}{}", seconds(difference.abs()))
}

/// A duration without insignificant digits.
#[must_use]
pub fn duration(seconds: f64) -> String {
    match seconds {
        seconds if !(seconds.is_finite() && seconds >= 0.0) => "?".to_owned(),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{} h", three_digits(seconds / 3600.0)),
    }
}

/// A ratio, as in `1.25x`.
#[must_use]
pub fn times(ratio: f64) -> String {
    format!("{}x", three_digits(ratio))
}

/// Bounds, as in `1.20 to 1.31`; the range of too few samples is called so.
pub(crate) fn bounds(interval: &Interval, figure: impl Fn(f64) -> String) -> String {
    let range = if interval.coverage.is_some() { "" } else { ", range" };
    format!("{} to {}{range}", figure(interval.low), figure(interval.high))
}

/// A ratio with its interval, as in `1.25x (1.20 to 1.31)`.
#[must_use]
pub fn times_with_bounds(ratio: &Interval) -> String {
    format!("{} ({})", times(ratio.median), bounds(ratio, three_digits))
}

/// Half the width of an interval in per cent of its median; `~` where it is only a range, and `-` for one sample.
pub(crate) fn spread(interval: &Interval) -> String {
    if interval.coverage.is_none() && interval.high <= interval.low {
        return "-".to_owned();
    }
    let sign = if interval.coverage.is_some() { '±' } else { '~' };
    format!("{sign}{}", part((interval.high - interval.low) / 2.0 / interval.median))
}

/// A part of 1, in per cent.
#[must_use]
pub fn part(part: f64) -> String {
    match part * 100.0 {
        percent if !percent.is_finite() => "?".to_owned(),
        percent if percent.abs() >= 100_000.0 => format!("{percent:.0e} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// A bound in per cent, rounded up, and never 0, because it holds with 95 % only.
#[must_use]
pub fn percent(part: f64) -> String {
    // The subtraction keeps a bound of exactly 2 %, which f64 holds a little above, from being called 3 %.
    format!("{:.0} %", (part * 100.0 - 1e-9).ceil().max(1.0))
}

/// From this part of the time on, a method that takes longer takes a multiple.
pub(crate) const DOUBLE: f64 = 1.0;

/// At most how much slower: in per cent, rounded up, or as a ratio from [`DOUBLE`] on.
pub(crate) fn slower(part: f64) -> String {
    if part < DOUBLE {
        format!("{} slower", percent(part))
    } else {
        format!("{:.2}x the time", (part * 100.0).ceil() / 100.0 + 1.0)
    }
}

/// A number with three digits; no wider than 8 characters whatever it is.
#[must_use]
pub fn three_digits(number: f64) -> String {
    match number.abs() {
        size if !size.is_finite() => "?".to_owned(),
        size if size >= 100_000.0 => format!("{number:.1e}"),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A number with commas between thousands, and the singular or plural.
#[must_use]
pub fn plural(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { several })
}

/// A number with commas between thousands.
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A number with commas between thousands, and a word whose plural ends in s, as in `1,000 trials`.
#[must_use]
pub fn counted(number: u64, what: &str) -> String {
    plural(number, what, &format!("{what}s"))
}

/// A number of files.
#[must_use]
pub fn files(number: u64) -> String {
    counted(number, "file")
}

/// A figure that can be drawn and divided by.
#[must_use]
pub fn sound(figure: f64) -> Option<f64> {
    (figure.is_finite() && figure > 0.0).then_some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_whole_numbers_are_those_in_floating_point() {
        let mut random = 1_u64;
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (random >> 11) >> (random % 53);
            for number in [number, (number << 7) & ((1 << 53) - 1), number & !0x3ff] {
                assert_eq!(bytes(number), size(number as f64), "{number}");
            }
        }
    }

    #[test]
    fn units_have_three_digits_and_times_a_suitable_unit() {
        assert_eq!(rate(1.0696e9), "1.07 GB/s");
        assert_eq!(rate(42.42e6), "42.4 MB/s");
        assert_eq!(rate(999.0e3), "999 kB/s");
        assert_eq!(rate(12.0), "12 B/s");
        assert_eq!(bytes(12), "12 B");
        let expected = ["1023 B", "1.00 KiB", "1.50 MiB", "1.00 GiB", "5.00 TiB"];
        assert_eq!([1023, 1024, 1536 << 10, 1 << 30, 5 << 40].map(bytes), expected);
        let expected = ["87.0 IOPS", "9.88 kIOPS", "2.50 MIOPS"];
        let requests = [87.0, 9_876.0, 2.5e6].map(|figure| requests_in(Target::Overwrite, figure));
        assert_eq!(requests, expected);
        let told = |coverage| spread(&Interval::around(1.0, 1.1, coverage));
        assert_eq!([Some(0.97), None].map(told), ["±10 %", "~10 %"]);
        assert_eq!(seconds(4.2e-6), "4.2 µs");
        let expected = ["0 files", "1 file", "999 files", "1,000 files", "12,345,678 files"];
        assert_eq!([0, 1, 999, 1000, 12_345_678].map(files), expected);
        let expected = ["64 MiB", "96 KiB", "512 B", "4.77 MiB", "1 GiB"];
        assert_eq!([64 << 20, 96 << 10, 512, 5_000_000, 1 << 30].map(chosen_size), expected);
        assert_eq!([0.031, 4.466].map(slower), ["4 % slower", "5.47x the time"]);
    }

    #[test]
    fn numbers_keep_to_their_room_whatever_they_are() {
        for wild in [f64::MAX, f64::MIN, f64::NAN, f64::INFINITY, -0.0, f64::MIN_POSITIVE] {
            assert!(rate(wild).len() < 16, "{}", rate(wild));
            let requests = requests_in(Target::Fresh, wild);
            assert!(requests.len() < 16, "{requests}");
            for text in [seconds(wild), times(wild), part(wild), duration(wild)] {
                assert!(text.chars().count() < 16, "{text}");
            }
        }
    }
}
