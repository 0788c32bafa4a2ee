//! The command's output, compared with the reviewed files in `testdata/golden`.
//!
//! Text for people may change on purpose: `UPDATE_EXPECT=1 cargo test -p seekless-cli --all-features --test words golden`
//! writes the files again, for a review of the diff. Commands, options, exit codes and JSON keys are promises: `surface.txt`,
//! `exit-codes.txt` and `json-keys.txt` only ever gain lines.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use expect_test::expect_file;
use seekless_record::Run;
use serde_json::Value;

use crate::common::place::{Place, assert_contains};

const FULL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/testdata/full-run.json");
const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/testdata/runs");

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/golden").join(name)
}

fn assert_golden(name: &str, text: &str) {
    expect_file![golden(name)].assert_eq(text);
}

/// The words of every command that users can call, except `help`.
pub fn commands() -> Vec<Vec<String>> {
    fn walk(command: &Command, words: &[String], found: &mut Vec<Vec<String>>) {
        found.push(words.to_vec());
        for inner in inner_commands(command) {
            walk(inner, &[words, &[inner.get_name().to_owned()]].concat(), found);
        }
    }
    let mut found = Vec::new();
    walk(&seekless_cli::definition(), &[], &mut found);
    found
}

fn inner_commands(command: &Command) -> impl Iterator<Item = &Command> {
    let inner = command.get_subcommands();
    inner.filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
}

#[test]
#[cfg_attr(not(feature = "catalogue"), ignore = "needs all commands: --features catalogue")]
fn help_of_every_command_is_as_reviewed() {
    let place = Place::new();
    for words in commands() {
        let name = words.iter().fold("seekless".to_owned(), |name, word| name + "-" + word);
        let help = place.call((&words, "--help")).succeeded();
        assert_eq!(help.stderr, "");
        assert_golden(&format!("help/{name}.txt"), &help.stdout);
    }
}

