//! `seekless dupes --interactive`: choosing on a terminal which files of each group stay.

use std::fs;
use std::path::PathBuf;

use crate::common::place::{Place, words};
use crate::common::terminal::Terminal;

/// Three pairs of equal files, of which the largest is asked for first: two in `x` and `y`, one in `x` and `z`.
fn pairs() -> Place {
    let place = Place::new();
    place.directories("x y z");
    for (names, kib) in [
        (["x/big", "y/big"], 96),
        (["x/mid", "y/mid2"], 64),
        (["x/low", "z/low"], 32),
    ] {
        for name in names {
            place.file(name, &vec![1; kib << 10]);
        }
    }
    place
}

fn left(place: &Place) -> String {
    let names = ["x/big", "y/big", "x/mid", "y/mid2", "x/low", "z/low"];
    let left = names.into_iter().filter(|name| place.path(name).exists());
    left.collect::<Vec<_>>().join(" ")
}

/// What is printed, without colors, and the exit code.
fn answered(place: &Place, arguments: &[&str], answers: &str) -> (String, Option<i32>) {
    let mut command = place.command();
    command.env("NO_COLOR", "1").arg("dupes").args(arguments);
    let (printed, code) = Terminal::of(100).answer(command, answers);
    (printed.replace("\r\n", "\n"), code)
}

const REMOVE: [&str; 5] = ["--action", "remove", "--interactive", "--quiet", "."];

fn kept_answers(place: &Place) -> Vec<PathBuf> {
    let directory = fs::read_dir(place.path("../state/seekless/choices"));
    directory
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect()
}

#[test]
fn what_is_chosen_stays_also_in_the_other_groups_of_the_same_directories() {
    let place = pairs();
    let (printed, code) = answered(&place, &REMOVE, "2 a\ns\ny\n");
    let told = "Group 1 of 3\n2 files of 96.0 KiB: 96.0 KiB to gain\n   1  ./x/big\n   2  ./y/big\n\nWhich files stay? [numbers, a, s, q, ?] ";
    assert!(printed.contains(told), "{printed}");
    assert!(
        !printed.contains("Group 2 of 3") && printed.contains("Group 3 of 3"),
        "{printed}"
    );
    assert!(printed.contains("keep      y/big  (chosen)"), "{printed}");
    assert!(printed.contains("Remove 2 files? [y/N]"), "{printed}");
    assert_eq!(
        (left(&place).as_str(), code),
        ("y/big y/mid2 x/low z/low", Some(0)),
        "{printed}"
    );
    place.succeeds("dupes undo");
    assert_eq!(left(&place).split(' ').count(), 6);
}

#[test]
fn several_numbers_keep_several_files_and_what_is_no_answer_is_asked_again() {
    let place = pairs();
    place.file("z/big", &vec![1; 96 << 10]);
    let answers = "0\n4\n\nx\na\ns 1\n?\n3,1\nskip all\n1\ny\n";
    let (printed, code) = answered(&place, &REMOVE, answers);
    for said in [
        "`0` is neither a number from 1 to 3 nor a, s, q or ?",
        "`4` is neither a number from 1 to 3 nor a, s, q or ?",
        "`x` is neither a number from 1 to 3 nor a, s, q or ?",
        "give the numbers of the files that stay",
        "files 1 and 3 stay; the others are acted on",
    ] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    assert_eq!(
        (left(&place).as_str(), code),
        ("x/big x/mid y/mid2 x/low", Some(0)),
        "{printed}"
    );
    assert!(place.path("z/big").exists());
}

