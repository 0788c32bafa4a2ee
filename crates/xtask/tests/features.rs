//! Tests of one package use the dependencies that tests of the whole workspace compiled: each has the same features.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The sets of features of each dependency; one that macros use, too, may have two.
type Features = BTreeMap<String, BTreeSet<String>>;

/// The packages that these arguments of cargo select, and their dependencies, but for the command and its tools.
fn features(arguments: &[&str]) -> Features {
    let tree = Command::new(env!("CARGO"))
        .args("tree --offline --locked --prefix none --format {p}|{f} --edges".split(' '))
        .args(arguments)
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let mut found = Features::new();
    for line in String::from_utf8(tree.stdout).expect("text").lines() {
        let Some((package, features)) = line.trim_end_matches(" (*)").split_once('|') else {
            continue;
        };
        let package = package.trim_end_matches(" (proc-macro)");
        // Those of jobs are not asked for alone.
        if !package.starts_with("seekless-cli ") && !package.starts_with("seekless-tools ") {
            found.entry(package.to_owned()).or_default().insert(features.to_owned());
        }
    }
    found
}

#[test]
fn packages_alone_have_the_dependencies_of_the_workspace() {
    let names = Command::new(env!("CARGO"))
        .args("tree --offline --locked --workspace --depth 0 --prefix none --format {lib}|{p}".split(' '))
        .output()
        .expect("cargo runs");
    let names = String::from_utf8(names.stdout).expect("text");
    let names: Vec<&str> = (names.lines())
        .filter_map(|line| line.split_once('|')?.1.split(' ').next())
        .collect();
    assert!(names.len() > 10, "{names:?}");

    let of_workspace = features(&["normal,build,dev", "--workspace", "--all-features"]);
    let mut missing = BTreeSet::new();
    for name in names {
        // The last is `cargo xtask`, and the wheel.
        for edges in ["normal,build,dev", "normal,build"] {
            if edges.ends_with("dev") || ["xtask", "seekless-python"].contains(&name) {
                let alone = features(&[edges, "--package", name]);
                let differs = |(package, sets): &(&String, &BTreeSet<String>)| {
                    // Its own features are those that were asked for.
                    let is_itself = package.split(' ').next() == Some(name);
                    !is_itself && !of_workspace.get(*package).is_some_and(|of_all| sets.is_subset(of_all))
                };
                missing.extend(alone.iter().filter(differs).map(|(package, _)| package.clone()));
            }
        }
    }
    let wanted = missing.iter().map(|package| (package, &of_workspace[package]));
    let wanted: BTreeMap<_, _> = wanted.collect();
    let advice = "give these their features in crates/workspace-hack/Cargo.toml";
    assert!(wanted.is_empty(), "{advice}: {wanted:#?}");
}
