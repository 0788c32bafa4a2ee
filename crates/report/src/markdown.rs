//! The ranked tables and sentences of a run as Markdown.

use std::fmt::Write;

use seekless_record::Run;
use seekless_results::{ColumnKind, ContestView, Detail, Sheet, View, Visible, mode_words};

/// The run as a page: machine, storages, a table and a recommendation for each contest, warnings.
///
/// Rates are in units of 1000 bytes; their intervals are computed from those of the seconds.
#[must_use]
pub fn to_markdown(run: &Run) -> String {
    let shown = Visible::of(run);
    let view = View::of(&shown);
    let mut page = format!("# Run {}\n", escaped(&view.run.id));
    let facts = view.facts.iter().map(|(about, line)| format!("{about}: {line}"));
    list(&mut page, facts);
    chapter(&mut page, "Which storage is faster", &view.storages);
    for contest in &view.contests {
        section(&mut page, contest);
    }
    chapter(&mut page, "Sittings", view.sittings.as_slice());
    chapter(&mut page, "Where the winner changes", &view.crossovers);
    chapter(&mut page, "Choices", &view.run.choices);
    chapter(&mut page, "Warnings", &view.run.warnings);
    page
}

fn chapter(page: &mut String, heading: &str, items: &[String]) {
    if !items.is_empty() {
        let _ = write!(page, "\n## {heading}\n");
        list(page, items);
    }
}

fn list(page: &mut String, items: impl IntoIterator<Item: AsRef<str>>) {
    for (index, item) in items.into_iter().enumerate() {
        let before = if index == 0 { "\n" } else { "" };
        let _ = writeln!(page, "{before}- {}", escaped(item.as_ref()));
    }
}

fn section(page: &mut String, view: &ContestView<'_>) {
    let contest = view.contest;
    let _ = write!(page, "\n## {}\n", escaped(&view.title));
    table(page, &view.figures(Detail::Full));
    if let Some(mode) = contest.mode {
        let _ = writeln!(page, "\n{}", mode_words(mode));
    }
    if let Some(conclusion) = &contest.conclusion {
        let _ = write!(page, "\n**{}**\n", escaped(&conclusion.sentence));
    }
    table(page, &view.stretches(STRETCHES));
    list(page, view.kinds());
    for (sheet, _) in view.details() {
        let _ = write!(page, "\n### {}\n", sheet.title);
        table(page, &sheet);
    }
}

/// The number of lines for the rate of a sustained write.
const STRETCHES: usize = 20;

/// A table; nothing if it has no rows.
fn table(page: &mut String, sheet: &Sheet) {
    if sheet.rows.is_empty() {
        return;
    }
    let heads: Vec<&str> = sheet.columns.iter().map(|column| column.head.as_str()).collect();
    let rules = sheet.columns.iter().map(|column| match column.kind {
        ColumnKind::Figure => "---:|",
        ColumnKind::Method | ColumnKind::Words | ColumnKind::Verdict => "---|",
    });
    let _ = writeln!(page, "\n| {} |\n|{}", heads.join(" | "), rules.collect::<String>());
    for row in &sheet.rows {
        let mut cells: Vec<String> = row.cells.iter().map(|cell| escaped(cell.known())).collect();
        let remarks = row.remarks.iter().map(|(_, remark)| format!(" ({})", escaped(remark)));
        cells[0].extend(remarks);
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

/// Escapes a line of text, so that nothing in it is Markdown or HTML.
fn escaped(text: &str) -> String {
    let backslash = |character: char| r"|*_`[]<>\".contains(character).then_some('\\');
    text.chars()
        .flat_map(|character| backslash(character).into_iter().chain([character]))
        .collect()
}

#[cfg(test)]
mod tests {
    use seekless_record::EntryVerdict;
    use seekless_results::simulation;

    use super::*;

    fn concluded(methods: &[(&str, f64)], rounds: u32) -> Run {
        simulation::concluded(simulation::run(methods, rounds))
    }

    #[test]
    fn the_table_is_ranked_and_the_sentence_follows() {
        let page = to_markdown(&concluded(&[("read/mmap", 0.2), ("read/sync,block=128K", 0.1)], 6));
        let best = page
            .find("| sync block=128K | 671 MB/s | ±0 % | 671 MB/s to 671 MB/s | 100.0 ms |")
            .unwrap();
        let slower = page.find("2.00x (2.00 to 2.00)").unwrap();
        let sentence = page.find("**Use read/sync,block=128K: the best").unwrap();
        assert!(best < slower && slower < sentence, "{page}");
    }

    #[test]
    fn few_rounds_show_a_range_and_what_was_not_measured_its_reason() {
        let mut run = concluded(&[("read/mmap", 0.2), ("read/sync,block=128K", 0.1)], 3);
        run.contests[0].entries[0].verdict = EntryVerdict::unavailable("a | in\nthe <reason>");
        run.contests[0].entries[0].summary = None;
        let page = to_markdown(&run);
        for text in [
            "671 MB/s to 671 MB/s, range",
            "| mmap | not available: a \\| in\\\\nthe \\<reason\\> |",
            "Undecided: 3 rounds are too few",
        ] {
            assert!(page.contains(text), "{page}");
        }
    }

    #[test]
    fn markdown_update_has_time_prediction_and_written_bytes() {
        let run = seekless_record::from_json(simulation::FULL.as_bytes()).unwrap();
        let page = to_markdown(&run);
        let planned = page.lines().find(|line| line.starts_with("| planned")).unwrap();
        let method = "(update/sync,block=8M,write-through,gap=512)";
        for text in [method, " | 6.0 ms | ", " | 100.0x | "] {
            assert!(planned.contains(text), "{planned}");
        }
    }

    #[test]
    fn a_run_without_anything_is_a_page() {
        let mut run = simulation::run(&[], 0);
        run.contests.clear();
        assert!(to_markdown(&run).starts_with("# Run"));
    }
}
