//! Numbers for people.

/// Bytes per second, in powers of 1000, three digits.
pub fn rate(bytes_per_second: f64) -> String {
    format!("{}/s", bytes(bytes_per_second))
}

/// Bytes, in powers of 1000, three digits.
pub fn bytes(bytes: f64) -> String {
    let (value, unit) = match bytes {
        bytes if bytes >= 1e12 => (bytes / 1e12, "TB"),
        bytes if bytes >= 1e9 => (bytes / 1e9, "GB"),
        bytes if bytes >= 1e6 => (bytes / 1e6, "MB"),
        bytes if bytes >= 1e3 => (bytes / 1e3, "kB"),
        bytes => (bytes, "B"),
    };
    let digits = if value >= 100.0 || unit == "B" {
        0
    } else {
        3 - usize::from(value >= 10.0) - 1
    };
    format!("{value:.digits$} {unit}")
}

/// A bar of up to `width` characters for a part of 0 to 1, in eighths of a character.
pub fn bar(part: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let wanted = part.clamp(0.0, 1.0) * width as f64 * 8.0;
    let eighths = (0..width * 8)
        .take_while(|&eighth| eighth as f64 + 0.5 <= wanted)
        .count();
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Seconds, in the unit that suits them.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.1} µs", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(rate(1.0696e9), "1.07 GB/s");
        assert_eq!(rate(42.42e6), "42.4 MB/s");
        assert_eq!(rate(999.0e3), "999 kB/s");
        assert_eq!(bytes(12.0), "12 B");
        assert_eq!(seconds(4.2e-6), "4.2 µs");
    }

    #[test]
    fn bars_are_drawn_in_eighths() {
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(0.5, 1), "▌");
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(7.0, 2), "██");
    }
}
