//! The comparison as a table that reads well on a terminal and is Markdown at the same time.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use comfy_table::{Table, presets};
use seekless_results::statistics::median;

use crate::peers::fio;
use crate::peers::lab::{Outcome, Verdict};
use crate::peers::statistics::median_interval;
use crate::process::capture;

/// The table of all cases so far.
pub fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "case",
        "fio",
        "seekless",
        "seekless / fio, seconds",
        "fio / fio",
        "pairs",
        "verdict",
    ]);
    for outcome in outcomes {
        let rate = |seconds: &[f64]| {
            median(seconds).map_or_else(
                || "-".to_owned(),
                |s| format!("{:.2} GB/s", outcome.bytes as f64 / s / 1e9),
            )
        };
        table.add_row([
            outcome.case.name().to_owned(),
            rate(&outcome.samples.fio),
            rate(&outcome.samples.ours),
            outcome.ours_to_fio(),
            in_words(&outcome.samples.fio_to_fio()),
            outcome.samples.fio.len().to_string(),
            match outcome.verdict {
                Verdict::Agrees => "agrees",
                Verdict::Differs => "**differs**",
                Verdict::Inconclusive => "inconclusive",
            }
            .to_owned(),
        ]);
    }
    table
}

/// What was compared, where: a sentence above the table.
pub fn preface(directory: &Path, size_bytes: u64, seed: u64) -> Result<String> {
    let kernel = capture(Command::new("uname").args(["-s", "-r"]))?;
    let file_system = capture(
        Command::new("findmnt")
            .args(["-n", "-o", "FSTYPE", "-T"])
            .arg(directory),
    )?;
    Ok(format!(
        "{} and seekless in alternation on {}, {}; {} MiB (four times that where warm), seed {seed}. Ratios of seconds \
         are paired by round: median and 95 % interval. fio first has to agree with itself within 3 %; then seekless \
         agrees with fio where the interval lies within 5 %.",
        fio::version()?,
        kernel.trim(),
        // Mounts may lie on top of each other; the last one is what is seen.
        file_system.lines().last().unwrap_or("unknown"),
        size_bytes >> 20,
    ))
}

/// Writes the comparison as Markdown.
pub fn write_markdown(path: &Path, preface: &str, outcomes: &[Outcome]) -> Result<()> {
    let text = format!("{preface}\n\n{}\n", table(outcomes));
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The median of ratios with its interval.
pub fn in_words(ratios: &[f64]) -> String {
    match (median(ratios), median_interval(ratios)) {
        (Some(median), Some(interval)) => format!("{median:.3} ({:.3} to {:.3})", interval.low, interval.high),
        (Some(median), None) => format!("{median:.3} (too few pairs)"),
        (None, _) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_carry_an_interval_once_there_are_six() {
        assert_eq!(in_words(&[]), "-");
        assert_eq!(in_words(&[1.0; 5]), "1.000 (too few pairs)");
        assert_eq!(in_words(&[0.99, 1.0, 1.0, 1.0, 1.0, 1.02]), "1.000 (0.990 to 1.020)");
    }
}
