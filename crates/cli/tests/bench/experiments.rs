//! Experiments of the user's own: external commands beside methods, and where a file is wrong.

use std::ffi::OsStr;

use seekless_record::{Cache, Contest, EntryVerdict};

use crate::common::place::{Ended, Place, assert_contains, prepared};

const CAT: &str = r#"
name = "cat-or-us"
about = "Does a method read faster than cat?"

[[contest]]
operation = "read"
methods = ["read/sync,block=128K"]
sizes = ["1M"]

[[contest.command]]
name = "cat"
argv = ["cat", "{file}"]

[[contest.command]]
name = "absent"
argv = ["a-program-that-nobody-has", "{file}"]
optional = true

[[contest.command]]
name = "failing"
argv = ["false", "{file}"]
"#;

#[test]
fn bench_times_external_commands_beside_methods() {
    let place = Place::new();
    let (ended, run) = place.measured(CAT, "--rounds 2");
    assert_contains(&ended.stdout, &["  cat ", "failing: failed: "]);
    assert_eq!(run.experiments, ["cat-or-us"]);
    let status = |name: &str| {
        let entry = run.contests[0].entries.iter().find(|entry| entry.name() == name);
        entry.unwrap_or_else(|| panic!("{name} is missing")).verdict.clone()
    };
    assert!(status("read/sync,block=128K").is_measured() && status("command/cat").is_measured());
    assert_eq!(
        status("command/absent"),
        EntryVerdict::unavailable("the program is not installed")
    );
    assert!(matches!(status("command/failing"), EntryVerdict::Failed { why } if why.contains("exit status: 1")));
}

const COUNTED: &str = r#"
name = "counted"
about = "How often is a command run?"

[[contest]]
operation = "read"
methods = ["read/sync,block=128K"]
cache = ["warm"]
sizes = ["4M", "16M"]

[[contest.command]]
name = "counted"
argv = ["sh", "-c", "wc -c < $0 >> runs", "{file}"]
"#;

#[test]
fn bench_discards_first_trial_of_small_warm_rounds() {
    let place = Place::new();
    let (_, run) = place.measured(COUNTED, "--rounds 6");
    let runs = place.text("runs");
    for (index, contest) in run.contests.iter().enumerate() {
        let (mut recorded, mut first, mut before) = (0, 0, None);
        for trial in &run.trials {
            if trial.contest == index && contest.entries[trial.entry].command().is_some() {
                recorded += 1;
                first += usize::from(before != Some(index));
            }
            before = Some(trial.contest);
        }
        let thrown_away = if contest.size_bytes == 4 << 20 { first } else { 0 };
        let size = contest.size_bytes.to_string();
        let ran = runs.lines().filter(|line| *line == size).count();
        assert_eq!(ran, recorded + thrown_away, "{size}: {recorded} are recorded");
    }
}

#[test]
fn bench_holes_2003_runs_with_small_files() {
    let place = Place::new();
    let arguments = "bench --tables --notes holes-2003 --rounds 1 --size 8M --export-markdown run.md";
    let ended = place.succeeds(arguments);
    let run = place.only_run();
    let contests = run.contests.iter();
    let layouts: Vec<&str> = contests.filter_map(|contest| contest.layout.as_deref()).collect();
    for layout in [
        "8184K hole, 8K data",
        "40 x (4K hole, 196K data)",
        "40 x (4K zeros, 196K data)",
    ] {
        assert!(layouts.contains(&layout), "{layout}: {layouts:?}");
    }
    for contest in &run.contests {
        for entry in &contest.entries {
            match &entry.verdict {
                EntryVerdict::Failed { why } => panic!("{}: {why}", entry.name()),
                EntryVerdict::Unavailable { why } if contest.cache == Cache::Over => {
                    assert_contains(why, &["do not exceed the memory allowed"]);
                }
                _ => {}
            }
        }
    }
    let sound = run.trials.iter().filter(|trial| trial.valid).count();
    assert!(sound * 2 > run.trials.len(), "{:?}", run.warnings);
    for text in [
        ended.stdout,
        std::fs::read_to_string(place.path("run.md")).expect("the page"),
    ] {
        assert_contains(&text, &["2003, read/sync,block=4K", "most frequent byte 0, "]);
    }
}

