//! `--json` is one document and `--jsonl` a document on each line, whatever happens: if there is nothing to report, if
//! a path fails, if the command is interrupted, and with names that are not UTF-8 or contain control characters.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Child;

use clap::Command;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::golden::commands;
use crate::common::place::{Ended, Place, wait_for};

/// A name with a line break, an escape and a byte that is not UTF-8.
const ODD: &[u8] = b"odd\n\x1b[2J\xff";

/// The commands that have an option.
fn with_option(option: &str) -> BTreeSet<String> {
    let definition = seekless_cli::definition();
    let find = |words: &[String]| {
        words
            .iter()
            .try_fold(&definition, |at: &Command, word| at.find_subcommand(word))
    };
    let has = |words: &Vec<String>| {
        let mut arguments = find(words).unwrap().get_arguments();
        arguments.any(|argument| argument.get_long() == Some(option))
    };
    commands()
        .into_iter()
        .filter(has)
        .map(|words| words.join(" "))
        .collect()
}

/// Two trees, a sparse file, updates, and files with odd names; one is in both trees and differs.
fn place() -> Place {
    let place = Place::new();
    for tree in ["one", "other"] {
        for name in [OsStr::from_bytes(ODD), OsStr::new("file")] {
            place.file(Path::new(tree).join(name), tree.as_bytes());
        }
    }
    place.directories("empty");
    place.file(OsStr::from_bytes(ODD), &vec![0; 100_000]);
    place.file("plain", &vec![0; 100_000]);
    place.sparse("sparse", 1 << 20);
    place.file("updates", b"{\"offset\": 0, \"text\": \"O\"}\n");
    place.file("nonsense", b"nonsense\n");
    place
}

/// Words; `ODD` is replaced by the odd name.
fn words(line: &str) -> Vec<OsString> {
    let odd = |word: &str| (word == "ODD").then(|| OsStr::from_bytes(ODD).to_owned());
    let words = line.split_whitespace();
    words.map(|word| odd(word).unwrap_or_else(|| word.into())).collect()
}

/// The documents that a command printed. If it failed before the first, it printed nothing but the error.
fn printed(place: &Place, line: &str) -> Vec<Value> {
    let ended = place.call(&words(line));
    let is_failed = ended.code == Some(2);
    let is_told = is_failed && !ended.stderr.is_empty();
    assert!(ended.code <= Some(1) || is_told, "{line}: {}", ended.stderr);
    let text = &ended.stdout;
    let is_plain = |char: char| char == '\n' || char.is_ascii_graphic() || char == ' ';
    assert!(text.chars().all(is_plain), "{line}: {text:?}");
    assert!(is_failed || !text.is_empty(), "{line}: nothing was printed");
    let parsed = |text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"));
    if text.is_empty() {
        Vec::new()
    } else if line.contains("--jsonl") {
        text.lines().map(parsed).collect()
    } else {
        vec![parsed(text)]
    }
}

#[test]
fn json_is_one_document_in_every_command() {
    let place = place();
    let mut met = BTreeSet::new();
    place.call("dupes --action remove --keep first --plan-file plan .");
    let commands = with_option("json");
    for line in [
        "runs",
        "runs table",
        "runs show latest",
        "bench --list",
        "bench read --size 1M --rounds 1 --methods read/sync,block=128K --quiet",
        "bench read --dir gone",
        "runs",
        "runs table",
        "runs show latest",
        "runs show --alone latest",
        "runs show gone",
        "profile .",
        "profile gone",
        "profile show .",
        "profile list",
        "advise read ODD",
        "advise write . --size 1M",
        "advise copy gone",
        "advise update plain --count 3 --size 1",
        "advise . --settings",
        "runs compare --anyway latest latest",
        "methods read/sync",
        "methods update",
        "methods --dir gone",
        "storage . gone ODD /proc",
        "storage gone",
        "cache show ODD gone plain",
        "cache show empty",
        "cache show --all .",
        "cache show gone",
        "cache drop ODD gone",
        "cache drop gone",
        "cache warm ODD gone",
        "cache warm empty",
        "cache lock gone",
        "cmp ODD plain",
        "cmp ODD updates",
        "cmp ODD gone",
        "cmp -r one other",
        "cmp -r one one",
        "cmp -r empty empty",
        "cmp -r one gone",
        "cmp --same-size .",
        "cmp --same-size gone",
        "cp ODD copied",
        "cp one two empty",
        "cp gone copied",
        "holes show ODD gone sparse",
        "holes show --map --scan -r .",
        "holes show -r empty",
        "holes show .",
        "holes dig --dry-run ODD gone",
        "holes dig ODD gone",
        "holes fill ODD sparse gone",
        "dupes --quiet ODD gone .",
        "dupes --dirs .",
        "dupes empty",
        "holes fill -r empty",
        "dupes --unique .",
        "dupes act --dry-run --plan plan",
        "dupes act --plan gone --yes",
        "dupes undo --list",
        "holes punch --yes ODD 0 4",
        "holes punch gone 0 4K",
        "update ODD --from updates --dry-run",
        "update ODD --from updates",
        "update ODD --from nonsense",
        "update gone --from updates",
        "update ODD --recover",
        "sim list",
        "sim show",
        "sim show hdd-2009",
    ] {
        let documents = printed(&place, &format!("{line} --json"));
        assert!(documents.len() <= 1);
        let told = documents.first().map(Value::to_string).unwrap_or_default();
        let names_it = ["cache", "holes", "storage"]
            .iter()
            .any(|command| line.starts_with(command));
        if names_it && line.contains("ODD") {
            assert!(told.contains("6f64640a1b5b324aff"), "{line}: {told}");
        }
        let is_met = |command: &&String| line == **command || line.starts_with(&format!("{command} "));
        let met_here = commands.iter().filter(is_met).max_by_key(|command| command.len());
        met.extend(met_here.cloned());
    }
    assert_eq!(met, commands, "every command is here");
}

