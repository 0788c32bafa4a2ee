//! The answers of a run on a terminal: a line for each question, with the method to use at its end, where there is room for it to wrap.

use std::io::{self, Write};

use seekless_results::{Certainty, ContestAnswer, NOT_MEASURED, VS_PLAIN};

use super::page::Page;
use super::table::{GAP, aligned, widths_of};
use super::wrap::columns_of;
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
    for resting in answers.chunk_by(|one, other| one.rests_on == other.rests_on) {
        if let Some(legend) = legend(resting) {
            page.say(DIM, &legend)?;
        }
        for alike in resting.chunk_by(|one, other| heads(one) == heads(other)) {
            let has_percentiles = heads(alike[0]).len() > 2;
            let are_short = alike.iter().any(|answer| is_short(answer));
            let found = (0..=usize::from(!has_percentiles)).map(|omitted| lines(alike, omitted, are_short));
            let columns = page.width().columns();
            let has_figures = !alike[0].figures.is_empty();
            let fits = |lines: &Vec<_>| has_figures && columns >= at_of(lines) + NARROWEST_METHOD;
            match found.into_iter().find(fits) {
                Some(lines) => show_alike(page, alike, &lines, true)?,
                None if has_percentiles => show_alike(page, alike, &lines(alike, 0, false), false)?,
                None => (alike.iter()).try_for_each(|answer| page.say(PLAIN, &answer.sentence()))?,
            }
        }
    }
    Ok(())
}

/// What the answers rest on, and what their figures mean; `None` if no answer has a method.
fn legend(answers: &[&ContestAnswer]) -> Option<String> {
    let rests_on = &answers.first().filter(|answer| !answer.rests_on.is_empty())?.rests_on;
    let mut legend = format!("From {rests_on}");
    let is_gain = |(head, text): &(&str, String)| *head == VS_PLAIN && !text.is_empty();
    if answers.iter().any(|answer| answer.figures.iter().any(is_gain)) {
        legend += "; vs plain: time relative to a plain loop";
    }
    let is_bound =
        |answer: &&ContestAnswer| matches!(answer.certainty, Some(Certainty::AtMost(_) | Certainty::Open(_)));
    if answers.iter().any(is_bound) {
        legend += "; ≤ N %: at most N % slower than the best";
    }
    Some(legend)
}

/// Whether a question has room in the line of its figures.
fn is_short(answer: &ContestAnswer) -> bool {
    columns_of(&answer.question) <= LONGEST_QUESTION
}

/// The cells before the methods, without the first figures and perhaps without questions; the first line has the headings. A figure
/// that no answer has gets no column.
fn lines(answers: &[&ContestAnswer], omitted: usize, with_questions: bool) -> Vec<Vec<String>> {
    let is_told = |at: usize| answers.iter().any(|answer| !answer.figures[at].1.is_empty());
    let told: Vec<usize> = (omitted..answers[0].figures.len()).filter(|&at| is_told(at)).collect();
    let line = |first: &str, figure: &dyn Fn(usize) -> String, last: &str| {
        let figures = told.iter().map(|&at| figure(at));
        let cells = [first.to_owned()].into_iter().chain(figures);
        cells.chain([last.to_owned()]).collect()
    };
    let mut lines = vec![line("", &|at| answers[0].figures[at].0.to_owned(), "how sure")];
    lines.extend(answers.iter().map(|answer| {
        let is_here = with_questions && is_short(answer);
        let question = if is_here { &answer.question } else { "" };
        let certainty = answer.certainty.as_ref().map_or_else(String::new, ToString::to_string);
        let certainty = certainty.strip_suffix(" slower").unwrap_or(&certainty);
        line(question, &|at| answer.figures[at].1.clone(), certainty)
    }));
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
    let header = aligned(&lines[0]);
    let header = if is_behind { &header } else { header.trim_end() };
    writeln!(page, "{DIM}{header}{DIM:#}{BOLD}{used}{BOLD:#}")?;
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
    use seekless_record::{EntryVerdict, Interval, RelativeResult};
    use seekless_results::ShownVerdict;

    use super::super::wrap::Width;
    use super::*;

    fn commit(method: &str, certainty: Certainty) -> ContestAnswer {
        let figures = [
            ("rate", "2789 commits/s"),
            ("p50", "218.8 µs"),
            ("p99", "12.4 ms"),
            ("p99.9", "104.6 ms"),
            ("vs plain", "0.43x"),
        ];
        ContestAnswer {
            question: "write 512 appends, each durable, 4 KiB by 4 writers".to_owned(),
            method: method.to_owned(),
            figures: figures.map(|(head, text)| (head, text.to_owned())).to_vec(),
            certainty: Some(certainty),
            single_use: None,
            is_decided: true,
            rests_on: "one run of 40 s".to_owned(),
        }
    }

    #[test]
    fn the_gain_over_the_plain_loop_is_shown_in_80_columns() {
        let answer = |question: &str, certainty| ContestAnswer {
            question: question.to_owned(),
            figures: [("rate", "1.07 GB/s"), ("vs plain", "0.43x")]
                .map(|(head, text)| (head, text.to_owned()))
                .to_vec(),
            ..commit("sync direct,preallocate=allocate,block=4M", certainty)
        };
        let answers = [
            answer("write 8 x 1 MiB, new file, fsync", Certainty::Open(0.53)),
            answer("read 16 MiB, cold", Certainty::Best),
        ];
        let mut out = Vec::new();
        show_answers(&mut Page::new(&mut out, Width::of(80)), answers.iter()).unwrap();
        let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap();
        assert!(
            text.contains("how sure") && text.contains("open, ≤ 53 %  sync"),
            "{text}"
        );
        assert_eq!(text.matches("0.43x").count(), 2, "{text}");
        assert!(text.lines().all(|line| columns_of(line) <= 80), "{text}");
    }

    #[test]
    fn percentiles_of_commits_are_shown_in_80_columns() {
        let ratio = Interval::default();
        let leading = ShownVerdict {
            verdict: EntryVerdict::Best(RelativeResult { ratio, pairs: 3 }),
            is_decided: false,
        };
        for (certainty, shown) in [
            (Certainty::Best, "best"),
            (Certainty::Unbounded(leading), "few rounds"),
            (Certainty::Open(0.19), "open, ≤ 19 %"),
            (Certainty::Equal(0.12), "equal within 12 %"),
        ] {
            let answers = [
                commit("sync direct,preallocate=allocate,write-through", certainty.clone()),
                commit("threads=4 fdatasync-each", certainty),
            ];
            let mut out = Vec::new();
            show_answers(&mut Page::new(&mut out, Width::of(80)), answers.iter()).unwrap();
            let text = anstream::adapter::strip_bytes(&out).into_vec();
            let text = String::from_utf8(text).unwrap();
            for word in ["p99.9", "104.6 ms", "From one run of 40 s", "0.43x", "threads=4", shown] {
                assert!(text.contains(word), "{word}: {text}");
            }
            assert!(text.lines().all(|line| columns_of(line) <= 80), "{text}");
        }
    }
}
