//! The program: its help, and what an administrator does.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Command;

use expect_test::expect_file;
use rustix::process::{Pid, Signal, kill_process};

use crate::generated;
use crate::place::{Ended, Place};

#[test]
fn the_help_has_examples_and_fits_80_columns_and_there_are_manual_pages() {
    let place = Place::new();
    fs::create_dir(place.path("man1")).unwrap();
    place.run(&["man", "--folder", "man1"]).succeeded();
    let definition = seekless_hub::command::definition();
    let below = definition.get_subcommands().map(clap::Command::get_name);
    let commands: Vec<Option<&str>> = [None].into_iter().chain(below.map(Some)).collect();
    assert_eq!(commands.len(), 12);
    let mut all = String::new();
    for name in commands {
        let words: Vec<&str> = name.into_iter().chain(["--help"]).collect();
        let help = Ended::of(place.command(&words).env("COLUMNS", "80").spawn().unwrap()).succeeded();
        assert!(help.contains("Examples:\n  seekless-hub "), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        all = [&all, "$ seekless-hub ", &words.join(" "), "\n", &help, "\n"].concat();
        let page = name.map_or("seekless-hub".to_owned(), |name| format!("seekless-hub-{name}"));
        let page = fs::read_to_string(place.path(&format!("man1/{page}.1"))).unwrap();
        assert!(page.contains("Examples:") && page.contains(".SH SYNOPSIS"), "{page}");
        assert!(name.is_some() || page.contains("The exit code is"), "{page}");
    }
    // Commands and options are promises: review the difference before `UPDATE_EXPECT=1` writes it.
    expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/help.txt")].assert_eq(&all);
    let version = place.run(&["--version"]).succeeded();
    assert_eq!(version, concat!("seekless-hub ", env!("CARGO_PKG_VERSION"), "\n"));
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&["completions", shell]).succeeded();
        assert!(
            script.contains("seekless-hub") && script.contains("withdraw"),
            "{script}"
        );
    }
}

/// The words of a line of an example, as a shell makes them.
fn words(line: &str) -> Vec<String> {
    let ends = [" | ", " > ", " #"].map(|end| line.find(end).unwrap_or(line.len()));
    let call = line[..ends.into_iter().min().unwrap()].trim();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("printf '%s\\n' {call}")]);
    let printed = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    printed.lines().map(str::to_owned).collect()
}

#[test]
fn every_example_of_help_and_documentation_is_a_command() {
    let texts = [
        include_str!("../../testdata/help.txt"),
        include_str!("../../../docs/hub.md"),
    ];
    let lines = texts.into_iter().flat_map(str::lines).map(str::trim_start);
    let examples: Vec<&str> = lines.filter(|line| line.starts_with("seekless-hub ")).collect();
    assert!(examples.len() > 30, "{examples:?}");
    for line in examples {
        let result = seekless_hub::command::definition().try_get_matches_from(words(line));
        // A call for help is one, too.
        let refused = result.err().filter(clap::Error::use_stderr);
        assert!(refused.is_none(), "{line}: {refused:?}");
    }
}

#[test]
fn the_end_of_a_reader_is_no_error_and_bad_input_is() {
    let place = Place::new();
    let mut child = place.command(&["completions", "bash"]).spawn().unwrap();
    drop(child.stdout.take());
    Ended::of(child).succeeded();
    let refused = place.run(&["serv"]).refused();
    assert!(
        refused.starts_with("error: ") && refused.contains("'serve'"),
        "{refused}"
    );
    let refused = place.run(&["verify", "--database", "mysql:x"]).refused();
    assert!(refused.starts_with("seekless-hub: "), "{refused}");
}

#[test]
fn a_hub_keeps_what_is_shared_and_its_administrator_moves_and_removes_it() {
    let place = Place::new();
    place.store().save(&generated::run(1, 1)).unwrap();
    let mut serving = place.command(&["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(serving.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let url = said.split("The hub is at ").nth(1).unwrap().split("/;").next().unwrap();
    let shared = place.run(&["share", "--yes", "--hub", url]).succeeded();
    let id = shared.split("/runs/").nth(1).unwrap()[..32].to_owned();
    kill_process(Pid::from_child(&serving), Signal::TERM).unwrap();
    Ended::of(serving).succeeded();

    let hub = |arguments: &str| place.run(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(hub("verify").succeeded(), "1 run, 0 damaged.\n");
    hub("export --output hub.jsonl").succeeded();
    assert!(hub("export --output hub.jsonl").refused().contains("File exists"));
    let export = fs::read_to_string(place.path("hub.jsonl")).unwrap();
    assert_eq!(hub("export").succeeded(), export);
    let other = "--database sqlite:other.db";
    for added in ["1 run added.\n", "0 runs added.\n"] {
        assert_eq!(hub(&format!("import --own hub.jsonl {other}")).succeeded(), added);
    }
    let banned = hub(&format!("ban {id} {other}")).succeeded();
    assert!(
        banned.starts_with("Banned ") && banned.ends_with("; 1 run removed.\n"),
        "{banned}"
    );
    assert_eq!(hub(&format!("remove {id}")).succeeded(), format!("Removed  {id}\n"));
    assert!(hub(&format!("remove {id}")).refused().contains("no such run"));
    for database in ["", other] {
        let verify = hub(format!("verify {database}").trim_end());
        assert_eq!(verify.succeeded(), "0 runs, 0 damaged.\n");
    }
}
