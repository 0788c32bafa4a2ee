//! The commands that README and guide show are run, each as written there, except for absolute paths and the size of
//! measurements.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::place::{Ended, Place, words};

/// Directories that readers have and a test does not: they are made in the directory of the test.
const ELSEWHERE: &str = "/mnt/backup /somewhere/on/the/storage /srv /home /ssd /disk";

/// Lines that are not run as written: in a line that begins so, the text is replaced by the other. If that is empty,
/// the line is not run.
const OTHERWISE: [(&str, &str, &str); 7] = [
    // The name of a run is its day.
    ("seekless runs compare 2026-11-20", "2026-11-20 latest", "earlier later"),
    // The whole system is too much.
    ("seekless cmp -r --metadata", "/ /mnt/root", "a b"),
    // They would go on after the test.
    ("seekless bench --sittings", "", ""),
    // It needs a run that was interrupted: tests of its own have one.
    ("seekless bench --resume", "", ""),
    // Nothing was done before it.
    ("seekless dupes undo", "", ""),
    // They build the project.
    ("cargo", "", ""),
    ("python3", "", ""),
];

/// The lines of the shell blocks of a document, without comments.
fn commands(document: &str) -> Vec<String> {
    let mut is_shell = false;
    let mut found = Vec::new();
    for line in document.lines() {
        if line.starts_with("```") {
            is_shell = line == "```sh";
        } else if is_shell {
            let command = line.split(" # ").next().expect("a line has a beginning").trim();
            found.extend((!command.is_empty()).then(|| command.to_owned()));
        }
    }
    found
}

/// The command as it is run here; `None` if it is not run.
fn here(command: &str) -> Option<String> {
    let mut line = command.to_owned();
    if let Some((_, written, instead)) = OTHERWISE.iter().find(|(start, ..)| command.starts_with(start)) {
        if written.is_empty() {
            return None;
        }
        assert!(command.contains(written), "{command}: is written in another way now");
        line = line.replace(written, instead);
    }
    for path in words(ELSEWHERE) {
        line = line.replace(&format!(" {path}"), &format!(" .{path}"));
    }
    if let Some((before, budget)) = line.split_once(" --budget ") {
        let rest = budget.split_once(' ').map_or("", |(_, rest)| rest);
        line = format!("{before} {rest}");
    }
    if line.starts_with("seekless bench") {
        line.push_str(" --rounds 1");
        let (is_mine, is_like) = (line.contains("my.toml"), line.contains("--like"));
        let is_of_requests = ["bench commit", "bench random"]
            .iter()
            .any(|start| line.contains(start));
        let has_cache = !is_like && !is_of_requests && !line.contains("bench write");
        line.push_str(if has_cache { " --cache warm" } else { "" });
        line.push_str(if is_like || line.contains("--file") {
            ""
        } else {
            " --size 1M"
        });
        line.push_str(if is_like || is_mine || is_of_requests {
            ""
        } else {
            " --methods '*/sync,block=1M*'"
        });
    }
    Some(line)
}

fn prepare(place: &Place) {
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    place.files("one numbers numbers.bin pages.db big.iso Cargo.toml", &bytes);
    place.file("other", &bytes[..399_000]);
    place.file("changes.jsonl", b"{\"offset\": 4000, \"hex\": \"2a000000\"}\n");
    place.file(
        "my.toml",
        b"name = \"my\"\nabout = \"Mine\"\n[[contest]]\noperation = \"read\"\nmethods = [\"read/sync,block=1M\"]\nsizes = [\"1M\"]\n",
    );
    for directory in words(&format!("images a b photos backup laptop desktop music {ELSEWHERE}")) {
        place.file(format!("{}/file", directory.trim_start_matches('/')), &bytes);
    }
    place.directories("mnt/backup/photos");
    place.sparse("disk.img", 3 << 20);
    place.sparse("log", 2 << 30);
    place.directories("user/bin user/.local/share/man/man1 user/.local/share/bash-completion/completions");
}

#[test]
#[cfg_attr(not(feature = "catalogue"), ignore = "needs all commands: --features catalogue")]
fn documents_show_commands_that_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = Place::new();
    prepare(&place);
    let program = Path::new(env!("CARGO_BIN_EXE_seekless")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for name in ["earlier", "later"] {
        place.bench(&["--name", name]).succeeded();
    }
    let mut run = 0;
    let guide = fs::read_dir(root.join("docs/guide")).unwrap();
    let mut documents: Vec<PathBuf> = guide.map(|page| page.unwrap().path()).collect();
    documents.push(root.join("README.md"));
    documents.sort();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for command in commands(&text) {
            let Some(line) = here(&command) else { continue };
            let end = || {
                let mut bash = place.command_of("bash");
                bash.args(["-o", "pipefail", "-c", &line])
                    .stdin(fs::File::open(place.path("one")).unwrap())
                    .env("HOME", place.path("user"))
                    .env("PATH", &path);
                Ended::by(&mut bash)
            };
            // Another test may set the read-ahead window of the disk for a trial, and then restores it.
            let is_during_trial = |ended: &Ended| ended.stderr.contains("is for another read-ahead window");
            let (mut ended, mut rounds) = (end(), 0);
            while is_during_trial(&ended) && rounds < 100 {
                std::thread::sleep(Duration::from_millis(100));
                (ended, rounds) = (end(), rounds + 1);
            }
            // 1 is what cmp says of files that differ.
            let worked = ended.code == Some(0) || ended.code == Some(1) && command.contains("cmp");
            let name = document.display();
            assert!(worked, "{name}: {command}\nrun as {line}\n{ended:?}");
            run += 1;
        }
    }
    assert!(run > 50, "the documents show commands, and only {run} were found");
}
