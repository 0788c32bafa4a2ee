//! Figures for people: three digits, in units of 1000.

/// Bytes per second, in powers of 1000, three digits.
#[must_use]
pub fn rate(bytes_per_second: f64) -> String {
    format!("{}/s", scaled(bytes_per_second))
}

/// Requests per second, three digits.
#[must_use]
pub fn iops(per_second: f64) -> String {
    match per_second {
        many if many >= 1e6 => format!("{} MIOPS", three_digits(many / 1e6)),
        many if many >= 1e3 => format!("{} kIOPS", three_digits(many / 1e3)),
        few => format!("{} IOPS", three_digits(few)),
    }
}

/// Bytes, in powers of 1000, three digits.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64)
}

/// Bytes of a file or a part of it, in powers of 1024, three digits.
#[must_use]
pub fn binary_bytes(bytes: f64) -> String {
    let mib = bytes / f64::from(1 << 20);
    if mib >= 1024.0 {
        format!("{} GiB", three_digits(mib / 1024.0))
    } else {
        format!("{} MiB", three_digits(mib))
    }
}

/// A bound in per cent: never less than it is, and never 0, for it is one of 95 %.
#[must_use]
pub fn percent(part: f64) -> String {
    // The subtraction keeps a bound of exactly 2 %, which f64 holds a little above, from being called 3 %.
    format!("{:.0} %", (part * 100.0 - 1e-9).ceil().max(1.0))
}

fn scaled(bytes: f64) -> String {
    let (value, unit) = match bytes {
        bytes if bytes >= 1e12 => (bytes / 1e12, "TB"),
        bytes if bytes >= 1e9 => (bytes / 1e9, "GB"),
        bytes if bytes >= 1e6 => (bytes / 1e6, "MB"),
        bytes if bytes >= 1e3 => (bytes / 1e3, "kB"),
        bytes if bytes.abs() < 1e3 => return format!("{bytes:.0} B"),
        bytes => (bytes, "B"),
    };
    format!("{} {unit}", three_digits(value))
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

/// A figure that can be drawn and divided by.
#[must_use]
pub fn sound(figure: f64) -> Option<f64> {
    (figure.is_finite() && figure > 0.0).then_some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(rate(1.0696e9), "1.07 GB/s");
        assert_eq!(rate(42.42e6), "42.4 MB/s");
        assert_eq!(rate(999.0e3), "999 kB/s");
        assert_eq!(bytes(12), "12 B");
        assert_eq!(
            [iops(87.0), iops(9_876.0), iops(2.5e6)],
            ["87.0 IOPS", "9.88 kIOPS", "2.50 MIOPS"]
        );
    }

    #[test]
    fn numbers_keep_to_their_room_whatever_they_are() {
        for wild in [f64::MAX, f64::MIN, f64::NAN, f64::INFINITY, -0.0, f64::MIN_POSITIVE] {
            assert!(rate(wild).len() < 16, "{}", rate(wild));
            assert!(iops(wild).len() < 16, "{}", iops(wild));
        }
    }
}
