//! Groups of equal files, as `dupes --json` prints them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::place::Ended;

/// The names of a file, and all files of a group.
pub type Names = BTreeSet<String>;
pub type Groups = BTreeSet<BTreeSet<Names>>;

/// What a search found.
pub struct Seen {
    pub groups: Groups,
    /// Of each name, what is free if its file is removed.
    pub own_bytes: BTreeMap<String, u64>,
    /// Of each group, by its first name.
    pub gain_bytes: BTreeMap<String, u64>,
    pub summary: Value,
    pub stderr: String,
    pub code: Option<i32>,
}

impl Seen {
    /// From the output of `--json`.
    pub fn of(ended: &Ended) -> Self {
        let document: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr));
        let mut seen = Self {
            groups: Groups::new(),
            own_bytes: BTreeMap::new(),
            gain_bytes: BTreeMap::new(),
            summary: document["summary"].clone(),
            stderr: ended.stderr.clone(),
            code: ended.code,
        };
        let reported = document["groups"].as_array().unwrap().iter();
        for group in reported.filter(|group| group["kind"] != "contained") {
            let mut files: BTreeMap<(u64, u64), Names> = BTreeMap::new();
            for name in group["paths"].as_array().unwrap() {
                let number = |key: &str| name[key].as_u64().unwrap();
                let path = name["path"].as_str().unwrap().trim_start_matches("./").to_owned();
                seen.own_bytes.insert(path.clone(), number("own_bytes"));
                files
                    .entry((number("device"), number("inode")))
                    .or_default()
                    .insert(path);
            }
            let files: BTreeSet<Names> = files.into_values().collect();
            let gain = group["gain_bytes"].as_u64().unwrap();
            seen.gain_bytes
                .insert(files.first().unwrap().first().unwrap().clone(), gain);
            assert!(seen.groups.insert(files), "{document}");
        }
        seen
    }
}

/// Groups, written as `a b|c`: files of one group, the names of each separated by `|`.
pub fn groups(expected: &[&str]) -> Groups {
    let file = |names: &str| names.split('|').map(str::to_owned).collect::<Names>();
    let group = |group: &&str| group.split(' ').map(file).collect();
    expected.iter().map(group).collect()
}
