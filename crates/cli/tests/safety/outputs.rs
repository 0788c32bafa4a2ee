//! Files that commands write beside their work: no link that another user planted is followed, and nothing that the command reads
//! is overwritten.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{lchown, symlink};

use clap::{Command, ValueHint};

use crate::common::place::{Ended, Place, assert_contains, is_root, set_mode};
use crate::common::unprivileged::NOBODY;

/// Every option that names an output: the command, the option, and the rest of a command line.
const OUTPUTS: [(&str, &str, &str); 19] = [
    ("bench", "export-columns", "read --size 1M --rounds 1"),
    ("bench", "export-csv", "read --size 1M --rounds 1"),
    ("bench", "export-json", "read --size 1M --rounds 1"),
    ("bench", "export-markdown", "read --size 1M --rounds 1"),
    ("bench", "report", "read --size 1M --rounds 1"),
    ("cp", "checksums", "-T tree copy"),
    ("dupes", "cache-file", "--cache tree"),
    ("dupes", "plan-file", "--action remove --keep first tree"),
    ("dupes catalogue", "output", "tree"),
    ("generate man", "folder", ""),
    ("profile", "report", "."),
    ("profile export", "output", "."),
    ("profile show", "report", "."),
    ("report", "columns", "latest"),
    ("report", "output", "latest"),
    ("runs compare", "report", "first second"),
    ("runs export", "output", "latest"),
    ("sim show", "picture", "--virtual trace hdd-2009"),
    ("sim start", "trace", "null --size 64M --fs none"),
];

/// An experiment that reads a small file.
const EXPERIMENT: &[u8] = b"name = \"reading\"\nabout = \"Reading\"\n\n[[contest]]\noperation = \"read\"\nsizes = [\"1M\"]\nmethods = [\"read/sync\"]\n";

/// All other arguments that are paths: what is read, changed, or made as the work itself.
const OTHERS: [&str; 40] = [
    "advise path",
    "bench dir",
    "bench file",
    "bench other",
    "bench to",
    "cache drop paths",
    "cache lock paths",
    "cache show paths",
    "cache warm paths",
    "cmp FILE1",
    "cmp FILE2",
    "cmp exclude-from",
    "cp paths",
    "cp target-directory",
    "dupes act plan",
    "dupes against",
    "dupes catalogue files-from",
    "dupes catalogue paths",
    "dupes catalogue since",
    "dupes files-from",
    "dupes paths",
    "dupes to",
    "dupes undo journal",
    "holes dig paths",
    "holes fill paths",
    "holes punch file",
    "holes show paths",
    "methods dir",
    "profile export path",
    "profile import files",
    "profile path",
    "profile remove path",
    "profile show path",
    "runs import files",
    "sim show virtual",
    "sim start at",
    "sim start backing",
    "storage paths",
    "update file",
    "update from",
];

/// The arguments of a command, and of those in it, that are paths.
fn path_arguments(command: &Command, words: &str, found: &mut BTreeSet<String>) {
    let is_path = |hint| [ValueHint::AnyPath, ValueHint::FilePath, ValueHint::DirPath].contains(&hint);
    for argument in command
        .get_arguments()
        .filter(|argument| is_path(argument.get_value_hint()))
    {
        let name = argument.get_long().unwrap_or(argument.get_id().as_str());
        found.insert(format!("{words}{name}"));
    }
    for inner in command.get_subcommands() {
        path_arguments(inner, &format!("{words}{} ", inner.get_name()), found);
    }
}

#[test]
#[cfg_attr(not(all(feature = "catalogue", feature = "sim")), ignore = "needs all commands")]
fn outputs_and_other_path_arguments_are_all_listed() {
    let mut found = BTreeSet::new();
    path_arguments(&seekless_cli::definition(), "", &mut found);
    let known = OUTPUTS.iter().map(|(command, option, _)| format!("{command} {option}"));
    let known: BTreeSet<String> = known.chain(OTHERS.into_iter().map(str::to_owned)).collect();
    assert_eq!(found, known);
}

/// A place with something for every command to read.
fn prepared() -> Place {
    let place = Place::new();
    for name in ["tree/a", "tree/b"] {
        place.file(name, b"same");
    }
    place.file("trace", b"0 read 0 4096 1000000\n");
    for name in ["first", "second"] {
        place.bench(&format!("--dir . --name {name}"));
    }
    place
}

