//! What the texts of the libraries may say: a library knows no option and no subcommand of the command above it, and no
//! method by name but those that the planner knows.

use std::fs;
use std::path::{Path, PathBuf};

/// Texts that name one all the same: advice on how to measure again, which stands in saved runs and in reports.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("lab/src/runner/session.rs", "`seekless bench --resume"),
    ("lab/src/runner/session.rs", "--methods and --size"),
    ("report/src/html/across.rs", "give several with --size"),
    ("results/src/warnings.rs", "Rerun with a larger --size"),
];

fn crates() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The files of Rust below a directory, but for those of tests.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory of sources");
    let paths = entries.map(|entry| entry.expect("an entry of it").path());
    let mut found = Vec::new();
    for path in paths.filter(|path| !path.ends_with("tests") && !path.ends_with("tests.rs")) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Whether a line of code names an option, as in `--size`, or a subcommand in backticks.
fn names_an_option(line: &str) -> bool {
    let begins_a_word = |rest: &str| rest.starts_with(|first: char| first.is_ascii_lowercase());
    let is_code = !line.trim_start().starts_with("//");
    is_code
        && ["--", "`seekless "]
            .iter()
            .any(|mark| line.split(mark).skip(1).any(begins_a_word))
}

/// Where methods may be named: where they are chosen, and where what storages support is tried by the plainest of each kind.
const PLACES_OF_METHODS: &[&str] = &["engine/src/plan/", "engine/src/probe/features.rs"];

/// Whether a line of code names a method.
fn names_a_method(line: &str) -> bool {
    let is_code = !line.trim_start().starts_with("//");
    let operations = ["\"read/", "\"write/", "\"copy/", "\"compare/", "\"update/"];
    is_code && operations.iter().any(|operation| line.contains(operation))
}

/// Where libraries have lines of a kind: the file, the line's number and the line.
fn found(is_meant: fn(&str) -> bool) -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(crates()).expect("the directory of crates") {
        let entry = entry.expect("a crate");
        if ["cli", "xtask"].iter().any(|command| entry.file_name() == *command) {
            continue;
        }
        for path in sources(&entry.path().join("src")) {
            let text = fs::read_to_string(&path).expect("a source");
            let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
            let path = path.strip_prefix(crates()).expect("it is below").display().to_string();
            found.extend(
                (1..)
                    .zip(lines)
                    .filter(|(_, line)| is_meant(line))
                    .map(|(number, line)| (path.clone(), number, line.trim().to_owned())),
            );
        }
    }
    found
}

fn is_excepted(exception: &(&str, &str), (path, _, line): &(String, usize, String)) -> bool {
    path == exception.0 && line.contains(exception.1)
}

#[test]
fn no_text_of_a_library_names_an_option_of_the_command() {
    let named = found(names_an_option);
    for one in &named {
        let (path, number, line) = one;
        assert!(
            EXCEPTIONS.iter().any(|exception| is_excepted(exception, one)),
            "crates/{path}:{number} names an option or a subcommand (say it in cli/src/hint.rs): {line}"
        );
    }
    for exception in EXCEPTIONS {
        assert!(
            named.iter().any(|one| is_excepted(exception, one)),
            "nothing needs the exception {exception:?} any more: remove it"
        );
    }
}

#[test]
fn methods_are_named_only_where_they_are_chosen() {
    for (path, number, line) in found(names_a_method) {
        let moves_bytes = ["engine/", "tools/", "lab/"].iter().any(|of| path.starts_with(of));
        let may = PLACES_OF_METHODS.iter().any(|place| path.starts_with(place));
        assert!(!moves_bytes || may, "crates/{path}:{number} names a method: {line}");
    }
}

#[test]
fn the_errors_of_the_engine_use_nothing_else_of_it() {
    for path in sources(&crates().join("engine/src/error")) {
        let text = fs::read_to_string(&path).expect("a source");
        assert!(!text.contains("crate::"), "{} uses the engine", path.display());
    }
}
