//! The comparison of two runs on a terminal.

use std::io::{self, Write};

use seekless_results::{Change, ContestChange, RunComparison};

use super::page::Page;
use super::table::TextTable;
use super::{DIM, GOOD, PLAIN, WARNING};

/// Shows what changed from one run to another.
pub fn show_comparison(
    page: &mut Page<'_>,
    comparison: &RunComparison,
    objections: &[String],
    all: bool,
) -> io::Result<()> {
    for (label, note) in comparison.notes(objections) {
        let is_warning = matches!(label, "Differs" | "Note");
        let style = if is_warning { WARNING } else { PLAIN };
        page.labelled(style, label, INDENT, &note)?;
    }
    for contest in &comparison.contests {
        writeln!(page)?;
        show_change(page, contest, all)?;
    }
    for sentence in comparison.only() {
        writeln!(page)?;
        page.say(DIM, &sentence)?;
    }
    Ok(())
}

/// The column of the text after a label.
const INDENT: usize = 9;

fn show_change(page: &mut Page<'_>, contest: &ContestChange, all: bool) -> io::Result<()> {
    let sheet = contest.sheet(all);
    let mut table = TextTable::of(&sheet);
    for (row, method) in table.rows.iter_mut().zip(contest.shown(all)) {
        row.style = match method.change {
            Change::Faster => GOOD,
            Change::Slower => WARNING,
            Change::NoneShown => PLAIN,
            Change::TooFewRounds => DIM,
        };
    }
    table.print(page, &[0, 1, 2])?;
    for aside in contest.asides(all, " (--all shows them)") {
        page.aside(DIM, &aside)?;
    }
    let sentences = contest.sentences();
    sentences.iter().try_for_each(|sentence| page.say(PLAIN, sentence))
}

#[cfg(test)]
mod tests {
    use super::super::wrap::{Width, columns_of};
    use super::*;

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
