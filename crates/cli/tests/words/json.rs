//! `--json` is one document and `--jsonl` a document on each line, whatever happens: if there is nothing to report, if
//! a path fails, if the command is interrupted, and with names that are not UTF-8 or contain control characters.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
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
        fs::create_dir(place.path(tree)).unwrap();
        for name in [OsStr::from_bytes(ODD), OsStr::new("file")] {
            fs::write(place.path(tree).join(name), tree).unwrap();
        }
    }
    place.directories("empty");
    place.file(OsStr::from_bytes(ODD), &vec![0; 100_000]);
    place.file("plain", &vec![0; 100_000]);
    File::create(place.path("sparse")).unwrap().set_len(1 << 20).unwrap();
    place.file("updates", b"{\"offset\": 0, \"text\": \"O\"}\n");
    place.file("nonsense", b"nonsense\n");
    place
}

/// Words; `ODD` is replaced by the odd name.
fn words(line: &str) -> Vec<OsString> {
    let word = |word| {
        if word == "ODD" {
            OsStr::from_bytes(ODD)
        } else {
            OsStr::new(word)
        }
    };
    line.split_whitespace().map(|each| word(each).to_owned()).collect()
}

/// The documents that a command printed. If it failed before the first, it printed nothing but the error.
fn printed(place: &Place, line: &str) -> Vec<Value> {
    let ended = place.call(&words(line));
    let is_failed = ended.code == Some(2);
    assert!(
        ended.code <= Some(1) || is_failed && !ended.stderr.is_empty(),
        "{line}: {}",
        ended.stderr
    );
    let text = &ended.stdout;
    assert!(
        text.chars()
            .all(|char| char == '\n' || char.is_ascii_graphic() || char == ' '),
        "{line}: {text:?}"
    );
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
    place.file("report", place.call("dupes --json .").stdout.as_bytes());
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
        "dupes --quiet ODD gone .",
        "dupes --unique .",
        "dupes act remove --keep first --dry-run --from report",
        "dupes act remove --keep first --from gone --yes",
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
        let is_met = |command: &&String| line == **command || line.starts_with(&format!("{command} "));
        met.extend(
            commands
                .iter()
                .filter(is_met)
                .max_by_key(|command| command.len())
                .cloned(),
        );
    }
    assert_eq!(met, commands, "every command is here");
}

#[test]
fn lines_are_the_list_of_the_document_and_its_summary() {
    let place = place();
    let mut met = BTreeSet::new();
    place.file("report", place.call("dupes --json .").stdout.as_bytes());
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
        "dupes act remove --keep first --dry-run --from report",
        "cmp -r one other",
        "cmp -r one one",
    ] {
        let lines = printed(&place, &format!("{line} --jsonl"));
        let document = printed(&place, &format!("{line} --json")).remove(0);
        let (summary, results) = lines.split_last().unwrap();
        let listed = &document[if line.starts_with("dupes -") {
            "groups"
        } else {
            "results"
        }];
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
        met.insert(
            line.split(" -")
                .next()
                .unwrap()
                .split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" "),
        );
    }
    let commands = with_option("jsonl");
    assert!(
        met.len() == commands.len() && commands.contains("cmp"),
        "{met:?} {commands:?}"
    );
    for line in ["cache show .", "holes show plain", "cmp -r one other", "dupes ."] {
        let ended = place.call(&words(&format!("{line} --json --jsonl"))).refused();
        assert!(ended.contains("cannot be used with"), "{line}: {ended}");
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
fn a_command_that_is_stopped_in_the_middle_ends_its_document() {
    let place = Place::new();
    for tree in ["one", "other"] {
        fs::create_dir(place.path(tree)).unwrap();
        for number in 0..3000 {
            fs::write(place.path(tree).join(format!("{number}")), tree).unwrap();
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
        let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(document["summary"]["stopped"], true, "{line}");
        let count = document["results"].as_array().unwrap().len();
        assert!((100..5900).contains(&count), "{line}: {count}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let place = place();
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
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
        let mut command = place.command();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = Ended::of(command.args(words(line)).stdout(full).spawn().unwrap());
        assert_eq!(ended.code, Some(2), "{line}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("No space left on device"),
            "{line}: {}",
            ended.stderr
        );
    }
}
