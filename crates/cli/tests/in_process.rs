//! The command as a library: several calls in one process, with streams of their own, print what the program prints.

mod common;

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::thread;

use seekless_cli::{Call, Streams, run};

use common::place::{Ended, Place, assert_contains};
use common::terminal::Terminal;

/// Fails unless the library prints what the program prints. The first word is the program's name.
fn compare(place: &Place, line: &str, input: &str) -> Ended {
    let words: Vec<&str> = line.split(' ').collect();
    let by_library = || place.call_as(words[0], &words[1..], input.as_bytes());
    let by_program = || place.run_as(words[0], &words[1..], input.as_bytes());
    // What works on a busy storage may change in between, and what is free there does.
    for _ in 0..3 {
        let [mut library, mut program] = [by_library(), by_program()];
        if words.contains(&"storage") {
            for ended in [&mut library, &mut program] {
                ended.stdout.retain(|character| !character.is_ascii_digit());
            }
        }
        if library == program {
            return library;
        }
        println!("{library:?}\n{program:?}");
    }
    panic!("{line}: not the same");
}

/// Two trees: `one/a` and `two/a` differ, `one/b`, `two/b` and `one/deep/b` are equal.
fn two_trees() -> Place {
    let place = Place::new();
    place.directories("one/deep two");
    for (name, text) in [
        ("one/a", "1\n2\n"),
        ("two/a", "1\n3\n"),
        ("one/b", "b"),
        ("two/b", "b"),
        ("one/deep/b", "b"),
    ] {
        place.file(name, text.as_bytes());
    }
    place
}

fn nothing() -> File {
    File::options().read(true).write(true).open("/dev/null").unwrap()
}

#[test]
fn in_process_calls_print_what_the_program_prints() {
    let place = two_trees();
    for (line, input, code) in [
        ("seekless cmp ./one/a ./one/a", "", 0),
        ("seekless cmp ./one/a ./two/a", "", 1),
        ("seekless cmp -l ./one/a -", "1\n3\n", 1),
        ("cmp ./one/a", "1\n2\n3", 1),
        ("seekless cmp ./one/a ./missing", "", 2),
        ("seekless cmp --json ./one/a ./two/a", "", 1),
        ("seekless cmp --help --color always", "", 0),
        ("seekless cmp --help", "", 0),
        ("seekless cmp -r ./one ./two", "", 1),
        ("seekless cmp -r -X - ./one ./two", "a\ndeep\n", 0),
        ("seekless cmp -r --help", "", 0),
        ("seekless cmp -r ./one", "", 2),
        ("seekless --version", "", 0),
        ("seekless --help", "", 0),
        ("seekless", "", 2),
        ("seekless bench --no-such", "", 2),
        ("seekless dupes remove", "", 2),
        ("seekless dupes --color always ./", "", 0),
        ("seekless dupes ./", "", 0),
        ("seekless dupes --json ./", "", 0),
        ("seekless dupes act list", "", 2),
        ("seekless methods --color always", "", 0),
        ("seekless methods", "", 0),
        ("seekless methods read_plain --code c", "", 0),
        ("seekless storage ./", "", 0),
        ("seekless storage --json ./", "", 0),
        ("seekless holes show ./one/b", "", 0),
        ("seekless update ./one/missing", "{}", 2),
        ("seekless cp -v ./missing ./three", "", 1),
        ("seekless generate completions zsh", "", 0),
        ("seekless generate man", "", 0),
        ("seekless suggest bash seekless c", "", 0),
        ("seekless report ./one/a", "", 2),
    ] {
        assert_eq!(compare(&place, line, input).code, Some(code), "{line}");
    }
}

#[test]
fn in_process_calls_of_several_threads_take_turns() {
    let place = &two_trees();
    let lines = [
        "seekless cmp -l ./one/a ./two/a",
        "seekless dupes ./",
        "seekless --help --color always",
        "seekless x",
    ];
    thread::scope(|scope| {
        for line in lines {
            scope.spawn(move || {
                let first = compare(place, line, "");
                let words: Vec<&str> = line.split(' ').skip(1).collect();
                for _ in 0..20 {
                    assert_eq!(place.call(&words), first);
                }
            });
        }
    });
}

#[test]
fn in_process_call_with_unread_output_does_not_end_the_process() {
    let place = two_trees();
    let [one, two, top] = ["one/a", "two/a", ""].map(|name| place.path(name).display().to_string());
    // A shell shows a program that SIGPIPE ended as 141; cmp is one.
    for (words, expected) in [(&["cmp", &one, &two][..], 141), (&["dupes", &top], 0), (&["--help"], 0)] {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let words = [&["seekless"], words].concat();
        let call = Call::new(words, Streams::new(nothing(), write, nothing()));
        assert_eq!(run(call), expected);
    }
}

#[test]
fn in_process_help_and_tables_fit_the_terminal_of_the_call() {
    let place = Place::new();
    for line in [
        "cmp --help --color never",
        "dupes --help",
        "sim list",
        "sim list --color never",
    ] {
        let (library, ()) = Terminal::of(60).used(|output| {
            let words = ["seekless"].into_iter().chain(line.split(' '));
            assert_eq!(run(Call::new(words, Streams::new(nothing(), output, nothing()))), 0);
        });
        let (program, ()) = Terminal::of(60).used(|output| {
            let mut program = place.command();
            program.args(line.split(' ')).stdout(output).stderr(nothing());
            assert!(program.status().unwrap().success());
        });
        assert_eq!(library, program, "{line}");
        // clap does not break the line of usage.
        let is_narrow = library.lines().all(|line| line.chars().count() < 70);
        assert!(is_narrow || !line.ends_with("never"), "{library}");
    }
}

#[test]
fn in_process_calls_read_the_configuration_each_time() {
    let place = Place::new();
    let help = || compare(&place, "seekless bench --help", "");
    let plain = help();
    place.directories("../config/seekless");
    let file = place.file(
        "../config/seekless/config.toml",
        b"budget = \"7m\"\ncolor = \"always\"\n",
    );
    let configured = help();
    assert!(configured.stdout.contains("[default: 7m]") && configured.stdout.contains('\x1b'));
    fs::remove_file(file).unwrap();
    assert_eq!(help(), plain);
}

#[test]
fn in_process_bench_starts_the_program_that_the_call_names() {
    let place = Place::new();
    let file = place.file("file", &vec![1; 1 << 20]).display().to_string();
    let words = "bench read --rounds 1 --methods read/sync,block=1M --file";
    let words: Vec<&str> = words.split(' ').chain([&*file]).collect();
    let named = place.call(&words).succeeded();
    assert!(named.stdout.contains("sync block=1M"), "{named:?}");
    let mut error = tempfile::tempfile().unwrap();
    let streams = Streams::new(nothing(), nothing(), error.try_clone().unwrap());
    let unnamed = Call::new([&["seekless"], &words[..]].concat(), streams);
    assert_eq!(run(unnamed.with_user_directory(place.path(".."))), 2);
    let mut told = String::new();
    error.rewind().unwrap();
    error.read_to_string(&mut told).unwrap();
    assert_contains(&told, &["the file of the program is not known"]);
}