#[test]
#[cfg_attr(not(all(feature = "catalogue", feature = "sim")), ignore = "needs all commands")]
fn outputs_follow_no_planted_link_and_take_no_planted_file() {
    if !is_root() {
        return;
    }
    let place = prepared();
    let victim = place.file("victim", b"");
    place.directories("open theirs");
    set_mode(place.path("open"), 0o1777);
    for (command, option, rest) in OUTPUTS {
        // A link to a file, to nothing and to a directory on the way, and an empty file.
        for target in ["victim", "missing", "theirs", ""] {
            let (name, value) = match (option, target) {
                ("folder", "theirs") => ("open/planted", "open/planted/new"),
                ("cache-file", "theirs") => ("open/planted", "open/planted/new/output"),
                ("folder", _) => ("open/seekless.1", "open"),
                (_, "theirs") => ("open/planted", "open/planted/output"),
                _ => ("open/planted", "open/planted"),
            };
            let planted = place.path(name);
            let _ = fs::remove_file(&planted);
            if target.is_empty() {
                place.file(name, b"");
            } else {
                symlink(place.path(target), &planted).unwrap();
            }
            lchown(&planted, Some(NOBODY), None).unwrap();
            let ended = place.run(&format!("{command} {rest} --{option} {value}"));
            let told = format!("{command} --{option} to {target:?}: {}", ended.stderr);
            assert_eq!(fs::read(&victim).unwrap(), b"", "{told}");
            assert!(!place.path("missing").exists(), "{told}");
            assert_eq!(fs::read_dir(place.path("theirs")).unwrap().count(), 0, "{told}");
            assert!(!target.is_empty() || fs::read(&planted).unwrap().is_empty(), "{told}");
            // A catalogue takes the place of the link, and a search goes on without digests that it would keep.
            let goes_on = ["output", "cache-file"].contains(&option) && command.starts_with("dupes");
            assert!(goes_on || ended.code != Some(0), "{told}");
        }
    }
}

#[test]
fn commands_change_nothing_through_a_planted_link() {
    if !is_root() {
        return;
    }
    let place = prepared();
    place.file("changes", b"{\"offset\": 0, \"text\": \"x\"}\n");
    place.files("victim theirs/victim", &vec![0; 1 << 16]);
    place.directories("open");
    for (link, target) in [("file", "victim"), ("directory", "theirs")] {
        symlink(place.path(target), place.path("open").join(link)).unwrap();
        lchown(place.path("open").join(link), Some(NOBODY), None).unwrap();
    }
    let commands = [
        "update open/file --from changes",
        "update open/directory/victim --from changes",
        "update open/directory/victim --from changes --safety replace",
        "update open/file --from changes --safety journal",
        "update open/file --recover",
        "holes dig open/file",
        "holes dig open/directory/victim",
        "holes punch --yes open/file 0 32K",
        "holes punch --yes open/directory/victim 0 32K",
        "cp tree/a open/directory",
        "cp tree/a open/directory/victim",
        "cp -r tree open/directory/new",
        "cp -t open/directory tree/a",
        "dupes --action move --keep first --yes --to open/directory tree",
    ];
    for is_refused in [true, false] {
        set_mode(place.path("open"), if is_refused { 0o1777 } else { 0o777 });
        let before = place.content();
        for command in commands {
            let ended = place.run(command);
            assert_eq!(ended.code != Some(0), is_refused, "{command}: {}", ended.stderr);
            assert!(!is_refused || place.content() == before, "{command}");
        }
    }
}

#[test]
#[cfg_attr(not(feature = "sim"), ignore = "needs all commands")]
fn outputs_replace_no_input_by_any_of_its_names() {
    let place = prepared();
    let saved = |name: &str| {
        let mut saved = place.saved().into_iter();
        let run = saved.find(|run| run.id.ends_with(name)).unwrap();
        place.path("../data/seekless/runs").join(run.id + ".json")
    };
    place.file("experiment.toml", EXPERIMENT);
    place.file("changes", b"{\"offset\": 0, \"text\": \"x\"}\n");
    for (input, words) in [
        (saved("first"), "bench --rounds 1 --like first --export-csv"),
        (saved("first"), "bench --resume first --export-json"),
        (
            place.path("experiment.toml"),
            "bench --rounds 1 experiment.toml --report",
        ),
        (
            place.path("tree/a"),
            "bench read --rounds 1 --file tree/a --export-markdown",
        ),
        (place.path("tree/a"), "cp tree/a copy --checksums"),
        (saved("first"), "report first --output"),
        (saved("first"), "report first --columns"),
        (saved("second"), "runs compare first second --report"),
        (saved("second"), "runs export first second --output"),
        (place.path("trace"), "sim show --virtual trace hdd-2009 --picture"),
        (place.path("changes"), "update --from changes"),
    ] {
        let again = place.path("again");
        let _ = fs::remove_file(&again);
        fs::hard_link(&input, &again).unwrap();
        let before = fs::read(&input).unwrap();
        let ended = place.run((words, "again"));
        ended.warns("again: is the same file as");
        assert!(ended.code != Some(0), "{words}");
        assert_eq!(fs::read(&input).unwrap(), before, "{words}");
    }
    let mut command = place.command();
    command.args(["update", "changes"]);
    let input = fs::File::open(place.path("changes")).unwrap();
    Ended::by(command.stdin(input)).refused_with(&["which is read"]);
}

