//! The answers of a run on a terminal: a line for each question, with the method to use at its end, where there is room for it to wrap.

use std::io::{self, Write};

use seekless_results::{ContestAnswer, NOT_MEASURED};

use super::page::{Page, columns_of};
use super::table::{GAP, aligned, widths_of};
use super::{BOLD, DIM, GOOD, PLAIN};

/// The most columns of a question; a longer one has a line of its own.
const LONGEST_QUESTION: usize = 34;
/// The fewest columns for a method. With fewer, the rate goes, unless there are no tables that have the other figures.
const NARROWEST_METHOD: usize = 20;

/// Shows what was asked and what to use. Where there is no room for methods behind percentiles, they stand before them.
pub fn show_answers<'a>(page: &mut Page<'_>, answers: impl Iterator<Item = &'a ContestAnswer>) -> io::Result<()> {
    // What to do next says how many had no turn.
    let mut answers: Vec<&ContestAnswer> = answers.filter(|answer| answer.method != NOT_MEASURED).collect();
    // What has no method does not interrupt the table of the others.
    answers.sort_by_key(|answer| answer.figures.is_empty());
    let heads = |answer: &ContestAnswer| answer.figures.iter().map(|(head, _)| *head).collect::<Vec<_>>();
    let is_alike =
        |one: &&ContestAnswer, other: &&ContestAnswer| heads(one) == heads(other) && one.rests_on == other.rests_on;
    for alike in answers.chunk_by(is_alike) {
        let heads = heads(alike[0]);
        let has_gain = heads == ["rate", "vs plain"];
        let are_short = alike.iter().any(|answer| is_short(answer));
        let found = (0..=usize::from(has_gain)).map(|omitted| lines(alike, omitted, are_short));
        let shorter = has_gain.then(|| slower_in_head(lines(alike, 1, are_short)));
        let columns = page.width().columns();
        let fits = |lines: &Vec<_>| !heads.is_empty() && columns >= at_of(lines) + NARROWEST_METHOD;
        match found.chain(shorter).find(fits) {
            Some(lines) => show_alike(page, alike, &lines, true)?,
            None if heads.len() > 2 => show_alike(page, alike, &lines(alike, 0, false), false)?,
            None => (alike.iter()).try_for_each(|answer| page.say(PLAIN, &answer.sentence()))?,
        }
    }
    Ok(())
}

/// Whether a question has room in the line of its figures.
fn is_short(answer: &ContestAnswer) -> bool {
    columns_of(&answer.question) <= LONGEST_QUESTION
}

/// The cells before the methods, without the first figures and perhaps without questions; the first line has the headings.
fn lines(answers: &[&ContestAnswer], omitted: usize, with_questions: bool) -> Vec<Vec<String>> {
    let line = |first: &str, figures: Vec<&str>, last: &str| {
        let figures = figures.into_iter().skip(omitted);
        let cells = [first].into_iter().chain(figures).chain([last]);
        cells.map(str::to_owned).collect()
    };
    let heads = answers[0].figures.iter().map(|(head, _)| *head).collect();
    let first = if with_questions { &answers[0].rests_on } else { "" };
    let mut lines = vec![line(first, heads, "how sure")];
    lines.extend(answers.iter().map(|answer| {
        let is_here = with_questions && is_short(answer);
        let question = if is_here { &answer.question } else { "" };
        let figures = answer.figures.iter().map(|(_, text)| text.as_str()).collect();
        line(question, figures, &answer.certainty)
    }));
    lines
}

/// The same with "slower" in the heading only.
fn slower_in_head(mut lines: Vec<Vec<String>>) -> Vec<Vec<String>> {
    for (index, line) in lines.iter_mut().enumerate() {
        let last = line.pop().unwrap_or_default();
        let shorter = last.strip_suffix(" slower").unwrap_or(&last);
        line.push(if index == 0 { "slower by" } else { shorter }.to_owned());
    }
    lines
}