#[test]
fn bench_names_line_and_column_of_bad_experiments() {
    let place = Place::new();
    let misspelt = |word: &str, as_word: &str| CAT.replace(word, as_word).into_bytes();
    for (text, told) in [
        (b"name = \"x".to_vec(), "bad.toml:1:10: "),
        (b"".to_vec(), "bad.toml:1:1: "),
        (b"name = \"\xff\"".to_vec(), "bad.toml"),
        (misspelt("read/sync,block=128K", "read/snyc"), "bad.toml:7:12: "),
        (
            misspelt("optional = true\n", ""),
            "bad.toml:16:8: there is no program `a-program-that-nobody-has`",
        ),
    ] {
        place.file("bad.toml", &text);
        place.refuses("bench --tables --notes bad.toml", &[told]);
    }
    assert!(place.saved().is_empty());
}

#[test]
fn bench_fails_contests_whose_commands_all_fail() {
    let place = Place::new();
    let contest = |size: &str, first: &str| {
        format!(
            "[[contest]]\noperation = \"read\"\nsizes = [\"{size}\"]\nfiles = 1\ncache = [\"warm\"]\n\
             [[contest.command]]\nname = \"one\"\nargv = [\"{first}\", \"{{file}}\"]\n\
             [[contest.command]]\nname = \"failing\"\nargv = [\"sh\", \"-c\", \"echo boom >&2; exit 22\", \"{{file}}\"]\n"
        )
    };
    let head = "name = \"failing\"\nabout = \"One fails\"\n";
    let failed = |size: &str| format!("read {size}, warm: failing: failed: `failing` failed: exit status: 22; boom");
    for (name, contests, code) in [
        ("some", contest("1M", "true"), 0),
        ("all", contest("1M", "true") + &contest("2M", "false"), 1),
    ] {
        let file = format!("{name}.toml");
        place.file(&file, [head, &contests].concat().as_bytes());
        let ended = place.run(&format!("bench {file} --rounds 3 --quiet")).ended_with(code);
        let told = ended.stdout.replace('\n', " ");
        assert_contains(&told, &[&failed("1 MiB")]);
        assert_eq!(told.contains(&failed("2 MiB")), code == 1, "{told}");
        assert_contains(
            &place.run("runs show latest").succeeded().stdout.replace('\n', " "),
            &[&failed("1 MiB")],
        );
    }
    // Where nothing could be measured, nothing is saved.
    place.file("none.toml", [head, &contest("1M", "false")].concat().as_bytes());
    let told = "nothing was measured: command/one: failed: ";
    place.refuses("bench none.toml --rounds 1", &[told]);
    assert_eq!(place.saved().len(), 2);
}

#[test]
fn bench_peers_run_with_small_files() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/peers");
    for file in std::fs::read_dir(directory).expect("the experiments") {
        let path = file.expect("an entry").path();
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let others = ["before.toml", "fio.toml", "once.toml"];
        if others.iter().any(|name| path.ends_with(name)) {
            println!(
                "skipped: {}: an earlier build or an example is to be in PATH",
                path.display()
            );
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("an experiment");
        let place = Place::new();
        let mut text = text
            .replace("files = 20000", "files = 40")
            .replace("files = 100000", "files = 40");
        text = text.replace("cache = [\"warm\", \"cold\"]", "cache = [\"warm\"]");
        // Those of the machine may be large.
        for (name, tree) in [("small", "/usr"), ("smaller", ".cargo/registry/src")] {
            place.file(format!("{name}/file"), name.as_bytes());
            text = text.replace(&format!("tree = \"{tree}\""), &format!("tree = \"{name}\""));
        }
        // Dropping all caches would disturb the tests beside this one.
        let dropping = if text.contains("\"cold\"") { "--drop file" } else { "" };
        let (ended, run) = place.measured(&text, ("--rounds 1 --size 64K", dropping));
        assert_contains(&ended.stdout, &["memory"]);
        for entry in run.contests.iter().flat_map(|contest| &contest.entries) {
            match &entry.verdict {
                EntryVerdict::Failed { why } => panic!("{}: {why}", entry.name()),
                EntryVerdict::Unavailable { why } => eprintln!("skipped: {}: {why}", entry.name()),
                _ => {}
            }
        }
    }
}

