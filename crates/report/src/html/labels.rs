//! Units, names and verdicts as the report writes them.

use maud::{Markup, html};
use seekless_record::{Contest, EntryVerdict};
use seekless_results::{RATES, Unit, request_units, unit};

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
    let (name, requests) = unit(largest / bytes, request_units(contest.target));
    (name, requests * bytes)
}

/// The block of a method, in bytes.
pub(super) fn block_of(method: &str) -> Option<u64> {
    let block = method.split([',', '/']).find_map(|part| part.strip_prefix("block="))?;
    seekless_method::parse_size(block).ok()
}

/// A method's name, which may be wrapped after its commas.
#[must_use]
pub fn breaking(name: &str) -> Markup {
    html! { @for part in name.split_inclusive(',') { (part) wbr; } }
}

/// Words as a heading: with a capital letter.
#[must_use]
pub fn heading(words: &str) -> String {
    let mut characters = words.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

/// The class of a verdict, for its colour, and its sign, which is a shape.
pub(super) fn verdict_style(verdict: &EntryVerdict) -> (&'static str, &'static str) {
    match verdict {
        EntryVerdict::Best(_) => ("best", "◆"),
        EntryVerdict::Tie(_) => ("tie", "○"),
        EntryVerdict::Failed { .. } => ("slow", "×"),
        _ => ("slow", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_from_a_method() {
        let method = "write/sync,direct,block=4M,fsync";
        assert_eq!((block_of(method), block_of("read/mmap")), (Some(4 << 20), None));
    }
}