#[test]
fn jsonl_is_the_list_of_the_document_and_its_summary() {
    let place = place();
    let mut met = BTreeSet::new();
    place.call("dupes --action remove --keep first --plan-file plan .");
    for line in [
        "cache show ODD gone plain",
        "cache show empty",
        "cache drop ODD gone",
        "cache warm ODD gone",
        "cache lock gone",
        "holes show ODD gone sparse",
        "holes show -r --map empty",
        "holes dig --dry-run ODD gone",
        "holes fill -r empty",
        "dupes --quiet ODD gone .",
        "dupes --unique .",
        "dupes act --dry-run --plan plan",
        "cmp -r one other",
        "cmp -r one one",
    ] {
        let lines = printed(&place, &format!("{line} --jsonl"));
        let document = printed(&place, &format!("{line} --json")).remove(0);
        let (summary, results) = lines.split_last().unwrap();
        let is_search = line.starts_with("dupes -");
        let listed = &document[if is_search { "groups" } else { "results" }];
        let without_time = |value: &Value| {
            let mut value = value.clone();
            value.as_object_mut().unwrap().remove("seconds");
            value
        };
        // Dropping or warming has another result the second time.
        if !line.starts_with("cache") {
            assert_eq!(*listed, Value::from(results), "{line}");
            assert_eq!(without_time(&document["summary"]), without_time(summary), "{line}");
        }
        assert_eq!(listed.as_array().unwrap().len(), results.len(), "{line}");
        let command = line.split(" -").next().unwrap().split_whitespace().take(2);
        met.insert(command.collect::<Vec<_>>().join(" "));
    }
    let commands = with_option("jsonl");
    assert_eq!(met.len(), commands.len(), "{met:?} {commands:?}");
    assert!(commands.contains("cmp"), "{commands:?}");
    for line in ["cache show .", "holes show plain", "cmp -r one other", "dupes ."] {
        place.refuses((line, "--json --jsonl"), &["cannot be used with"]);
    }
}

/// A command that waits because its output is not read and the pipe is full.
fn stuck(place: &Place, line: &str) -> Child {
    let child = place.command().args(words(line)).spawn().unwrap();
    let waiting = || rustix::io::ioctl_fionread(child.stdout.as_ref().unwrap()).unwrap();
    wait_for("the pipe is full", || waiting() > 48 << 10);
    child
}

#[test]
fn json_of_a_stopped_command_is_a_whole_document() {
    let place = Place::new();
    for tree in ["one", "other"] {
        for number in 0..3000 {
            place.file(format!("{tree}/{number}"), tree.as_bytes());
        }
    }
    for line in [
        "cache show --all --json one other",
        "holes show -r --json one other",
        "cmp -r --json one other",
    ] {
        let child = stuck(&place, line);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        // The signal is taken before the pipe is read.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let ended = Ended::of(child);
        assert_eq!(ended.code, Some(130), "{line}: {}", ended.stderr);
        let document = ended.json();
        assert_eq!(document["summary"]["stopped"], true, "{line}");
        let count = document["results"].as_array().unwrap().len();
        assert!((100..5900).contains(&count), "{line}: {count}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = place();
    for line in [
        "bench --list --json",
        "bench read --size 1M --rounds 1 --methods read/sync,block=128K --export-csv -",
        "storage --json .",
        "cache show --json plain",
        "cache show --jsonl plain gone",
        "cmp -r --json one other",
        "cmp --json plain updates",
        "holes show --json plain gone",
        "--help",
        "--version",
        "help holes",
        "bench --help",
        "cmp -r --help",
        "cmp --help",
        "dupes --format csv .",
        "dupes --format fdupes .",
        "dupes --json .",
        "runs --json",
    ] {
        let Some(ended) = place.run_full(line) else { return };
        ended.failed_with(2, &["No space left on device"]);
    }
}
