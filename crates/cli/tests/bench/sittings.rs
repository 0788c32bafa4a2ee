//! Runs on one storage at several hours: combined, left out, and measured in the background.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use seekless_results::{ContestAnswer, pool};

use crate::common::place::{Place, assert_contains, wait_for};

const BENCH: &str = "bench --tables --notes read --cache warm --rounds 6 --methods read/sync,block=128K";

/// Dates the only saved run one day earlier.
fn yesterday(place: &Place) {
    let run = place.only_run();
    let path = place.directory().join(format!("../data/seekless/runs/{}.json", run.id));
    let text = fs::read_to_string(&path).unwrap();
    let started: jiff::Timestamp = run.started.parse().unwrap();
    let before = started.checked_sub(jiff::SignedDuration::from_hours(24)).unwrap();
    let id = format!("{}-read", before.strftime("%Y-%m-%dT%H-%M-%S"));
    let text = text.replace(&run.started, &before.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let to = path.with_file_name(format!("{id}.json"));
    fs::write(to, text.replace(&run.id, &id)).unwrap();
    fs::remove_file(path).unwrap();
}

#[test]
fn sittings_are_combined_in_tables_and_reports() {
    let place = Place::new();
    let small = "--size 1M --methods read/mmap";
    let first = place.succeeds(&format!("{BENCH} {small}"));
    assert!(!first.stderr.contains("Known"), "{}", first.stderr);
    assert_contains(
        &first.stdout,
        &[
            "Sittings These verdicts hold only for the ",
            "\nNext    seekless bench --",
        ],
    );
    yesterday(&place);
    let json = "--export-json all.json";
    let second = place.succeeds(&format!("{BENCH} {small} {json}"));
    let again = place.succeeds("runs show --tables --notes latest");
    let (_, tables) = second.stdout.split_once("\nread").unwrap();
    let (tables, _) = tables.split_once("Saved").unwrap();
    assert!(again.stdout.contains(tables.trim_end()), "{}", again.stdout);
    place.succeeds("report latest -o all.html");
    let page = place.text("all.html");
    assert!(page.contains("Verdicts rest on 2 sittings"));
    let alone = place.succeeds("runs show latest --alone");
    assert_contains(&alone.stdout, &["one run of "]);
    assert_contains(&second.stderr, &["Known    ", ", last measured "]);
    assert_contains(
        &second.stdout,
        &["Verdicts rest on 2 sittings on this storage", "of 2 sittings."],
    );
    let saved = seekless_record::from_json(&place.read("all.json")).unwrap();
    assert_eq!(
        saved.contests[0].conclusion.as_ref().unwrap().sittings,
        None,
        "a run is kept as it is"
    );
    assert_eq!(saved.contests[0].entries[0].summary.as_ref().unwrap().rounds, 12);
    let alone = place.succeeds(&format!("{BENCH} {small} --alone"));
    assert!(
        !alone.stderr.contains("Known") && alone.stdout.contains("one run of "),
        "{}",
        alone.stdout
    );
}

/// The last screen, `runs show`, the report and the next bench say what all sittings conclude; `runs` what those up to each run do.
#[test]
fn sittings_have_one_answer_in_every_place() {
    let place = Place::new();
    let bench =
        "bench read --cache warm --rounds 8 --size 4M --methods read/sync,block=16K --methods read/sync,block=128K";
    place.succeeds(bench);
    yesterday(&place);
    let id_before = place.only_run().id;
    let screen = place.succeeds(bench).stdout;
    let directory = place.directory().join("../data/seekless/runs");
    let mut runs: Vec<seekless_record::Run> = fs::read_dir(directory)
        .unwrap()
        .filter_map(|entry| {
            Some(entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "json"))
        })
        .map(|path| seekless_record::from_json(&fs::read(path).unwrap()).unwrap())
        .collect();
    runs.sort_by_key(|run| run.id != id_before);
    let pooled = pool(&runs[1], &runs[..1]);
    let answer = ContestAnswer::of(&pooled, &pooled.contests[0]).unwrap();
    assert_eq!(answer.rests_on, "2 sittings");
    let has_line = |text: &str| {
        let mut lines = text.lines();
        lines.any(|line| line.starts_with(&answer.question) && line.ends_with(&answer.method))
    };
    let shown = place.succeeds("runs show latest").stdout;
    let listed = place.succeeds("runs").stdout;
    place.succeeds("report latest -o page.html");
    let page = place.text("page.html");
    place.succeeds("bench write --rounds 2 --size 1M --methods write/sync*");
    let next = place.succeeds(bench).stderr;
    assert!(has_line(&screen), "{answer:?}: {screen}");
    assert!(has_line(&shown), "{answer:?}: {shown}");
    let [first, second] = [&runs[0], &pooled].map(|run| ContestAnswer::of(run, &run.contests[0]).unwrap().sentence());
    assert!(
        listed.contains(&first) && listed.contains(&second),
        "{first} {second}: {listed}"
    );
    assert!(next.contains(&answer.sentence()), "{answer:?}: {next}");
    let (_, card) = page.split_once("class=\"cards").unwrap();
    let (card, _) = card.split_once("</ul>").unwrap();
    let sentence = &pooled.contests[0].conclusion.as_ref().unwrap().sentence;
    assert!(card.contains(sentence), "{answer:?}: {card}");
}

