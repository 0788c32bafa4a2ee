//! The comparison of two runs on a terminal.

use std::io::{self, Write};

use seekless_record::Interval;
use seekless_results::{Availability, Change, Comparison, ContestChange, MethodChange, rate, visible};

use super::page::Page;
use super::runs::short;
use super::table::{TableRow, TextTable};
use super::{DIM, GOOD, PLAIN, WARNING};

/// Shows what changed from one run to another.
pub fn show_comparison(
    page: &mut Page<'_>,
    comparison: &Comparison,
    objections: &[String],
    all: bool,
) -> io::Result<()> {
    for (style, label, texts) in [
        (WARNING, "Differs", objections),
        (PLAIN, "Changed", &comparison.changed),
        (WARNING, "Note", &comparison.cautions),
    ] {
        for text in texts {
            page.labelled(style, label, INDENT, &visible(text))?;
        }
    }
    if !comparison.cautions.is_empty() {
        let advice = "Do not compare absolute times and rates of the two runs. `vs reference` can be compared: it relates a \
                      method to the reference in the same rounds.";
        page.labelled(PLAIN, "", INDENT, advice)?;
    }
    for contest in &comparison.contests {
        writeln!(page)?;
        show_change(page, contest, all)?;
    }
    for (only, which) in [(&comparison.only_first, "first"), (&comparison.only_second, "second")] {
        if !only.is_empty() {
            writeln!(page)?;
            let text = format!("Only in the {which} run: {}", visible(&only.join("; ")));
            page.say(DIM, &text)?;
        }
    }
    Ok(())
}

/// The column of the text after a label.
const INDENT: usize = 9;

fn show_change(page: &mut Page<'_>, contest: &ContestChange, all: bool) -> io::Result<()> {
    let storage = contest
        .storage
        .as_ref()
        .map(|storage| format!(": {}", visible(storage)));
    let title = format!("{}{}", visible(&contest.title), storage.unwrap_or_default());
    let is_shown = |method: &&MethodChange| all || method.change != Change::TooFewRounds;
    let mut shown: Vec<&MethodChange> = contest.methods.iter().filter(is_shown).collect();
    if shown.is_empty() {
        shown = contest.methods.iter().take(FEWEST_ROWS).collect();
    }
    let heads = ["before", "now", "vs reference", "change"];
    let rows = shown.iter().map(|method| changed_row(method));
    TextTable::new(Some(&title), &heads, rows).print(page, &[0, 1, 2])?;
    let hidden = contest.methods.len() - shown.len();
    let mut asides = Vec::new();
    if hidden > 0 {
        asides.push(format!(
            "... {hidden} more, with fewer than 6 rounds (--all shows them)"
        ));
    }
    if let Some(reference) = contest.reference.as_ref().filter(|_| shown.len() > 1) {
        asides.push(format!("the reference is {}", short(reference)));
    }
    asides.extend(told_apart("now measured", &contest.new, "was", all));
    asides.extend(told_apart("no longer measured", &contest.gone, "is", all));
    asides.iter().try_for_each(|aside| page.aside(DIM, aside))?;
    if let Some([before, now]) = &contest.sustained {
        page.say(PLAIN, &format!("Before: {}", visible(before)))?;
        return page.say(PLAIN, &format!("Now: {}", visible(now)));
    }
    for (word, [before, now]) in [("Recommended", &contest.recommended), ("Fastest", &contest.best)] {
        let name = |method: &Option<String>| method.as_deref().map_or("undecided".into(), visible).into_owned();
        let text = if before == now {
            format!("{word}: as before, {}", name(now))
        } else {
            format!("{word}: now {}, before {}", name(now), name(before))
        };
        page.say(PLAIN, &text)?;
    }
    Ok(())
}

/// The number of rows to show if none has enough rounds, and of reasons.
const FEWEST_ROWS: usize = 4;

fn changed_row(method: &MethodChange) -> TableRow {
    let style = match method.change {
        Change::Faster => GOOD,
        Change::Slower => WARNING,
        Change::NoneShown => PLAIN,
        Change::TooFewRounds => DIM,
    };
    TableRow {
        name: short(&method.method),
        cells: vec![
            rate(method.bytes_per_second[0]),
            rate(method.bytes_per_second[1]),
            method.beside_reference.as_ref().map_or_else(String::new, beside),
            change_words(method.change, &method.time),
        ],
        style,
        ..TableRow::default()
    }
}

/// How its time relative to the reference changed.
fn beside(ratio: &Interval) -> String {
    let range = if ratio.coverage.is_some() { "" } else { "~" };
    format!("{range}{:.2}x ({:.2} to {:.2})", ratio.median, ratio.low, ratio.high)
}

fn change_words(change: Change, time: &Interval) -> String {
    let Interval { low, median, high, .. } = time;
    match change {
        Change::Faster => format!("{:.2}x faster ({:.2} to {:.2})", 1.0 / median, 1.0 / high, 1.0 / low),
        Change::Slower => format!("{median:.2}x slower ({low:.2} to {high:.2})"),
        Change::NoneShown => format!("inconclusive ({low:.2} to {high:.2})"),
        Change::TooFewRounds => format!("too few rounds ({low:.2} to {high:.2})"),
    }
}

fn told_apart(what: &str, methods: &[Availability], verb: &str, all: bool) -> Vec<String> {
    let shown = if all { methods.len() } else { FEWEST_ROWS };
    let told = methods.iter().take(shown).map(|one| {
        let why = visible(&one.why).into_owned();
        format!("{what}: {} ({verb} {why})", short(&one.method))
    });
    let mut told: Vec<String> = told.collect();
    if methods.len() > shown {
        told.push(format!("{what}: {} more (--all shows them)", methods.len() - shown));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::super::page::{Width, columns_of};
    use super::*;

    fn interval(low: f64, median: f64, high: f64) -> Interval {
        Interval {
            low,
            median,
            high,
            coverage: Some(0.94),
        }
    }

    #[test]
    fn a_change_is_told_as_a_factor_above_one_with_its_interval() {
        let words = |change, low, median, high| change_words(change, &interval(low, median, high));
        assert_eq!(words(Change::Faster, 0.4, 0.5, 0.8), "2.00x faster (1.25 to 2.50)");
        assert_eq!(words(Change::Slower, 1.1, 1.5, 2.0), "1.50x slower (1.10 to 2.00)");
        assert_eq!(words(Change::NoneShown, 0.9, 1.0, 1.1), "inconclusive (0.90 to 1.10)");
    }

    #[test]
    fn no_line_of_a_comparison_is_wider_than_the_terminal() {
        let run =
            seekless_record::from_json(include_bytes!("../../../record/testdata/full-run.json")).expect("it is one");
        let comparison = seekless_results::compare(&run, &run).expect("it has itself in common");
        for columns in 60..120 {
            let mut out = Vec::new();
            let mut page = Page::new(&mut out, Width::of(columns));
            show_comparison(&mut page, &comparison, &[], true).expect("memory takes it");
            drop(page);
            let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).expect("it is text");
            for line in text.lines() {
                assert!(columns_of(line) <= columns, "{columns}: {line}");
            }
        }
    }
}
