//! The completions that shells offer for a command line.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Arg, Command, ValueHint};

use crate::common::place::{Ended, Place, prepared, wait_for};

/// The completions at the end of a line, without their descriptions.
fn offered(place: &Place, line: &str) -> Vec<String> {
    let words = ["suggest", "zsh", "seekless"].into_iter().chain(line.split(' '));
    let ended = place.call(&words.collect::<Vec<_>>()).succeeded();
    assert_eq!(ended.stderr, "");
    let lines = ended.stdout.lines().map(|line| line.split('\t').next().unwrap());
    lines.map(str::to_owned).collect()
}

fn keep_runs(place: &Place, ids: &[&str]) {
    for id in ids {
        let directory = if id.starts_with("imported-") {
            "imported"
        } else {
            "runs"
        };
        let directory = place.path("../data/seekless").join(directory);
        fs::create_dir_all(&directory).unwrap();
        // Their content is not read.
        fs::write(directory.join(format!("{id}.json")), "damaged").unwrap();
        fs::write(directory.join(format!("{id}.html")), "").unwrap();
    }
}

const RUNS: [&str; 3] = [
    "2026-11-20T14-03-22-read",
    "2026-11-21T09-00-00-read+write-before-upgrade",
    "imported-2026-11-22T00-00-00-copy",
];

#[test]
fn experiments_and_files_are_offered_to_bench() {
    let place = Place::new();
    assert_eq!(offered(&place, "bench re"), ["read", "read-ahead", ":files .toml"]);
    assert!(offered(&place, "bench read ").contains(&"methods-2014".to_owned()));
}

#[test]
fn runs_are_offered_newest_first_with_their_time_and_experiment() {
    let place = Place::new();
    keep_runs(&place, &RUNS);
    let newest_first = ["latest", RUNS[1], RUNS[0], RUNS[2], ":files .json"];
    // The shell does not wait for the list if the machine is too busy to make it.
    for line in ["report ", "runs show ", "runs compare latest ", "bench --like "] {
        wait_for(line, || offered(&place, line) == newest_first);
    }
    wait_for("runs of a day", || {
        offered(&place, "runs remove 2026-11-20") == [RUNS[0]]
    });
    let told = || {
        let mut command = place.command();
        command
            .env("TZ", "UTC")
            .args(["suggest", "fish", "seekless", "report", ""]);
        Ended::of(command.spawn().unwrap()).stdout
    };
    wait_for("what they are", || {
        told().starts_with(&format!(
            "latest\t{}\n{}\t2026-11-21 09:00, read+write-before-upgrade\n",
            RUNS[1], RUNS[1]
        ))
    });
    assert!(told().is_empty() || told().contains("\t2026-11-22 00:00, copy, imported\n"));
}

#[test]
fn methods_are_those_of_the_operation_and_then_the_options_they_take() {
    let place = Place::new();
    assert_eq!(offered(&place, "bench read --methods read/sy"), ["read/sync"]);
    assert_eq!(offered(&place, "bench read --methods=read/sy"), ["--methods=read/sync"]);
    assert_eq!(offered(&place, "bench read --methods write/"), [""; 0]);
    assert_eq!(offered(&place, "bench --methods write/sy"), ["write/sync"]);
    let all = offered(&place, "cmp --method ");
    assert!(
        all.len() > 3 && all.iter().all(|method| method.starts_with("compare/")),
        "{all:?}"
    );
    assert_eq!(offered(&place, "update --method in"), ["in-order"]);
    let options = offered(&place, "bench --methods read/sync,direct,");
    assert!(options.contains(&"read/sync,direct,block=".to_owned()), "{options:?}");
    // Neither options that are already given, nor those that the method refuses.
    assert!(
        !options.iter().any(|option| option.ends_with("direct,direct")),
        "{options:?}"
    );
    let random = offered(&place, "bench --methods read/sync,access=random,");
    assert!(!random.iter().any(|option| option.contains("hint=")), "{random:?}");
    assert_eq!(offered(&place, "methods wr")[0], "write");
}

#[test]
fn options_are_offered_to_those_who_begin_one() {
    let place = Place::new();
    assert_eq!(offered(&place, "bench --di"), ["--dir"]);
    assert_eq!(offered(&place, "bench --cache "), ["cold", "warm", "both", "over"]);
    assert_eq!(offered(&place, "bench --dir "), [":directories"]);
    assert_eq!(offered(&place, "storage "), [":files"]);
    assert_eq!(offered(&place, "cache "), ["show", "drop", "warm", "lock", "help"]);
    assert!(
        !offered(&place, "")
            .iter()
            .any(|command| command == "trial" || command == "suggest")
    );
}

/// Arguments whose values only their user knows.
const FREE: [&str; 19] = [
    "TIME",
    "SIZE",
    "N",
    "NS",
    "NAME",
    "X",
    "offset",
    "length",
    "SKIP1",
    "SKIP2",
    "SKIP[:SKIP]",
    "LIMIT",
    "AGE",
    "PATTERN",
    "REGEX",
    "UID",
    "READS/WRITES",
    "URL",
    "VERSION",
];