#[test]
fn sittings_keep_the_sizes_of_the_first_and_name_damaged_runs() {
    let place = Place::new();
    place.succeeds(BENCH);
    let first = place.only_run();
    let chosen = |run: &seekless_record::Run| -> Vec<u64> {
        let contests = run.contests.iter().filter(|contest| contest.size_chosen);
        contests.map(|contest| contest.size_bytes).collect()
    };
    assert_eq!(chosen(&first).len(), 1, "beside files of 1M");
    yesterday(&place);
    // As if there had been less space then.
    let runs = place.directory().join("../data/seekless/runs");
    let path = only_file(&runs);
    let text = fs::read_to_string(&path).unwrap();
    let smaller = text.replace(
        &format!("\"size_bytes\": {}", chosen(&first)[0]),
        "\"size_bytes\": 16777216",
    );
    assert_ne!(text, smaller);
    fs::write(&path, smaller).unwrap();
    let damaged = format!("{}T00-00-00-damaged.json", &first.id[..10]);
    fs::write(runs.join(&damaged), "{").unwrap();
    let second = place.succeeds(BENCH);
    assert_contains(&second.stderr, &["left out: ", &damaged]);
    second.says("read: files of 16 MiB, as in the first run on this storage");
}

#[test]
fn sittings_are_not_started_without_output_or_log() {
    let place = Place::new();
    let told = place.run_full("bench read --size 64K --rounds 1 --sittings 1");
    assert_eq!(told.unwrap().code, Some(2));
    fs::remove_file(place.directory().join("../data/seekless/sittings.log")).unwrap();
    fs::create_dir(place.directory().join("../data/seekless/sittings.log")).unwrap();
    place
        .bench("--sittings 1")
        .refused_with(&["sittings.log: is not a regular file"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(place.saved().is_empty());
}

fn only_file(directory: &std::path::Path) -> PathBuf {
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let documents: Vec<PathBuf> = all
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    assert_eq!(documents.len(), 1);
    documents[0].clone()
}

/// The background process, found by the message about it.
fn background(told: &str) -> Pid {
    let number = told.split_once("(process ").unwrap().1.split_once(')').unwrap().0;
    Pid::from_raw(number.parse().unwrap()).unwrap()
}

#[test]
fn sittings_run_in_the_background_until_told_to_end() {
    // Not a disk, so no other process uses it.
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: there is no /dev/shm");
        return;
    };
    let place = Place::new();
    let sit = |every: &str| {
        let words = "bench read --size 64K --rounds 1 --methods read/mmap --quiet --sittings 2 --every";
        place
            .succeeds((words, every, &["--dir".as_ref(), memory.path().as_os_str()]))
            .stdout
    };
    let told = sit("1s");
    assert!(told.starts_with("Measures 2 times in the background"), "{told}");
    // A terminal that closes ends the processes of its own group only.
    let own = background(&told);
    assert_eq!(rustix::process::getpgid(Some(own)).ok(), Some(own));
    wait_for("both are measured", || place.saved().len() == 2);
    wait_for("it ends", || test_kill_process(background(&told)).is_err());
    let log = fs::read_to_string(place.directory().join("../data/seekless/sittings.log")).unwrap();
    assert_contains(&log, &["--- sitting 2 of 2", "Saved"]);
    // A run now would be in the same sitting as the last.
    let told = sit("1h");
    kill_process(background(&told), Signal::TERM).unwrap();
    wait_for("it ends", || test_kill_process(background(&told)).is_err());
    assert_eq!(place.saved().len(), 2);
}
