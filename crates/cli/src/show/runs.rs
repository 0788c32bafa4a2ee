//! The list of saved runs.

use std::io::{self, Write};

use jiff::{Timestamp, Unit};
use seekless_engine::Operation;
use seekless_lab::store::{Document, LIMIT_BYTES};
use seekless_record::{Cache, Contest, Ended, Run};
use seekless_results::{ContestAnswer, DeviceKind, Origin, bytes, operations, title, visible};
use serde_json::{Value, json};

use super::page::Page;
use super::units::{and_also, counted};
use super::wrap::columns_of;
use super::{BOLD, DIM, PLAIN};

/// The bytes that these documents take.
pub fn held_bytes(documents: &[Document]) -> u64 {
    documents.iter().map(|document| document.bytes).sum()
}

/// The warning if the store holds more than its limit.
pub fn too_large(documents: &[Document]) -> Option<String> {
    let held = held_bytes(documents);
    let (taken, most) = (bytes(held), bytes(LIMIT_BYTES));
    let sentence = format!(
        "The saved runs take {taken}, more than {most}: `seekless runs remove --down-to 500M` removes the oldest."
    );
    (held > LIMIT_BYTES).then_some(sentence)
}

/// Lists runs, three lines each, and the size of the store.
pub fn list_runs(page: &mut Page<'_>, runs: &[(&Document, Run)], documents: &[Document]) -> io::Result<()> {
    let is_imported = |document: &Document| document.origin == Origin::Imported;
    for (document, run) in runs {
        let (style, whose) = if is_imported(document) {
            (PLAIN, ", imported")
        } else {
            (BOLD, "")
        };
        let ended = match run.ended {
            Ended::Complete => "",
            Ended::Interrupted => ", interrupted",
        };
        let (id, when) = (visible(&document.id), format!("{}{whose}{ended}", when(&run.started)));
        let is_short = columns_of(&id) + 2 + columns_of(&when) <= page.width().columns();
        let gap = if is_short { "  " } else { "\n  " };
        writeln!(page, "{style}{id}{style:#}{gap}{DIM}{when}{DIM:#}")?;
        for text in [what_and_where(run), verdicts(run).join("; ")] {
            page.indented(PLAIN, "  ", 2, &visible(&text))?;
        }
        writeln!(page)?;
    }
    let imported = runs.iter().filter(|(document, _)| is_imported(document)).count();
    let others = and_also(imported as u64, "of them imported");
    let count = match runs.len() {
        0 => "No runs yet: `seekless bench` measures one".to_owned(),
        count => counted(count as u64, "run"),
    };
    let (held, limit) = (bytes(held_bytes(documents)), bytes(LIMIT_BYTES));
    writeln!(page, "{DIM}{count}{others}; {held} of at most {limit}{DIM:#}")
}

/// The list as JSON.
pub fn runs_json(runs: &[(&Document, Run)]) -> Value {
    let one = |(document, run): &(&Document, Run)| {
        let storages = run.storages.iter().map(|storage| {
            json!({
                "path": storage.path,
                "file_system": storage.file_system,
                "device": storage.device.as_ref().map(|device| &device.name),
                "device_kind": DeviceKind::of(storage),
            })
        });
        let verdicts = run.contests.iter().map(|contest| {
            let conclusion = contest.conclusion.as_ref();
            let recommended = conclusion.and_then(|conclusion| conclusion.recommended.as_ref());
            json!({"contest": title(contest), "storage": contest.storage, "recommended": recommended})
        });
        json!({
            "id": document.id,
            "origin": document.origin,
            "file": document.path.to_string_lossy(),
            "bytes": document.bytes,
            "started": run.started,
            "ended": run.ended,
            "experiments": run.experiments,
            "system": run.machine.system,
            "kernel": run.machine.kernel,
            "storages": storages.collect::<Value>(),
            "verdicts": verdicts.collect::<Value>(),
        })
    };
    runs.iter().map(one).collect()
}

/// How long ago a time was, or its day if that is long ago; the text itself if it is not a time.
pub fn when(started: &str) -> String {
    let Ok(time) = started.parse::<Timestamp>() else {
        return visible(started).into_owned();
    };
    let ago = |minutes: i64| match minutes {
        0 => Some("just now".to_owned()),
        1 => Some("a minute ago".to_owned()),
        2..120 => Some(format!("{minutes} minutes ago")),
        120..2880 => Some(format!("{} hours ago", minutes / 60)),
        2880..43_200 => Some(format!("{} days ago", minutes / 1440)),
        _ => None,
    };
    let minutes = (seekless_lab::now() - time).total(Unit::Minute).unwrap_or(-1.0);
    ago(minutes.floor() as i64).unwrap_or_else(|| time.strftime("%Y-%m-%d").to_string())
}

/// What was measured, and on which storages.
fn what_and_where(run: &Run) -> String {
    let storage = |storage: &seekless_record::Storage| {
        let device = storage.device.as_ref().map(|device| format!(" {}", device.name));
        let kind = DeviceKind::of(storage);
        format!("{} on {kind}{}", storage.file_system, device.unwrap_or_default())
    };
    let storages: Vec<String> = run.storages.iter().map(storage).collect();
    let (experiments, storages, machine) = (run.experiments.join(", "), storages.join("; "), &run.machine);
    format!("{experiments}: {storages}; {} {}", machine.system, machine.kernel)
}

/// The answer for each operation (for the largest files, cold before warm), and for sustained writes.
fn verdicts(run: &Run) -> Vec<String> {
    let weight = |contest: &&Contest| (contest.size_bytes, contest.cache == Cache::Cold);
    let largest = |operation: Operation| {
        let contests = run.contests.iter();
        let contests = contests.filter(|contest| contest.operation == operation && !contest.sustained);
        contests.rev().max_by_key(weight)
    };
    let sustained = run.contests.iter().filter(|contest| contest.sustained);
    let told = operations(run).into_iter().filter_map(largest).chain(sustained);
    let answers = told.filter_map(|contest| ContestAnswer::of(run, contest));
    answers.map(|answer| answer.sentence()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_none_is_shown_as_it_is_and_harmless() {
        assert_eq!(when("y\u{1b}[2J"), "y\\u{1b}[2J");
        assert_eq!(when("1999-12-31T23:59:59Z"), "1999-12-31");
        assert_eq!(when(&Timestamp::now().to_string()), "just now");
        assert_eq!(when("9000-01-01T00:00:00Z"), "9000-01-01");
    }
}
