//! The completions that shells offer for a command line.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Arg, Command, ValueHint};

use crate::common::place::{Ended, Place, prepared, set_mode, wait_for, words};

/// The completions at the end of a line, without their descriptions.
fn offered(place: &Place, line: &str) -> Vec<String> {
    let ended = place.call(("suggest zsh seekless", &words(line))).succeeded();
    assert_eq!(ended.stderr, "");
    let lines = ended.stdout.lines().map(|line| line.split('\t').next().unwrap());
    lines.map(str::to_owned).collect()
}

fn keep_runs(place: &Place, ids: &[&str]) {
    for id in ids {
        let is_imported = id.starts_with("imported-");
        let directory = if is_imported { "imported" } else { "runs" };
        // Their content is not read.
        place.file(format!("../data/seekless/{directory}/{id}.json"), b"damaged");
        place.file(format!("../data/seekless/{directory}/{id}.html"), b"");
    }
}

const RUNS: [&str; 3] = [
    "2026-11-20T14-03-22-read",
    "2026-11-21T09-00-00-read+write-before-upgrade",
    "imported-2026-11-22T00-00-00-copy",
];

#[test]
fn completions_of_bench_are_experiments_and_files() {
    let place = Place::new();
    assert_eq!(offered(&place, "bench re"), ["read", "read-ahead", ":files .toml"]);
    assert!(offered(&place, "bench read ").contains(&"methods-2014".to_owned()));
}

#[test]
fn completions_of_runs_are_the_newest_first() {
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
        Ended::by(&mut command).stdout
    };
    let [_, newest, _] = RUNS;
    let first = format!("latest\t{newest}\n{newest}\t2026-11-21 09:00, read+write-before-upgrade\n");
    wait_for("what they are", || told().starts_with(&first));
    assert!(told().is_empty() || told().contains("\t2026-11-22 00:00, copy, imported\n"));
}

#[test]
fn completions_of_methods_are_those_of_the_operation() {
    let place = Place::new();
    assert_eq!(offered(&place, "bench read --methods read/sy"), ["read/sync"]);
    assert_eq!(offered(&place, "bench read --methods=read/sy"), ["--methods=read/sync"]);
    assert_eq!(offered(&place, "bench read --methods write/"), [""; 0]);
    assert_eq!(offered(&place, "bench --methods write/sy"), ["write/sync"]);
    let all = offered(&place, "cmp --method ");
    let is_right = |method: &String| method.starts_with("compare/");
    assert!(all.len() > 3 && all.iter().all(is_right), "{all:?}");
    assert_eq!(offered(&place, "update --method in"), ["in-order"]);
    let options = offered(&place, "bench --methods read/sync,direct,");
    assert!(options.contains(&"read/sync,direct,block=".to_owned()), "{options:?}");
    // Neither options that are already given, nor those that the method refuses.
    let mut repeated = options.iter().filter(|option| option.ends_with("direct,direct"));
    assert_eq!(repeated.next(), None);
    let random = offered(&place, "bench --methods read/sync,access=random,");
    assert!(!random.iter().any(|option| option.contains("hint=")), "{random:?}");
    assert_eq!(offered(&place, "methods wr")[0], "write");
}

#[test]
fn completions_of_options_are_for_those_who_begin_one() {
    let place = Place::new();
    assert_eq!(offered(&place, "bench --di"), ["--dir"]);
    assert_eq!(offered(&place, "bench --cache "), ["cold", "warm", "both", "over"]);
    assert_eq!(offered(&place, "bench --dir "), [":directories"]);
    assert_eq!(offered(&place, "storage "), [":files"]);
    assert_eq!(offered(&place, "cache "), ["show", "drop", "warm", "lock", "help"]);
    let commands = offered(&place, "");
    assert!(
        !commands
            .iter()
            .any(|command| command == "trial" || command == "suggest")
    );
}

/// Arguments whose values only their user knows.
const FREE: &str = "TIME SIZE N NS NAME X offset length SKIP1 SKIP2 SKIP[:SKIP] LIMIT AGE PATTERN REGEX UID \
     READS/WRITES URL VERSION";

#[test]
fn completions_exist_for_every_argument_but_free_ones() {
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
            assert_eq!(
                offered.is_empty(),
                FREE.split(' ').any(|free| free == name),
                "{line}<{name}>: {offered:?}"
            );
            let is_path = argument.get_value_hint() == ValueHint::AnyPath;
            let has_files = offered.iter().any(|line| line.starts_with(':'));
            assert!(!is_path || has_files, "{line}<{name}>");
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
    let ended = Ended::by(&mut command).succeeded();
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
    let lines = told.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn completions_in_bash_split_words() {
    let place = Place::new();
    place.file("my own.toml", b"");
    place.file("other.txt", b"");
    for (line, typed, expected) in [
        ("bench re", "re", &["read", "read-ahead"][..]),
        ("bench m", "m", &["methods-2014", "my\\ own.toml"]),
        ("bench read --methods = read/sy", "read/sy", &["read/sync"]),
        ("bench --cache =", "", &["cold", "warm", "both", "over"]),
        ("cmp --method compare/sync,order = pre", "pre", &["preload"]),
        ("no-such x", "x", &[]),
    ] {
        let words = words(line);
        assert_eq!(in_bash(&place, &[&["seekless"], &words[..]].concat(), typed), expected);
    }
}

#[test]
fn completions_in_fish_are_the_same() {
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
fn completions_in_zsh_load() {
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
fn completions_do_not_wait_for_a_disk_or_a_damaged_store() {
    let place = Place::new();
    keep_runs(&place, &RUNS);
    let list = place.file("bin/ls", b"#!/bin/sh\nexec sleep 100\n");
    set_mode(&list, 0o755);
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = place.command();
    command
        .env("PATH", path)
        .args(["suggest", "bash", "seekless", "report", ""]);
    let started = Instant::now();
    let ended = Ended::by(&mut command).succeeded();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (":files .json\n", ""));
    fs::remove_dir_all(place.path("../data/seekless/runs")).unwrap();
    fs::write(place.path("../data/seekless/runs"), "").unwrap();
    wait_for("what was imported", || {
        offered(&place, "report ") == [RUNS[2], ":files .json"]
    });
}

#[test]
fn completions_write_nothing() {
    let place = Place::new();
    for line in ["bench ", "report ", "methods --dir . ", "cmp "] {
        offered(&place, line);
    }
    assert!(place.content().is_empty() && !place.path("../data").exists());
}
