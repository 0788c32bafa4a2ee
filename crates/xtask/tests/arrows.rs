//! Which crate of the workspace may depend on which: data flows down the stairs.
//!
//! The hub is a workspace of its own, and seekless needs nothing that talks to a network.
//!
//! `MAY_DEPEND_ON` is the house as it shall be (ARCHITECTURE.md); `EXCEPTIONS` is what does not fit yet. An arrow that is in
//! neither fails, and so does an exception that nothing needs any more: the list only gets shorter.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

const LIBRARIES: &str = "seekless seekless-lab seekless-method seekless-record seekless-report seekless-results \
                         seekless-sim seekless-sys seekless-tools";

const MAY_DEPEND_ON: &[(&str, &str)] = &[
    (FEATURES_ONLY, ""),
    ("seekless-sys", ""),
    ("seekless-method", ""),
    ("seekless-record", "seekless-method"),
    ("seekless", "seekless-sys seekless-method seekless-record"),
    ("seekless-tools", "seekless seekless-method seekless-sys"),
    ("seekless-results", "seekless-method seekless-record"),
    (
        "seekless-lab",
        "seekless seekless-results seekless-record seekless-method seekless-sys",
    ),
    ("seekless-report", "seekless-results seekless-record seekless-method"),
    ("seekless-sim", "seekless-sys"),
    ("seekless-capi", "seekless"),
    ("seekless-python", "seekless seekless-tools"),
    ("seekless-cli", LIBRARIES),
    ("xtask", "seekless-results seekless-sim"),
];

/// It has no code: tests of every crate depend on it.
const FEATURES_ONLY: &str = "workspace-hack";

const EXCEPTIONS: &[(&str, &str)] = &[("xtask", "seekless"), ("xtask", "seekless-record")];

/// The crates of the workspace, each with the ones that it depends on, for tests and builds too.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args("metadata --no-deps --offline --format-version 1 --manifest-path".split(' '))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let name = |value: &Value| value["name"].as_str().expect("a package has a name").to_owned();
    let packages = metadata["packages"].as_array().expect("a workspace has packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("a list");
            let is_ours = |dependency: &&Value| dependency["path"].is_string() && dependency["name"] != FEATURES_ONLY;
            let ours = dependencies.iter().filter(is_ours);
            (name(package), ours.map(name).collect())
        })
        .collect()
}

#[test]
fn crates_depend_only_on_those_below_them_and_no_exception_is_left_that_nothing_needs() {
    let allowed: BTreeMap<_, _> = MAY_DEPEND_ON.iter().copied().collect();
    let mut forbidden = Vec::new();
    let arrows = arrows();
    for (from, dependencies) in &arrows {
        let below = allowed
            .get(from.as_str())
            .unwrap_or_else(|| panic!("{from} has no row in MAY_DEPEND_ON"));
        for to in dependencies {
            let (from, to) = (from.as_str(), to.as_str());
            if !below.split(' ').any(|below| below == to) && !EXCEPTIONS.contains(&(from, to)) {
                forbidden.push(format!("{from} -> {to}"));
            }
        }
    }
    assert!(forbidden.is_empty(), "not in MAY_DEPEND_ON: {}", forbidden.join(", "));
    for (from, to) in EXCEPTIONS {
        let used = arrows.get(*from).is_some_and(|dependencies| dependencies.contains(*to));
        assert!(used, "{from} no longer depends on {to}: remove the exception");
    }
}

/// Follows the table: what may be reached from a crate.
#[test]
fn the_table_of_crates_has_no_circle() {
    let allowed: BTreeMap<_, _> = MAY_DEPEND_ON.iter().copied().collect();
    for &(start, _) in MAY_DEPEND_ON {
        let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
        while let Some(name) = next.pop() {
            for below in allowed[name].split_terminator(' ') {
                assert!(below != start, "{start} can be reached from itself, by {name}");
                if seen.insert(below) {
                    next.push(below);
                }
            }
        }
    }
}

/// What the hub may use of seekless.
const BELOW_HUB: &str = "seekless seekless-lab seekless-method seekless-record seekless-report seekless-results";

/// Crates by which programs talk to a network, or that those use.
const OF_NETWORKS: &str = "axum hyper mio native-tls reqwest rustls socket2 sqlx tokio ureq";

#[test]
fn the_hub_depends_on_what_is_below_the_command_and_seekless_on_no_network() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).expect("a file of the project");
    let manifest = text("hub/Cargo.toml");
    let ours = manifest.lines().filter(|line| line.contains("path = \"../"));
    let ours: BTreeSet<&str> = ours.filter_map(|line| line.split(" = ").next()).collect();
    assert_eq!(ours, BELOW_HUB.split(' ').collect());
    let lock = text("Cargo.lock");
    for name in OF_NETWORKS.split(' ') {
        let is_there = !lock.contains(&format!("\nname = \"{name}\"\n"));
        assert!(is_there, "{name} is in Cargo.lock");
    }
}