const PRINTING: &str = r#"
name = "printing"
about = "Do commands print the same?"

[[contest]]
operation = "read"
cache = ["warm"]
sizes = ["1M"]

[[contest.command]]
name = "one"
argv = ["wc", "-c", "{file}"]
same-output = true

[[contest.command]]
name = "same"
argv = ["sh", "-c", "wc -c $0", "{file}"]
same-output = true

[[contest.command]]
name = "other"
argv = ["wc", "-l", "{file}"]
same-output = true
"#;

#[test]
fn bench_same_output_fails_commands_that_print_something_else() {
    let place = Place::new();
    place.file("printing.toml", PRINTING.as_bytes());
    place.run("bench --tables --notes printing.toml --rounds 2");
    let run = place.only_run();
    let differs =
        |verdict: &EntryVerdict| matches!(verdict, EntryVerdict::Failed { why } if why.contains("output differs"));
    let failed = run.contests[0].entries.iter().filter(|entry| differs(&entry.verdict));
    let failed: Vec<_> = failed.map(|entry| entry.name()).collect();
    // Whoever comes first in the first round is right.
    assert!(
        failed == ["command/other"] || failed == ["command/one", "command/same"],
        "{failed:?}"
    );
}

const TREE: &str = r#"
name = "tree"
about = "Which program reads an existing directory?"

[[contest]]
operation = "read"
tree = "mine"
cache = ["warm", "cold"]

[[contest.command]]
name = "cat"
argv = ["find", "{tree}", "-type", "f", "-exec", "cat", "{}", "+"]

[[contest.command]]
name = "list"
argv = ["sh", "-c", 'find "$0" | sort > "$1" && cp "$1" listed', "{tree}", "{target}"]
"#;

#[test]
fn bench_tree_reads_an_existing_directory_and_leaves_it() {
    let place = Place::new();
    place.directories("mine/below");
    for name in ["mine/one", "mine/.two", "mine/below/three"] {
        place.file(name, &[7; 5000]);
    }
    place.file("mine/empty", b"");
    place.hard_link("mine/one", "mine/again");
    std::os::unix::fs::symlink("one", place.path("mine/link")).unwrap();
    let before = place.content();
    let (ended, run) = place.measured(TREE, "--rounds 2 --size 64K --drop file");
    let path = place.path("mine").canonicalize().unwrap();
    let title = format!("read {}, 3 files, 14.6 KiB, warm", path.display());
    let shown: String = ended.stdout.split_whitespace().collect();
    let expected: String = title.split_whitespace().collect();
    assert!(shown.contains(&expected), "{title}: {}", ended.stdout);
    let mut rows = ended.stdout.lines().filter(|line| line.starts_with("  cat"));
    assert!(rows.all(|row| !row.contains("B/s")), "a rate: {}", ended.stdout);
    let listed = place.text("listed");
    assert_eq!(listed.lines().count(), 8, "{listed}");
    for name in ["listed", "experiment.toml"] {
        std::fs::remove_file(place.path(name)).unwrap();
    }
    assert!(place.content() == before, "the directory has changed");
    for (index, contest) in run.contests.iter().enumerate() {
        assert_eq!(contest.tree.as_deref().map(std::path::Path::new), Some(&*path));
        assert_eq!((contest.files, contest.size_bytes), (3, 5000));
        let mut trials = run.trials.iter().filter(|trial| trial.contest == index);
        let is_warm = contest.cache == Cache::Warm;
        assert!(trials.all(|trial| trial.bytes == 15_000), "{:?}", run.trials);
        match run.trials.iter().find(|trial| trial.contest == index) {
            Some(trial) => assert_eq!(trial.resident_before, Some(f64::from(u8::from(is_warm)))),
            // Where nothing is cold.
            None => assert!(!is_warm, "{:?}", contest.entries),
        }
    }
    place.succeeds("bench --tables --notes --like latest --rounds 1");
    let contests: Vec<_> = place.saved().into_iter().flat_map(|run| run.contests).collect();
    assert_eq!(contests.len(), 4);
    let is_same = |contest: &Contest| contest.tree == contests[0].tree && contest.files == 3;
    assert!(contests.iter().all(is_same));
}