/// The column of the methods.
fn at_of(lines: &[Vec<String>]) -> usize {
    widths_of(lines).iter().map(|width| width + GAP).sum()
}

/// Shows lines alike, with the methods behind them or before them.
fn show_alike(
    page: &mut Page<'_>,
    answers: &[&ContestAnswer],
    lines: &[Vec<String>],
    is_behind: bool,
) -> io::Result<()> {
    let widths = widths_of(lines);
    let aligned = |line: &[String]| aligned(line, &widths, |column| column == 0 || column + 1 == widths.len());
    let used = if is_behind { "use" } else { "" };
    let rests_on = match lines[0][0].as_str() {
        "" => format!(" ({})", answers[0].rests_on),
        _ => String::new(),
    };
    let header = aligned(&lines[0]);
    let header = if is_behind { &header } else { header.trim_end() };
    writeln!(page, "{DIM}{header}{DIM:#}{BOLD}{used}{BOLD:#}{DIM}{rests_on}{DIM:#}")?;
    for (answer, line) in answers.iter().zip(&lines[1..]) {
        let style = if answer.is_decided { GOOD } else { PLAIN };
        if !is_behind {
            page.say(style, &format!("{}: {}", answer.question, answer.method))?;
            page.say(PLAIN, aligned(line).trim_end())?;
            continue;
        }
        if line[0].is_empty() {
            page.say(PLAIN, &answer.question)?;
        }
        page.indented(style, &aligned(line), at_of(lines), &answer.method)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::page::Width;
    use super::*;

    fn commit(method: &str, certainty: &str) -> ContestAnswer {
        let figures = [
            ("rate", "2789 commits/s"),
            ("p50", "218.8 µs"),
            ("p99", "12.4 ms"),
            ("p99.9", "104.6 ms"),
        ];
        ContestAnswer {
            question: "write 512 appends, each durable, 4 KiB by 4 writers".to_owned(),
            method: method.to_owned(),
            figures: figures.map(|(head, text)| (head, text.to_owned())).to_vec(),
            certainty: certainty.to_owned(),
            rests_on: "this run".to_owned(),
            is_decided: true,
        }
    }

    #[test]
    fn the_gain_over_the_plain_loop_is_shown_in_80_columns() {
        let answer = |question: &str, certainty: &str| ContestAnswer {
            question: question.to_owned(),
            figures: [("rate", "1.07 GB/s"), ("vs plain", "0.43x")]
                .map(|(head, text)| (head, text.to_owned()))
                .to_vec(),
            ..commit("sync direct,preallocate=allocate,block=4M", certainty)
        };
        let answers = [
            answer("write 8 x 1 MiB, new file, fsync", "open, ≤ 53 % slower"),
            answer("read 16 MiB, cold", "best"),
        ];
        let mut out = Vec::new();
        show_answers(&mut Page::new(&mut out, Width::of(80)), answers.iter()).unwrap();
        let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap();
        assert!(
            text.contains("slower by") && text.contains("open, ≤ 53 %  sync"),
            "{text}"
        );
        assert_eq!(text.matches("0.43x").count(), 2, "{text}");
        assert!(text.lines().all(|line| columns_of(line) <= 80), "{text}");
    }

    #[test]
    fn percentiles_of_commits_are_shown_in_80_columns() {
        for certainty in ["best", "leads", "open, ≤ 19 % slower", "equal within 12 %"] {
            let answers = [
                commit("sync direct,preallocate=allocate,write-through", certainty),
                commit("threads=4 fdatasync-each", certainty),
            ];
            let mut out = Vec::new();
            show_answers(&mut Page::new(&mut out, Width::of(80)), answers.iter()).unwrap();
            let text = anstream::adapter::strip_bytes(&out).into_vec();
            let text = String::from_utf8(text).unwrap();
            for word in ["p99.9", "104.6 ms", "(this run)", "threads=4", certainty] {
                assert!(text.contains(word), "{word}: {text}");
            }
            assert!(text.lines().all(|line| columns_of(line) <= 80), "{text}");
        }
    }
}
