//! What the texts of the libraries may say: a library knows no option and no subcommand of the command above it, and no
//! method by name but those that the planner knows.

use std::fs;
use std::path::{Path, PathBuf};

use seekless_engine::Method;

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

/// Where methods may be named, besides experiments and tests, and why.
const PLACES_OF_METHODS: &[(&str, &str)] = &[
    ("engine/src/plan/", "methods are chosen there"),
    (
        "engine/src/probe/features.rs",
        "the plainest method of each kind is tried",
    ),
    ("method/src/alias.rs", "the names of methods in earlier documents"),
    ("cli/src/command/update/names.rs", "the words of `update --method`"),
    ("xtask/src/rule/world.rs", "the methods of simulated machines"),
];

/// Whether a line of code has a string that is a method.
fn names_a_method(line: &str) -> bool {
    let is_code = !line.trim_start().starts_with("//");
    // Without a slash, it is the name of an experiment, or of a method in earlier documents.
    let is_method = |text: &str| text.contains('/') && text.parse::<Method>().is_ok();
    is_code && line.split('"').skip(1).step_by(2).any(is_method)
}

/// Where crates have lines of a kind outside tests: the file, the line's number and the line.
fn found(is_meant: fn(&str) -> bool) -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(crates()).expect("the directory of crates") {
        let entry = entry.expect("a crate");
        for path in sources(&entry.path().join("src")) {
            let text = fs::read_to_string(&path).expect("a source");
            // The tests of a file are at its end; other items for tests may stand before them.
            let of_tests = |(at, mark): &(usize, &str)| {
                let next = text[at + mark.len()..].lines().next();
                next.is_some_and(|line| line.ends_with("mod tests {"))
            };
            let tests = text.match_indices("\n#[cfg(test)]\n").find(of_tests);
            let lines = text[..tests.map_or(text.len(), |(at, _)| at)].lines();
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
fn library_texts_name_no_option_of_the_command() {
    let mut named = found(names_an_option);
    named.retain(|(path, ..)| ["cli/", "xtask/"].iter().all(|command| !path.starts_with(command)));
    for one in &named {
        let (path, number, line) = one;
        assert!(
            EXCEPTIONS.iter().any(|exception| is_excepted(exception, one)),
            "crates/{path}:{number} names an option or a subcommand (say it in cli/src/hint.rs): {line}"
        );
    }
    for exception in EXCEPTIONS {
        let is_needed = named.iter().any(|one| is_excepted(exception, one));
        assert!(
            is_needed,
            "nothing needs the exception {exception:?} any more: remove it"
        );
    }
}

#[test]
fn methods_are_named_only_where_they_are_chosen() {
    assert!(names_a_method("let usual = [\"update/sync\"];") && !names_a_method("// \"update/sync\""));
    let named = found(names_a_method);
    let is_in = |place: &str, path: &str| path.starts_with(place);
    for (path, number, line) in &named {
        let may = PLACES_OF_METHODS.iter().any(|(place, _)| is_in(place, path));
        assert!(may, "crates/{path}:{number} names a method, so ask the planner: {line}");
    }
    for (place, _) in PLACES_OF_METHODS {
        let is_needed = named.iter().any(|(path, ..)| is_in(place, path));
        assert!(is_needed, "{place} names none any more: remove it");
    }
}

#[test]
fn engine_errors_use_nothing_else_of_the_engine() {
    for path in sources(&crates().join("engine/src/error")) {
        let text = fs::read_to_string(&path).expect("a source");
        assert!(!text.contains("crate::"), "{} uses the engine", path.display());
    }
}
