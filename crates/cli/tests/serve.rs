//! `seekless hub`, which only programs with the feature `hub` have: its help, and what an administrator does.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};

use rustix::process::{Pid, Signal, kill_process};

use common::place::{Ended, Place};

/// The words of `hub` and of each command below it.
fn commands() -> Vec<Vec<String>> {
    let definition = seekless_cli::definition();
    let hub = definition.find_subcommand("hub").unwrap();
    let below = hub.get_subcommands().map(clap::Command::get_name);
    let below = below
        .filter(|name| *name != "help")
        .map(|name| vec!["hub".to_owned(), name.to_owned()]);
    [vec!["hub".to_owned()]].into_iter().chain(below).collect()
}

#[test]
fn the_help_has_examples_and_fits_80_columns_and_there_are_manual_pages() {
    let place = Place::new();
    place.run(&["generate", "man", "--folder", "man1"]).succeeded();
    assert_eq!(commands().len(), 7);
    for words in commands() {
        let mut command = place.command();
        command.args(&words).arg("--help").env("COLUMNS", "80");
        let help = Ended::of(command.spawn().unwrap()).succeeded().stdout;
        assert!(help.contains("Examples:\n  seekless hub "), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        let page = fs::read_to_string(place.path(format!("man1/seekless-{}.1", words.join("-")))).unwrap();
        assert!(page.contains("EXAMPLES") && page.contains("EXIT STATUS"), "{page}");
    }
}

#[test]
fn a_hub_keeps_what_is_shared_and_its_administrator_moves_and_removes_it() {
    let place = Place::new();
    place.bench("").succeeded();
    let mut serve = place.command();
    serve.args(["hub", "serve", "--listen", "127.0.0.1:0"]);
    let mut serving = serve.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(serving.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let url = said.split("The hub is at ").nth(1).unwrap().split("/;").next().unwrap();
    let shared = place.run(&["runs", "share", "--yes", "--hub", url]).succeeded().stdout;
    let id = shared.split("/runs/").nth(1).unwrap()[..32].to_owned();
    kill_process(Pid::from_child(&serving), Signal::TERM).unwrap();
    Ended::of(serving).succeeded();

    let hub = |arguments: &str| {
        let words: Vec<&str> = ["hub"].into_iter().chain(arguments.split(' ')).collect();
        place.run(&words)
    };
    assert_eq!(hub("verify").succeeded().stdout, "1 run, 0 damaged.\n");
    hub("export --output hub.jsonl").succeeded();
    assert!(hub("export --output hub.jsonl").refused().contains("File exists"));
    let other = "--database sqlite:other.db";
    for added in ["1 run added.\n", "0 runs added.\n"] {
        assert_eq!(
            hub(&format!("import --own hub.jsonl {other}")).succeeded().stdout,
            added
        );
    }
    let banned = hub(&format!("ban {id} {other}")).succeeded().stdout;
    assert!(
        banned.starts_with("Banned ") && banned.ends_with("; 1 run removed.\n"),
        "{banned}"
    );
    assert_eq!(
        hub(&format!("remove {id}")).succeeded().stdout,
        format!("Removed  {id}\n")
    );
    assert!(hub(&format!("remove {id}")).refused().contains("no such run"));
    for database in ["", other] {
        let verify = hub(format!("verify {database}").trim_end());
        assert_eq!(verify.succeeded().stdout, "0 runs, 0 damaged.\n");
    }
}