#[test]
fn the_next_run_goes_on_after_the_last_answer_and_asks_again_for_what_has_changed() {
    let place = pairs();
    for answers in ["1\nq\nn\n", "1\n\u{4}n\n"] {
        let (printed, code) = answered(&place, &REMOVE, answers);
        assert!(printed.contains("Remove 1 file? [y/N]") && code == Some(1), "{printed}");
        assert_eq!(left(&place).split(' ').count(), 6);
        let [file] = &kept_answers(&place)[..] else { panic!() };
        assert!(
            printed
                .replace('\n', "")
                .contains(file.file_name().unwrap().to_str().unwrap()),
            "{printed}"
        );
        let (printed, _) = answered(&place, &REMOVE, "q\nn\n");
        assert!(printed.contains("1 group answered by an earlier run"), "{printed}");
        assert!(
            printed.contains("Group 2 of 3") && !printed.contains("Group 1 of 3"),
            "{printed}"
        );
        // Another search has answers of its own.
        let (printed, _) = answered(&place, &["--action", "remove", "-i", "x", "y"], "q\n");
        assert!(printed.contains("Group 1 of 2"), "{printed}");
        let file = fs::File::options().write(true).open(place.path("x/big")).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let (printed, _) = answered(&place, &REMOVE, "q\n");
        assert!(
            printed.contains("Group 1 of 3") && !printed.contains("earlier run"),
            "{printed}"
        );
        for file in kept_answers(&place) {
            fs::remove_file(file).unwrap();
        }
    }
    let (printed, code) = answered(&place, &REMOVE, "2\nq\ny\n");
    assert_eq!(
        (left(&place).as_str(), code),
        ("y/big x/mid y/mid2 x/low z/low", Some(0)),
        "{printed}"
    );
}

#[test]
fn an_answer_that_was_not_written_as_a_whole_is_asked_for_again() {
    let place = pairs();
    answered(&place, &REMOVE, "1 2\nq\n");
    let [file] = &kept_answers(&place)[..] else { panic!() };
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text.strip_suffix(" 1\n").unwrap()).unwrap();
    let (printed, _) = answered(&place, &REMOVE, "2\nq\nn\n");
    assert!(printed.contains("Group 1 of 3"), "{printed}");
    assert!(printed.contains("keep      y/big"), "{printed}");
}

#[test]
fn a_report_is_chosen_from_too_and_what_was_chosen_may_become_a_plan() {
    let place = pairs();
    let report = place.succeeds("dupes --json .").stdout;
    place.file("report", report.as_bytes());
    let from = words("act remove --interactive --from report --plan-file plan");
    let (printed, code) = answered(&place, &from, "2\nq\n");
    assert_eq!(code, Some(0), "{printed}");
    let plan = place.text("plan");
    let lines: Vec<&str> = plan
        .lines()
        .filter(|line| line.starts_with("keep") || line.starts_with("remove"))
        .collect();
    assert!(
        lines[0].ends_with("/y/big") && lines[1].ends_with("/x/big") && lines.len() == 2,
        "{plan}"
    );
    place.succeeds("dupes act --plan plan --yes");
    assert_eq!(left(&place), "y/big x/mid y/mid2 x/low z/low");
}

#[test]
fn files_in_a_reference_stay_whatever_is_chosen() {
    let place = pairs();
    let options = ["--action", "remove", "-i", "--against", "x", "y", "z"];
    let (printed, code) = answered(&place, &options, "2\n1\nq\ny\n");
    assert!(printed.contains("1  x/big  (reference)"), "{printed}");
    assert_eq!(
        (left(&place).as_str(), code),
        ("x/big y/big x/mid x/low z/low", Some(0)),
        "{printed}"
    );
}

#[test]
fn nobody_is_asked_without_a_terminal_and_rules_choose_without_asking() {
    let place = pairs();
    let ended = place.run(&[&["dupes"], &REMOVE[..]].concat()).refused();
    assert!(ended.contains("cannot ask without a terminal"), "{ended}");
    for other in [&["--keep", "newest"][..], &["--yes"], &["--names"]] {
        let ended = place.run(&[&["dupes"], &REMOVE[..], other].concat()).refused();
        assert!(ended.contains("cannot be used with"), "{ended}");
    }
    assert_eq!(left(&place).split(' ').count(), 6);
}
