//! Help and version, and output to a pipe that is closed.

use std::ffi::OsStr;
use std::fs;
use std::process::Stdio;

use super::golden::commands;
use crate::common::place::{Ended, Place, SMALL_BENCH, assert_contains, assert_lacks, prepared, words};

#[test]
#[cfg_attr(not(feature = "catalogue"), ignore = "needs all commands: --features catalogue")]
fn help_of_every_command_has_examples() {
    let place = Place::new();
    let commands = commands()
        .into_iter()
        .map(|words| [&words[..], &["--help".to_owned()]].concat());
    for command in commands.chain([vec!["help".to_owned(), "cmp".to_owned()]]) {
        let help = place.call(&command).succeeded().stdout;
        let (_, examples) = help
            .split_once("Examples:")
            .unwrap_or_else(|| panic!("{command:?}: {help}"));
        let called = ["\n  seekless ", "\n  sudo seekless "];
        assert!(called.iter().any(|call| examples.contains(call)), "{command:?}: {help}");
        let widest = examples.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{command:?}: {help}");
    }
}

#[test]
fn help_short_fits_a_terminal_and_hides_inner_commands() {
    let place = Place::new();
    let help = place.call("-h").succeeded().stdout;
    assert_contains(&help, &["  bench "]);
    assert_lacks(&help, &["  trial"]);
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

#[test]
fn help_long_has_headings_and_short_fits_a_screen() {
    let place = Place::new();
    let most = [
        ("bench", ["--dir", "--budget", "--size", "--methods", "--cache"]),
        ("dupes", ["--exclude", "--min-size", "--against", "--action", "--keep"]),
    ];
    for (command, most) in most {
        let mut short = place.command();
        let short = Ended::by(short.args([command, "-h"]).env("COLUMNS", "80"));
        let short = short.succeeded().stdout;
        assert!(short.lines().count() < 40, "{short}");
        assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");
        for form in ["-h", "--help"] {
            let help = place.call(&[command, form]).succeeded().stdout;
            let first = help.split("\nOptions:\n").nth(1).unwrap();
            let options = first.lines().filter_map(|line| line.trim().split(' ').next());
            let options: Vec<&str> = options.filter(|word| word.starts_with("--")).take(5).collect();
            assert_eq!(options, most, "{help}");
            assert_contains(&help, &["\nOutput:\n"]);
        }
    }
}

#[test]
fn help_for_a_misspelt_command_names_the_nearest() {
    let place = Place::new();
    for (typed, meant) in [("benhc", "'bench'"), ("storge", "'storage'"), ("generat", "'generate'")] {
        let sentence = place.call(&[typed]).refused();
        let tip = sentence.lines().find(|line| line.contains("tip:")).unwrap_or_default();
        assert!(tip.ends_with(&format!("exists: {meant}")), "{sentence}");
    }
    for typed in ["completions", "completion", "complete"] {
        assert!(!place.call(&[typed]).refused().contains("suggest'"), "{typed}");
    }
}

#[test]
fn help_for_hub_commands_names_seekless_hub() {
    let place = Place::new();
    for words in ["hub serve", "runs share --yes", "runs fetch"] {
        place.refuses(words, &["hint: `seekless-hub --help`"]);
    }
}

#[test]
fn bench_list_names_every_built_in_experiment() {
    let place = Place::new();
    let list = place.call("bench --list").succeeded().stdout;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    let expected = "read write copy compare update scan tools plan profile random commit read-ahead sustained \
         holes-2003 saving-2008 preload-2009 cmp-2012 methods-2014";
    assert_eq!(names.collect::<Vec<_>>(), words(expected));
    assert!(place.content().is_empty() && place.saved().is_empty());
}

#[test]
fn completions_are_generated_for_every_shell() {
    let place = Place::new();
    for (shell, mark) in [
        ("bash", "complete -o nosort -F _seekless seekless"),
        ("zsh", "#compdef seekless"),
        ("fish", "complete --command seekless"),
        ("elvish", "methods"),
        ("powershell", "methods"),
    ] {
        let script = place.call(&["generate", "completions", shell]).succeeded().stdout;
        assert!(script.contains(mark), "{shell}: {script}");
    }
}

#[test]
#[cfg_attr(not(feature = "catalogue"), ignore = "needs all commands: --features catalogue")]
fn manual_has_a_page_with_all_sections_for_every_command() {
    let place = Place::new();
    let first = place.call("generate man").succeeded().stdout;
    place.call("generate man --folder man1").succeeded();
    let pages = fs::read_dir(place.path("man1")).unwrap().count();
    assert_eq!(pages, commands().len(), "there is a page of what is no command");
    assert_eq!(place.text("man1/seekless.1"), first);
    let headings = [
        "COMMANDS",
        "TREES",
        "FILES",
        "COMPARING",
        "ACTING",
        "DATA AND REQUESTS",
        "TRIALS",
        "RUNS",
        "OUTPUT",
    ];
    for words in commands() {
        let name = words.iter().fold("seekless".to_owned(), |name, word| name + "-" + word);
        let page = place.text(format!("man1/{name}.1"));
        assert_contains(&page, &[&format!(".TH {} 1 ", name.to_uppercase())]);
        let sections = page.lines().filter_map(|line| line.strip_prefix(".SH "));
        let sections = sections.map(|heading| heading.trim_matches('"'));
        let sections: Vec<&str> = sections.filter(|heading| !headings.contains(heading)).collect();
        let usual = "NAME, SYNOPSIS, DESCRIPTION, OPTIONS, EXAMPLES, EXIT STATUS, ENVIRONMENT, SEE ALSO";
        assert_eq!(sections.join(", "), usual, "{name}");
        // The first example of the help, without its comment.
        let help = place.call((&words, "--help")).stdout;
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        let example = examples.lines().next().unwrap().split(" # ").next().unwrap().trim();
        let example = example.replace('-', "\\-").replace('\'', "\\*(Aq");
        assert!(page.contains(&format!("\\fB{example}\\fR")), "{name}: {example}");
    }
}

#[test]
fn manual_folder_is_made_and_none_above_it() {
    let place = Place::new();
    place.refuses(
        "generate man --folder nope/man1",
        &["nope/man1: cannot make the directory", "No such file or directory"],
    );
    assert!(!place.path("nope").exists());
    for _ in 0..2 {
        place.call("generate man --folder man1").succeeded();
    }
    place.file("file", b"bytes");
    place.call("generate man --folder file").refused();
}

#[test]
fn manual_fits_80_columns_without_a_warning() {
    let place = Place::new();
    place.call("generate man --folder .").succeeded();
    if !prepared("groff", &["--version"].map(OsStr::new)) {
        println!("skipped: groff is not installed");
        return;
    }
    for words in commands() {
        let page = words.iter().fold("seekless".to_owned(), |name, word| name + "-" + word) + ".1";
        let mut groff = place.command_of("groff");
        groff.args(["-ww", "-man", "-Tascii", "-P-cbou", "-rLL=80n", "-rLT=80n", &page]);
        let ended = Ended::by(&mut groff).succeeded();
        assert_eq!(ended.stderr, "", "{page}");
        for line in ended.stdout.lines() {
            assert!(line.chars().count() <= 80, "{page}: {line}");
        }
    }
}

#[test]
fn closed_standard_output_ends_commands_quietly() {
    let place = Place::new();
    place.file("file", b"precious");
    place.file("good", b"{\"offset\": 0, \"text\": \"x\"}\n");
    for n in 0..300 {
        place.file(n.to_string(), b"bytes");
    }
    for arguments in [
        "--help",
        "bench --list",
        "methods read",
        "methods --json",
        "runs",
        "runs table --json",
        "generate man",
        "generate completions bash",
        "generate methods",
        "dupes --format csv .",
        "cache show --all .",
        "update file --from good",
    ] {
        let ended = place.run_unread(arguments);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
    assert_eq!(place.read("file"), b"xrecious");
    assert_eq!(place.content().len(), 302);
}

#[test]
fn bench_with_unread_output_is_saved_and_exported() {
    let place = Place::new();
    place.run_unread((SMALL_BENCH, "*/sync* --export-csv csv")).succeeded();
    assert_eq!(place.saved().len(), 1);
    assert_eq!(place.content().len(), 1);
}

#[test]
fn closed_standard_error_changes_no_exit_code() {
    let place = Place::new();
    let small = format!("{SMALL_BENCH} */sync*");
    for (arguments, code) in [("bench raed", 2), ("bench --size 0", 2), (&small, 0)] {
        let mut command = place.command();
        command.args(words(arguments)).env("SEEKLESS_LOG", "trace");
        command.stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        drop(child.stderr.take());
        assert_eq!(Ended::of(child).code, Some(code), "{arguments:?}");
    }
}

#[test]
fn output_to_no_terminal_has_no_escapes_and_no_progress() {
    let place = Place::new();
    let ended = place.bench("").succeeded();
    assert!(!ended.stdout.contains('\x1b') && !ended.stderr.contains('\x1b'));
    let mut told = ended.stderr.lines();
    assert!(told.all(|line| line.starts_with("Writes ")), "{}", ended.stderr);
    assert_eq!(place.bench("--quiet").succeeded().stderr, "");
}
