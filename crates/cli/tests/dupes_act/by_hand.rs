//! `seekless dupes --interactive`: choosing on a terminal which files of each group stay.

use std::fs;
use std::path::PathBuf;

use super::act::lines_of;
use crate::common::disks::set_modified;
use crate::common::place::{Place, assert_contains, assert_lacks, words};
use crate::common::terminal::Terminal;

/// Three pairs of equal files, of which the largest is asked for first: two in `x` and `y`, one in `x` and `z`.
fn pairs() -> Place {
    let place = Place::new();
    for (names, kib) in [("x/big y/big", 96), ("x/mid y/mid2", 64), ("x/low z/low", 32)] {
        place.files(names, &vec![1; kib << 10]);
    }
    place
}

/// Fails unless the command ended well and left these files.
#[track_caller]
fn require_left(place: &Place, (printed, code): (String, Option<i32>), expected: &str) {
    assert_eq!((left(place).as_str(), code), (expected, Some(0)), "{printed}");
}

fn left(place: &Place) -> String {
    let names = ["x/big", "y/big", "x/mid", "y/mid2", "x/low", "z/low"];
    let left = names.into_iter().filter(|name| place.path(name).exists());
    left.collect::<Vec<_>>().join(" ")
}

/// What is printed, without colors, and the exit code.
fn answered(place: &Place, arguments: &str, answers: &str) -> (String, Option<i32>) {
    let mut command = place.command();
    command.env("NO_COLOR", "1").args(words(arguments));
    let (printed, code) = Terminal::of(100).answer(command, answers);
    (printed.replace("\r\n", "\n"), code)
}

const REMOVE: &str = "dupes --action remove --interactive --quiet .";

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
    let (printed, code) = answered(&place, REMOVE, "2 a\ns\ny\n");
    let told = "Group 1 of 3\n2 files of 96.0 KiB: 96.0 KiB to gain\n   1  ./x/big\n   2  ./y/big\n\nWhich files stay? [numbers, a, s, q, ?] ";
    let then = ["Group 3 of 3", "keep      y/big  (chosen)", "Remove 2 files? [y/N]"];
    assert_contains(&printed, &[&[told], &then[..]].concat());
    assert_lacks(&printed, &["Group 2 of 3"]);
    require_left(&place, (printed, code), "y/big y/mid2 x/low z/low");
    place.succeeds("dupes undo");
    assert_eq!(left(&place).split(' ').count(), 6);
}

#[test]
fn several_numbers_keep_several_files_and_what_is_no_answer_is_asked_again() {
    let place = pairs();
    place.file("z/big", &vec![1; 96 << 10]);
    let answers = "0\n4\n\nx\na\ns 1\n?\n3,1\nskip all\n1\ny\n";
    let (printed, code) = answered(&place, REMOVE, answers);
    for wrong in ["0", "4", "x"] {
        let said = format!("`{wrong}` is neither a number from 1 to 3 nor a, s, q or ?");
        assert_contains(&printed, &[&said]);
    }
    assert_contains(
        &printed,
        &[
            "give the numbers of the files that stay",
            "files 1 and 3 stay; the others are acted on",
        ],
    );
    require_left(&place, (printed, code), "x/big x/mid y/mid2 x/low");
    assert!(place.path("z/big").exists());
}

#[test]
fn the_next_run_goes_on_after_the_last_answer_and_asks_again_for_what_has_changed() {
    let place = pairs();
    for answers in ["1\nq\nn\n", "1\n\u{4}n\n"] {
        let (printed, code) = answered(&place, REMOVE, answers);
        assert!(printed.contains("Remove 1 file? [y/N]") && code == Some(1), "{printed}");
        assert_eq!(left(&place).split(' ').count(), 6);
        let [file] = &kept_answers(&place)[..] else { panic!() };
        let name = file.file_name().unwrap().to_str().unwrap();
        assert_contains(&printed.replace('\n', ""), &[name]);
        let (printed, _) = answered(&place, REMOVE, "q\nn\n");
        assert_contains(&printed, &["1 group answered by an earlier run", "Group 2 of 3"]);
        assert_lacks(&printed, &["Group 1 of 3"]);
        // Another search has answers of its own.
        let (printed, _) = answered(&place, "dupes --action remove -i x y", "q\n");
        assert!(printed.contains("Group 1 of 2"), "{printed}");
        set_modified(&place.path("x/big"), 0);
        let (printed, _) = answered(&place, REMOVE, "q\n");
        assert_contains(&printed, &["Group 1 of 3"]);
        assert_lacks(&printed, &["earlier run"]);
        for file in kept_answers(&place) {
            fs::remove_file(file).unwrap();
        }
    }
    let ended = answered(&place, REMOVE, "2\nq\ny\n");
    require_left(&place, ended, "y/big x/mid y/mid2 x/low z/low");
}

#[test]
fn an_answer_that_was_not_written_as_a_whole_is_asked_for_again() {
    let place = pairs();
    answered(&place, REMOVE, "1 2\nq\n");
    let [file] = &kept_answers(&place)[..] else { panic!() };
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text.strip_suffix(" 1\n").unwrap()).unwrap();
    let (printed, _) = answered(&place, REMOVE, "2\nq\nn\n");
    assert!(printed.contains("Group 1 of 3"), "{printed}");
    assert!(printed.contains("keep      y/big"), "{printed}");
}

#[test]
fn what_was_chosen_may_become_a_plan() {
    let place = pairs();
    let words = "dupes --action remove --interactive --plan-file plan .";
    let (printed, code) = answered(&place, words, "2\nq\n");
    assert_eq!(code, Some(0), "{printed}");
    let plan = place.text("plan");
    let [_, kept, removed] = &lines_of(&place)[..] else {
        panic!("{plan}")
    };
    assert!(kept.ends_with("/y/big") && removed.ends_with("/x/big"), "{plan}");
    place.succeeds("dupes act --plan plan --yes");
    assert_eq!(left(&place), "y/big x/mid y/mid2 x/low z/low");
}

#[test]
fn files_in_a_reference_stay_whatever_is_chosen() {
    let place = pairs();
    let (printed, code) = answered(&place, "dupes --action remove -i --against x y z", "2\n1\nq\ny\n");
    assert!(printed.contains("1  x/big  (reference)"), "{printed}");
    require_left(&place, (printed, code), "x/big y/big x/mid x/low z/low");
}

#[test]
fn nobody_is_asked_without_a_terminal_and_rules_choose_without_asking() {
    let place = pairs();
    place.run(REMOVE).refused_with(&["cannot ask without a terminal"]);
    for other in ["--keep newest", "--yes", "--names"] {
        place.run((REMOVE, other)).refused_with(&["cannot be used with"]);
    }
    assert_eq!(left(&place).split(' ').count(), 6);
}