#[test]
fn every_argument_is_completed_unless_only_its_user_knows_its_values() {
    fn walk(place: &Place, command: &Command, words: &str) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            walk(place, inner, &format!("{words}{} ", inner.get_name()));
        }
        let is_shown = |argument: &&Arg| !argument.is_hide_set() && argument.get_action().takes_values();
        for argument in command.get_arguments().filter(is_shown) {
            let names = argument.get_value_names().unwrap_or_default();
            let name = names.first().map_or(argument.get_id().as_str(), |name| name.as_str());
            let is_first = command.get_positionals().next() == Some(argument);
            let line = match argument.get_long() {
                Some(long) if argument.is_require_equals_set() => format!("{words}--{long}="),
                Some(long) => format!("{words}--{long} "),
                None if is_first => words.to_owned(),
                None => continue,
            };
            if name == "DISK" {
                continue; // Whether a simulated disk runs here is not known.
            }
            let offered = offered(place, &line);
            assert_eq!(offered.is_empty(), FREE.contains(&name), "{line}<{name}>: {offered:?}");
            let is_path = argument.get_value_hint() == ValueHint::AnyPath;
            assert!(
                !is_path || offered.iter().any(|line| line.starts_with(':')),
                "{line}<{name}>"
            );
        }
    }
    let place = Place::new();
    keep_runs(&place, &RUNS);
    walk(&place, &seekless_cli::definition(), "");
}

/// The output of a shell that runs a script and finds this program as `seekless`.
fn in_shell(place: &Place, shell: &[&str], script: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_seekless")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    // `env` finds the shell; all else is as for the program itself.
    let mut command = place.command_of("env");
    command.args(shell).arg(script).env("PATH", path);
    let ended = Ended::of(command.spawn().unwrap()).succeeded();
    assert_eq!(ended.stderr, "", "{script}");
    ended.stdout
}

/// The answer to bash for a line, with its words as bash splits them.
fn in_bash(place: &Place, words: &[&str], typed: &str) -> Vec<String> {
    let script = format!(
        ". <(seekless generate completions bash)\n\
         COMP_WORDS=('{}'); COMP_CWORD={}; _seekless seekless '{typed}' '' 2>/dev/null\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join("' '"),
        words.len() - 1
    );
    let told = in_shell(place, &["bash", "--norc", "-c"], &script);
    told.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_what_it_splits_into_words() {
    let place = Place::new();
    place.file("my own.toml", b"");
    place.file("other.txt", b"");
    assert_eq!(
        in_bash(&place, &["seekless", "bench", "re"], "re"),
        ["read", "read-ahead"]
    );
    assert_eq!(
        in_bash(&place, &["seekless", "bench", "m"], "m"),
        ["methods-2014", "my\\ own.toml"]
    );
    let split = ["seekless", "bench", "read", "--methods", "=", "read/sy"];
    assert_eq!(in_bash(&place, &split, "read/sy"), ["read/sync"]);
    let split = ["seekless", "bench", "--cache", "="];
    assert_eq!(in_bash(&place, &split, ""), ["cold", "warm", "both", "over"]);
    let split = ["seekless", "cmp", "--method", "compare/sync,order", "=", "pre"];
    assert_eq!(in_bash(&place, &split, "pre"), ["preload"]);
    assert_eq!(in_bash(&place, &["seekless", "no-such", "x"], "x"), [""; 0]);
}

#[test]
fn fish_offers_the_same() {
    if !prepared("fish", &["--version"].map(OsStr::new)) {
        println!("skipped: fish is not installed");
        return;
    }
    let place = Place::new();
    place.file("my own.toml", b"");
    place.directories("folder");
    let offered = |line: &str| {
        let script = format!("seekless generate completions fish | source; complete -C '{line}'");
        in_shell(&place, &["fish", "--no-config", "-c"], &script)
    };
    assert!(offered("seekless bench re").starts_with("read\tReading "));
    assert_eq!(offered("seekless bench m").lines().last(), Some("my own.toml"));
    assert_eq!(offered("seekless bench --dir="), "--dir=folder/\n");
}

#[test]
fn the_script_for_zsh_has_no_mistake() {
    if !prepared("zsh", &["--version"].map(OsStr::new)) {
        println!("skipped: zsh is not installed");
        return;
    }
    let place = Place::new();
    let script = "compdef() { echo $1 $2 }; . <(seekless generate completions zsh); whence -w _seekless";
    let told = in_shell(&place, &["zsh", "-f", "-c"], script);
    assert_eq!(told, "_seekless seekless\n_seekless: function\n");
}

#[test]
fn a_disk_that_does_not_answer_and_a_damaged_store_keep_nobody_waiting() {
    let place = Place::new();
    keep_runs(&place, &RUNS);
    let list = place.file("bin/ls", b"#!/bin/sh\nexec sleep 100\n");
    fs::set_permissions(&list, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = place.command();
    command
        .env("PATH", path)
        .args(["suggest", "bash", "seekless", "report", ""]);
    let started = Instant::now();
    let ended = Ended::of(command.spawn().unwrap()).succeeded();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (":files .json\n", ""));
    fs::remove_dir_all(place.path("../data/seekless/runs")).unwrap();
    fs::write(place.path("../data/seekless/runs"), "").unwrap();
    wait_for("what was imported", || {
        offered(&place, "report ") == [RUNS[2], ":files .json"]
    });
}

#[test]
fn completing_writes_nothing() {
    let place = Place::new();
    for line in ["bench ", "report ", "methods --dir . ", "cmp "] {
        offered(&place, line);
    }
    assert!(place.content().is_empty() && !place.path("../data").exists());
}