#[test]
fn outputs_to_standard_output_are_not_overwritten() {
    let place = Place::new();
    place.files("tree/a tree/b", b"a");
    for (name, redirection) in [
        ("/dev/stdout", ">"),
        ("/proc/self/fd/1", ">>"),
        ("/dev/fd/2", "2>"),
        ("sums", ">"),
    ] {
        let mut command = place.command_of("bash");
        let script = format!("\"$0\" cp --verbose --checksums {name} -T tree copy {redirection} sums");
        command.args(["-c", &script]).arg(place.command().get_program());
        Ended::by(&mut command).succeeded();
        let sums = place.text("sums");
        assert_eq!(sums.matches("17762fddd969a453925d65717ac3eea2").count(), 2, "{sums}");
        let is_printed_there = redirection != "2>";
        assert_eq!(sums.contains("Copied 2 files"), is_printed_there, "{sums}");
        fs::remove_file(place.path("sums")).unwrap();
    }
}

#[test]
fn cp_checksums_replace_no_source_copy_or_other_file() {
    let place = prepared();
    let sum = format!("{}  tree/a\n", "0".repeat(64));
    for (name, bytes) in [
        ("tree/a", "precious"),
        ("tree/sums", &sum),
        ("into/tree/sums", &sum),
        ("other", "other"),
    ] {
        place.file(name, bytes.as_bytes());
    }
    fs::hard_link(place.path("tree/sums"), place.path("again")).unwrap();
    let before = place.content();
    let refused = [
        ("tree/a", "-T tree copy", "is not a list of checksums"),
        ("other", "-T tree copy", "is not a list of checksums"),
        ("tree/sums", "-T tree copy", "tree is copied"),
        ("tree/new", "-T tree copy", "tree is copied"),
        ("again", "tree/sums copy", "is the same file as tree/sums"),
        ("into/tree/sums", "tree into", "is a copy"),
        ("into/tree/sums", "-T tree into/tree", "is a copy"),
        ("into/tree/sums", "tree/. into/tree", "is a copy"),
        ("into/tree/a", "tree/a into/tree", "is a copy"),
        ("copy", "tree/a copy", "is a copy"),
        ("-", "--verbose tree into", "named twice"),
    ];
    for (list, words, why) in refused {
        let said = place
            .run(&format!("cp --checksums {list} {words}"))
            .ended_with(1)
            .stderr;
        assert_contains(&said, &[why]);
        assert_eq!(place.content(), before, "{list}: {said}");
    }
}

#[test]
fn cp_checksums_go_to_files_lists_and_streams() {
    let place = Place::new();
    place.file("tree/a", b"a");
    // The digest of `a`, as b3sum prints it.
    let line = "17762fddd969a453925d65717ac3eea21320b66b54342fde15128d6caf21215f  into/tree/a\n";
    place.directories("into");
    // In the target, where no copy has the name; then again, in place of the older list.
    for _ in 0..2 {
        place.succeeds("cp --checksums into/sums tree into");
        assert_eq!(fs::read_to_string(place.path("into/sums")).unwrap(), line);
    }
    let ended = place.succeeds("cp --checksums - tree into");
    assert_eq!(ended.stdout, line);
    assert_contains(&ended.stderr, &["Copied 1 file"]);
    let ended = place.run("cp --checksums /dev/stdout tree/a into/tree/a").succeeded();
    assert_eq!(ended.stdout, line);
    // Further names are listed when they are made, and when they are there.
    place.hard_link("tree/a", "tree/b");
    place.hard_link("tree/a", "tree/c");
    for words in ["cp --checksums - tree into", "cp --compare --checksums - tree into"] {
        let listed = place.succeeds(words).stdout;
        let mut listed: Vec<_> = listed.lines().collect();
        listed.sort_unstable();
        let expected = ["a", "b", "c"].map(|name| line.trim_end().replace("tree/a", &format!("tree/{name}")));
        assert_eq!(listed, expected, "{words}");
    }
}
