//! The answers of a run on a terminal: a line for each question, with the method to use at its end, where there is room for it to wrap.

use std::io::{self, Write};

use seekless_results::ContestAnswer;

use super::page::{Page, columns_of};
use super::{BOLD, DIM, GOOD, PLAIN};

/// The most columns of a question; a longer one has a line of its own.
const LONGEST_QUESTION: usize = 34;
/// The fewest columns for a method. With fewer, the rate goes, unless there are no tables that have the other figures.
const NARROWEST_METHOD: usize = 20;
/// Between columns.
const GAP: usize = 2;

/// Shows what was asked and what to use.
pub fn show_answers(page: &mut Page<'_>, answers: &[ContestAnswer]) -> io::Result<()> {
    let heads = |answer: &ContestAnswer| answer.figures.iter().map(|(head, _)| *head).collect::<Vec<_>>();
    let is_alike =
        |one: &ContestAnswer, other: &ContestAnswer| heads(one) == heads(other) && one.rests_on == other.rests_on;
    for alike in answers.chunk_by(is_alike) {
        let heads = heads(&alike[0]);
        let mut cells = lines(alike, 0);
        if heads == ["rate", "vs plain"] && !has_room(page, &cells) {
            cells = lines(alike, 1);
        }
        if !heads.is_empty() && has_room(page, &cells) {
            show_alike(page, alike, &cells)?;
        } else {
            alike
                .iter()
                .try_for_each(|answer| page.say(PLAIN, &answer.sentence()))?;
        }
    }
    Ok(())
}

/// The cells before the methods, without the first figures; the first line has the headings.
fn lines(answers: &[ContestAnswer], omitted: usize) -> Vec<Vec<&str>> {
    let heads = answers[0].figures.iter().skip(omitted).map(|(head, _)| *head);
    let header = [answers[0].rests_on.as_str()]
        .into_iter()
        .chain(heads)
        .chain(["how sure"]);
    let mut all: Vec<Vec<&str>> = vec![header.collect()];
    for answer in answers {
        let is_short = columns_of(&answer.question) <= LONGEST_QUESTION;
        let question = if is_short { answer.question.as_str() } else { "" };
        let figures = answer.figures.iter().skip(omitted).map(|(_, text)| text.as_str());
        all.push(
            [question]
                .into_iter()
                .chain(figures)
                .chain([answer.certainty.as_str()])
                .collect(),
        );
    }
    all
}

fn width_of(lines: &[Vec<&str>], column: usize) -> usize {
    lines.iter().map(|line| columns_of(line[column])).max().unwrap_or(0)
}

/// The column of the methods.
fn at_of(lines: &[Vec<&str>]) -> usize {
    (0..lines[0].len()).map(|column| width_of(lines, column) + GAP).sum()
}

/// Whether there is room for methods behind the cells.
fn has_room(page: &Page<'_>, lines: &[Vec<&str>]) -> bool {
    page.width().columns() >= at_of(lines) + NARROWEST_METHOD
}

fn show_alike(page: &mut Page<'_>, answers: &[ContestAnswer], lines: &[Vec<&str>]) -> io::Result<()> {
    let aligned = |line: &[&str]| {
        let cell = |(column, cell): (usize, &&str)| {
            let blank = " ".repeat(width_of(lines, column) - columns_of(cell));
            let is_figure = column > 0 && column + 1 < line.len();
            let cell = if is_figure {
                blank + cell
            } else {
                (*cell).to_owned() + &blank
            };
            cell + &" ".repeat(GAP)
        };
        line.iter().enumerate().map(cell).collect::<String>()
    };
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