#[test]
fn golden_counts_ratios_and_sizes_have_one_form() {
    let wrong = [
        (
            r"\b1 (contests|files|methods|rounds|trials|sittings|notes|runs|directories|names|holes|groups|pairs|times)\b",
            "plural",
        ),
        (r"[0-9]{3,} % slower", "a ratio from double the time on"),
        (r"\b[0-9.]+ [kKMGT]B\b[^/]", "KiB, MiB, GiB"),
        (r"-[0-9.]+ (s|ms|µs) more", "a negative difference"),
        (
            r"(read|write|copy|compare|update) ([0-9,]+ x )?[0-9.]+[KMGT]\b",
            "KiB, MiB, GiB in titles",
        ),
    ]
    .map(|(pattern, form)| (regex::Regex::new(pattern).unwrap(), form));
    let folders = ["help", "runs"].map(|folder| fs::read_dir(golden(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|ending| ending == "txt" || ending == "md")) {
        let text = fs::read_to_string(&file).unwrap();
        // Sentences of saved runs are as they were written.
        let is_old = |line: &&str| line.contains("Use ") || line.starts_with("Note") || line.starts_with("- ");
        for line in text.lines().filter(|line| !is_old(line)) {
            for (pattern, form) in &wrong {
                assert!(!pattern.is_match(line), "{}: {form}: {line}", file.display());
            }
        }
    }
}

#[test]
#[cfg_attr(not(feature = "catalogue"), ignore = "needs all commands: --features catalogue")]
fn commands_and_options_are_as_promised() {
    fn walk(command: &Command, words: &str, text: &mut String) {
        writeln!(text, "{words}").unwrap();
        let mut arguments: Vec<_> = command
            .get_arguments()
            .map(|argument| format!("{words} {}", described(argument)))
            .collect();
        arguments.sort();
        for line in arguments {
            writeln!(text, "{line}").unwrap();
        }
        for inner in inner_commands(command) {
            walk(inner, &format!("{words} {}", inner.get_name()), text);
        }
    }
    let mut text = String::new();
    walk(&seekless_cli::definition(), "seekless", &mut text);
    assert_golden("surface.txt", &text);
}

/// `--long -s <VALUE> {one|of|these} [default]`, as far as an argument has these.
fn described(argument: &Arg) -> String {
    let mut words = Vec::new();
    words.extend(argument.get_long().map(|long| format!("--{long}")));
    let aliases = argument.get_all_aliases().into_iter().flatten();
    words.extend(aliases.map(|alias| format!("--{alias}")));
    words.extend(argument.get_short().map(|short| format!("-{short}")));
    if argument.get_action().takes_values() {
        let names = argument
            .get_value_names()
            .map(|names| names.iter().map(ToString::to_string).collect());
        let names = names.unwrap_or_else(|| vec![argument.get_id().to_string()]);
        words.extend(names.iter().map(|name| format!("<{name}>")));
        let values = argument.get_possible_values();
        let values: Vec<_> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        words.extend((!values.is_empty()).then(|| format!("{{{}}}", values.join("|"))));
        let defaults = argument.get_default_values().iter();
        let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
        words.extend((!defaults.is_empty()).then(|| format!("[{}]", defaults.join(" "))));
    }
    words.join(" ")
}

#[test]
fn exit_codes_are_as_promised() {
    let place = Place::new();
    place.file("one", b"one\n");
    place.file("same", b"one\n");
    place.file("other", b"two\n");
    place.file("damaged.json", b"{\"version\": 2}");
    place.file("updates", b"{\"offset\": 0, \"text\": \"O\"}\n");
    place.file("nonsense", b"nonsense\n");
    place.file("d/file", b"d");
    place.file("e/file", b"e");
    let mut text = String::new();
    for line in [
        "",
        "--help",
        "--version",
        "no-such-command",
        "bench no-such-experiment",
        "bench --list",
        "bench --size 0",
        "bench read --methods read/no-such",
        "bench read --size 1M --rounds 1 --methods read/sync,block=128K --quiet",
        "cache show one",
        "cache show missing",
        "cache show missing one",
        "cache drop one",
        "cache warm one",
        "cmp one same",
        "cmp one other",
        "cmp one missing",
        "cmp --no-such-option one same",
        "cp one copied",
        "cp missing copied",
        "cp -l one copied",
        "cmp -r d d",
        "cmp -r d e",
        "cmp -r d missing",
        "generate methods",
        "generate completions no-such-shell",
        "holes show one",
        "holes show missing",
        "holes show missing one",
        "holes dig --dry-run one",
        "methods",
        "methods no-such-operation",
        "report missing.json",
        "report damaged.json",
        "runs",
        "runs show latest",
        "runs show missing",
        "runs import damaged.json",
        "storage .",
        "storage missing",
        "storage missing .",
        "storage /proc",
        "update one --from updates --dry-run",
        "update one --from updates",
        "update one --from nonsense",
        "update missing --from updates",
        "update one --recover",
    ] {
        let ended = place.call(line);
        let code = ended.code.expect("no signal ends these");
        writeln!(text, "{code} {}", format!("seekless {line}").trim_end()).unwrap();
    }
    assert_golden("exit-codes.txt", &text);
}

/// The keys of a document as paths, an element of a list as `[]`; and the paths that are null or empty here and so have
/// none below them.
fn keys(value: &Value, at: &str, found: &mut BTreeSet<String>, empty: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            // Objects of several kinds in one stream have keys of their own.
            let kind = fields.get("kind").and_then(Value::as_str).filter(|_| at.ends_with(':'));
            let at = kind.map_or(at.to_owned(), |kind| format!("{at} ({kind})"));
            for (name, inner) in fields {
                let path = format!("{at} {name}");
                keys(inner, &path, found, empty);
                found.insert(path);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                keys(item, &format!("{at} []"), found, empty);
            }
        }
        Value::Null | Value::Object(_) | Value::Array(_) => drop(empty.insert(at.to_owned())),
        _ => {}
    }
}

