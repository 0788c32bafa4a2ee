//! Bars, times and numbers of a terminal's tables.

pub use seekless_results::{counted, files, plural, seconds, thousands};

/// A bar of up to `width` characters for a part of 0 to 1, in eighths of a character.
pub fn bar(part: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let wanted = part * (width * 8) as f64;
    // A part greater than 0 is always visible.
    let eighths = nearest(wanted, width * 8).max(usize::from(wanted > 0.0));
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// A part in per cent: 100 % only if nothing is missing, and 0 % only if it is nothing.
pub fn percent((part, of): (u64, u64)) -> String {
    match format!("{:.0} %", part as f64 / of as f64 * 100.0) {
        text if text == "100 %" && part < of => "99 %".to_owned(),
        text if text == "0 %" && part > 0 => "1 %".to_owned(),
        text => text,
    }
}

/// The nearest whole number, at most `most`.
pub fn nearest(figure: f64, most: usize) -> usize {
    (0..most).take_while(|&number| number as f64 + 0.5 <= figure).count()
}

/// Files, directories, or both.
pub fn subjects(files: u64, directories: u64) -> String {
    let directories_told = plural(directories, "directory", "directories");
    match (files, directories) {
        (_, 0) => self::files(files),
        (0, _) => directories_told,
        _ => format!("{directories_told} and {}", self::files(files)),
    }
}

/// A comma, a number, and what it counts; nothing if that is 0.
pub fn and_also(number: u64, what: &str) -> String {
    match number {
        0 => String::new(),
        _ => format!(", {number} {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_drawn_in_eighths() {
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(0.5, 1), "▌");
        assert_eq!(bar(0.5, 16), "████████");
        assert_eq!(bar(0.5, 7), "███▌");
        assert_eq!(
            (bar(0.01, 10).as_str(), bar(0.0001, 10).as_str(), bar(0.0, 10).as_str()),
            ("▏", "▏", "")
        );
        assert_eq!(bar(0.99, 10), "█████████▉");
        assert_eq!(bar(7.0, 2), "██");
    }
}
