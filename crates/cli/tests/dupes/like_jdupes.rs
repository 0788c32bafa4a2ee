//! Duplicates on directories of this machine, as jdupes finds them.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::place::Place;

/// Devices and inodes of equal files.
type Group = BTreeSet<(u64, u64)>;

/// Two trees of documents: many of their files are equal.
const TREES: [&str; 2] = ["/usr/share/doc", "/etc"];

fn of_jdupes(tree: &str) -> BTreeSet<Group> {
    let ended = Command::new("jdupes").args(["-r", "-q", tree]).output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    let id = |path: &str| {
        let found = Path::new(path).symlink_metadata().unwrap();
        (found.dev(), found.ino())
    };
    let groups = text
        .split("\n\n")
        .map(|group| group.lines().filter(|line| !line.is_empty()).map(id).collect());
    groups.filter(|group: &Group| group.len() > 1).collect()
}

fn of_seekless(tree: &str) -> BTreeSet<Group> {
    let ended = Place::new().run(&["dupes", "-q", "--json", tree]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    let ids = |group: &Value| {
        let paths = group["paths"].as_array().unwrap().iter();
        paths
            .map(|path| (number(&path["device"]), number(&path["inode"])))
            .collect()
    };
    document["groups"].as_array().unwrap().iter().map(ids).collect()
}

#[test]
fn dupes_are_those_of_jdupes_on_this_machine() {
    if Command::new("jdupes").arg("-v").output().is_err() {
        println!("skipped: there is no jdupes");
        return;
    }
    for tree in TREES {
        let (ours, theirs) = (of_seekless(tree), of_jdupes(tree));
        assert!(ours == theirs, "{tree}: {:?}", ours.symmetric_difference(&theirs));
        println!("{tree}: {} groups", ours.len());
    }
}