/// A plain file stands in for the system's, in a mount namespace of the command's own.
#[test]
fn bench_drops_system_caches_only_before_cold_small_files() {
    let mount = ["-m", "mount", "--bind", "/dev/null", "/proc/sys/vm/drop_caches"].map(OsStr::new);
    if !prepared("unshare", &mount) {
        println!("skipped: mounting over the system's file needs root");
        return;
    }
    let place = Place::new();
    place.file("mine/one", &[7; 5000]);
    let tree = TREE.replace("\"warm\", ", "");
    let written = |tree: &str, options: &[&str]| {
        place.file("tree.toml", tree.as_bytes());
        let caches = place.file("caches", b"not dropped");
        let script = "mount --bind caches /proc/sys/vm/drop_caches && exec \"$0\" \"$@\"";
        let mut command = place.command_of("unshare");
        command
            .args(["-m", "sh", "-c", script])
            .arg(place.command().get_program());
        command
            .args(["bench", "--tables", "--notes", "--rounds", "1"])
            .args(options);
        let ended = Ended::by(&mut command);
        (ended.code, std::fs::read_to_string(caches).unwrap())
    };
    let not_dropped = |code| (Some(code), "not dropped".to_owned());
    let missing = tree.replace("mine", "missing");
    assert_eq!(written(&missing, &["tree.toml"]), not_dropped(2));
    assert_eq!(written(&missing, &["tree.toml", "--drop", "system"]), not_dropped(2));
    assert_eq!(written(&tree, &["tree.toml", "--drop", "file"]), not_dropped(0));
    // As that run did.
    assert_eq!(written(&tree, &["--like", "latest"]), not_dropped(0));
    if place.saved()[0].contests[0].cache != Cache::Cold {
        println!("skipped: nothing is cold in the tests' directory");
        return;
    }
    assert!(place.saved().iter().all(|run| !run.contests[0].cold_metadata));
    assert!(written(&tree, &["tree.toml"]).1.starts_with('3'));
    assert!(place.saved().iter().any(|run| run.contests[0].cold_metadata));
}

#[test]
fn bench_tree_that_cannot_be_measured_is_unavailable() {
    let place = Place::new();
    place.directories("empty");
    place.file("file", b"no directory");
    for (tree, why) in [
        ("missing", "/missing: No such file or directory"),
        ("file", "/file: not a directory"),
        ("empty", "/empty: no readable file in it has data"),
        (".", "/work: test files are created in "),
        ("/proc", "/proc: not a storage file system"),
    ] {
        place.file("tree.toml", TREE.replace("mine", tree).as_bytes());
        let refusal = place.run("bench --tables --notes tree.toml --rounds 1").refused();
        assert_contains(&refusal, &["nothing was measured: command/cat: not available: "]);
        assert!(refusal.contains(why), "{tree}: {refusal}");
    }
    let other = "[[contest]]\noperation = \"read\"\nmethods = [\"read/sync\"]\nsizes = [\"1M\"]\n";
    let (_, run) = place.measured(&format!("{TREE}{other}"), "--rounds 1");
    let contests = run.contests.into_iter();
    let is_unavailable = contests.map(|contest| matches!(contest.entries[0].verdict, EntryVerdict::Unavailable { .. }));
    assert_eq!(is_unavailable.collect::<Vec<_>>(), [true, true, false]);
}
