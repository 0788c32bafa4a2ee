//! The answers of a run on a terminal: a line for each question, with the method to use at its end, where there is room for it to wrap.

use std::io::{self, Write};

use seekless_results::ContestAnswer;

use super::page::{Page, columns_of};
use super::table::{GAP, aligned, widths_of};
use super::{BOLD, DIM, GOOD, PLAIN};

/// The most columns of a question; a longer one has a line of its own.
const LONGEST_QUESTION: usize = 34;
/// The fewest columns for a method. With fewer, the rate goes, unless there are no tables that have the other figures.
const NARROWEST_METHOD: usize = 20;

/// Shows what was asked and what to use.
pub fn show_answers<'a>(page: &mut Page<'_>, answers: impl Iterator<Item = &'a ContestAnswer>) -> io::Result<()> {
    let answers: Vec<&ContestAnswer> = answers.collect();
    let heads = |answer: &ContestAnswer| answer.figures.iter().map(|(head, _)| *head).collect::<Vec<_>>();
    let is_alike =
        |one: &&ContestAnswer, other: &&ContestAnswer| heads(one) == heads(other) && one.rests_on == other.rests_on;
    for alike in answers.chunk_by(is_alike) {
        let heads = heads(alike[0]);
        let omitted = if heads == ["rate", "vs plain"] { 0..=1 } else { 0..=0 };
        let mut lines = omitted.map(|omitted| lines(alike, omitted));
        match lines.find(|lines| !heads.is_empty() && page.width().columns() >= at_of(lines) + NARROWEST_METHOD) {
            Some(lines) => show_alike(page, alike, &lines)?,
            None => (alike.iter()).try_for_each(|answer| page.say(PLAIN, &answer.sentence()))?,
        }
    }
    Ok(())
}

/// The cells before the methods, without the first figures; the first line has the headings.
fn lines(answers: &[&ContestAnswer], omitted: usize) -> Vec<Vec<String>> {
    let line = |first: &str, figures: Vec<&str>, last: &str| {
        let figures = figures.into_iter().skip(omitted);
        let cells = [first].into_iter().chain(figures).chain([last]);
        cells.map(str::to_owned).collect()
    };
    let heads = answers[0].figures.iter().map(|(head, _)| *head).collect();
    let mut lines = vec![line(&answers[0].rests_on, heads, "how sure")];
    lines.extend(answers.iter().map(|answer| {
        let is_short = columns_of(&answer.question) <= LONGEST_QUESTION;
        let question = if is_short { &answer.question } else { "" };
        let figures = answer.figures.iter().map(|(_, text)| text.as_str()).collect();
        line(question, figures, &answer.certainty)
    }));
    lines
}

/// The column of the methods.
fn at_of(lines: &[Vec<String>]) -> usize {
    widths_of(lines).iter().map(|width| width + GAP).sum()
}

fn show_alike(page: &mut Page<'_>, answers: &[&ContestAnswer], lines: &[Vec<String>]) -> io::Result<()> {
    let widths = widths_of(lines);
    let aligned = |line: &[String]| aligned(line, &widths, |column| column == 0 || column + 1 == widths.len());
    writeln!(page, "{DIM}{}{DIM:#}{BOLD}use{BOLD:#}", aligned(&lines[0]))?;
    for (answer, line) in answers.iter().zip(&lines[1..]) {
        if line[0].is_empty() {
            page.say(PLAIN, &answer.question)?;
        }
        let style = if answer.is_decided { GOOD } else { PLAIN };
        page.indented(style, &aligned(line), at_of(lines), &answer.method)?;
    }
    Ok(())
}