#[test]
fn json_keys_are_as_promised() {
    let place = Place::new();
    place.file("one", &vec![b'x'; 70_000]);
    place.file("other", &vec![b'y'; 70_000]);
    place.sparse("sparse", 1 << 20);
    place.file("updates", b"{\"offset\": 0, \"text\": \"O\"}\n");
    for name in ["d/a", "d/b", "e/a", "e/c"] {
        place.file(name, name.replace('/', "").as_bytes());
    }
    place.files("f/a g/b", b"equal");
    place.file("g/c", b"c");
    place.bench("").succeeded();
    let stored = |name: &str| fs::read(format!("{STORED}/{name}.json")).unwrap();
    place.file("first.json", &stored("interrupted"));
    place.file("second.json", &stored("resumed"));
    let (mut found, mut empty) = (BTreeSet::new(), BTreeSet::new());
    for line in [
        "bench --list --json",
        "cache show --all --jsonl one",
        "cache show --json one",
        "cache drop --jsonl one",
        "cache warm --jsonl one",
        "cmp --json one other",
        "cmp -r --jsonl d e",
        "cmp -r --json d e",
        "cmp --json --same-size d",
        "dupes --dirs --jsonl f g",
        "dupes --dirs --json f g",
        "holes show --jsonl sparse",
        "holes show --json sparse",
        "holes dig --jsonl one",
        "holes fill --jsonl sparse",
        "holes punch --yes --json one 0 4K",
        "methods --json",
        "runs --json",
        "runs table --json",
        "runs compare --anyway --all --json first.json second.json",
        "sim show --json",
        "storage --json .",
        "update --json --dry-run one --from updates",
        "update --json one --from updates",
    ] {
        let ended = place.call(line);
        assert!(ended.code <= Some(1), "{line}: {}", ended.stderr);
        let documents = serde_json::Deserializer::from_str(&ended.stdout).into_iter::<Value>();
        let command = format!("{}:", line.split(" --").next().unwrap());
        for document in documents {
            let document = document.unwrap_or_else(|error| panic!("{line}: {error}"));
            keys(&document, &command, &mut found, &mut empty);
        }
    }
    // Objects that are empty on this machine may have keys on another.
    let known = fs::read_to_string(golden("json-keys.txt")).unwrap_or_default();
    let cannot_be_seen = |path: &&str| empty.iter().any(|empty| path.starts_with(&format!("{empty} ")));
    found.extend(known.lines().filter(cannot_be_seen).map(str::to_owned));
    let text = found.iter().fold(String::new(), |text, path| text + path + "\n");
    assert_golden("json-keys.txt", &text);
}

/// The page without style, script (which have their own files) and the run, one element per line.
fn body(html: &str) -> String {
    let mut text = html.to_owned();
    for element in ["style", "script"] {
        let (open, close) = (format!("<{element}"), format!("</{element}>"));
        let mut from = 0;
        while let Some(start) = text[from..].find(&open).map(|at| from + at) {
            let content = start + text[start..].find('>').expect("a tag ends") + 1;
            let end = content + text[content..].find(&close).expect("an element ends");
            text.replace_range(content..end, "");
            from = content + close.len();
        }
    }
    let start = text.find("<body").expect("a page has a body");
    text[start..].replace("><", ">\n<") + "\n"
}

#[test]
fn runs_show_report_and_exports_are_as_reviewed() {
    let place = Place::new();
    let paths = [
        FULL.into(),
        format!("{STORED}/read-write.json"),
        format!("{STORED}/update-planned.json"),
    ];
    for path in paths {
        let name = Path::new(&path).file_stem().unwrap().to_str().unwrap();
        // Under one name for all, wherever the checkout stands.
        fs::copy(&path, place.path("run.json")).unwrap();
        let run: Run = seekless_record::from_json(&fs::read(&path).unwrap()).unwrap();
        for (ending, arguments) in [("txt", &["run.json"][..]), ("all.txt", &["--all", "run.json"])] {
            let shown = place.call(("runs show", arguments)).succeeded().stdout;
            assert_golden(&format!("runs/{name}.{ending}"), &shown);
        }
        place.call("report run.json --output page.html").succeeded();
        let page = place.text("page.html");
        let table = seekless_report::to_markdown(&run);
        if path == FULL {
            assert_golden(&format!("runs/{name}.body.html"), &body(&page));
        } else {
            // The rows of methods are the same in all forms: name and time.
            let shown = page.replace("<wbr>", "");
            let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| method");
            for row in table.lines().filter(is_row) {
                let row = row.trim_matches(['|', ' ']).replace("\\_", "_");
                for cell in row.split(" | ").take(2) {
                    assert_contains(&shown, &[cell.split(" (").next().unwrap()]);
                }
            }
        }
        assert_golden(&format!("runs/{name}.csv"), &seekless_report::to_csv(&run).unwrap());
        assert_golden(&format!("runs/{name}.md"), &table);
        let written = seekless_record::to_json(&run).unwrap();
        assert_golden(&format!("runs/{name}.newest.json"), &written);
    }
}

#[test]
fn runs_stored_by_earlier_builds_are_shown_and_reported() {
    let place = Place::new();
    let entries = fs::read_dir(STORED).unwrap().map(|entry| entry.unwrap().path());
    let paths: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    assert!(paths.len() >= 12, "{paths:?}");
    for path in &paths {
        let path = path.to_str().unwrap();
        place.call(&["runs", "show", "--all", path]).succeeded();
        place.call(&["report", path, "--output", "page.html"]).succeeded();
        place.call(&["runs", "import", path]).succeeded();
    }
    place.call("runs table").succeeded();
}
