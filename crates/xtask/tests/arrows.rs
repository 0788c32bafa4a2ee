//! Which crate of the workspace may depend on which, and which file of a crate on which: data flows down the stairs.
//!
//! The hub is a workspace of its own, and seekless needs nothing that talks to a network.
//!
//! `MAY_DEPEND_ON` is the house as it shall be (ARCHITECTURE.md); `EXCEPTIONS` is what does not fit yet. An arrow that is in
//! neither fails, and so does an exception that nothing needs any more: the list only gets shorter.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const LIBRARIES: &str = "seekless-engine seekless-lab seekless-method seekless-record seekless-report seekless-results \
                         seekless-sim seekless-sys seekless-tools";

const MAY_DEPEND_ON: &[(&str, &str)] = &[
    (FEATURES_ONLY, ""),
    ("seekless-sys", ""),
    ("seekless-method", ""),
    ("seekless-record", "seekless-method"),
    ("seekless-engine", "seekless-sys seekless-method seekless-record"),
    ("seekless", "seekless-engine"),
    (
        "seekless-tools",
        "seekless seekless-engine seekless-method seekless-sys",
    ),
    ("seekless-results", "seekless-method seekless-record"),
    (
        "seekless-lab",
        "seekless-engine seekless-results seekless-record seekless-method seekless-sys",
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

const EXCEPTIONS: &[(&str, &str)] = &[("xtask", "seekless-engine"), ("xtask", "seekless-record")];

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
fn crates_depend_only_on_those_below_and_exceptions_are_needed() {
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
fn crates_table_has_no_circle() {
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
const BELOW_HUB: &str = "seekless-engine seekless-lab seekless-method seekless-record seekless-report seekless-results";

/// Crates by which programs talk to a network, or that those use. An example runs under tokio, which needs mio and socket2 for that.
const OF_NETWORKS: &str = "axum hyper mio native-tls reqwest rustls socket2 sqlx ureq";

#[test]
fn hub_depends_below_the_command_and_seekless_on_no_network() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = |path: &str| fs::read_to_string(format!("{root}/{path}")).expect("a file of the project");
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

/// A module by the names of its path: `src/a/b.rs` and `src/a/b/mod.rs` are `a`, `b`.
type Module = Vec<String>;

/// The modules of a crate, each with its text.
fn modules(folder: &Path, above: &[String], found: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let module = match name.as_str() {
            "tests" => continue,
            "mod" | "lib" | "main" => above.to_vec(),
            _ => [above, &[name]].concat(),
        };
        if path.is_dir() {
            modules(&path, &module, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a file of Rust");
            found.insert(module, without_tests(&text));
        }
    }
}

/// A file without its comments and the items that are for tests only.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            // A block ends with a brace of its own, another item with a semicolon.
            let head = lines.by_ref().find(|line| !line.starts_with("#["));
            if head.is_some_and(|head| !head.ends_with(';')) {
                lines.by_ref().find(|line| line.starts_with('}'));
            }
        } else if !line.trim_start().starts_with("//") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// The paths of a tree of `use`, without its spaces: `a::{b, c::{d, e}}` has `a::b`, `a::c::d` and `a::c::e`.
fn paths_of(tree: &str) -> Vec<String> {
    let Some((head, body)) = tree.strip_suffix('}').and_then(|tree| tree.split_once('{')) else {
        return vec![tree.to_owned()];
    };
    let mut depth = 0;
    let branches = body.split(|sign| {
        depth += i32::from(sign == '{') - i32::from(sign == '}');
        sign == ',' && depth == 0
    });
    let branches = branches.filter(|branch| !branch.is_empty());
    branches
        .flat_map(|branch| paths_of(&format!("{head}{branch}")))
        .collect()
}

/// A tree of `use` without spaces, and without the other names that it gives.
fn without_aliases(tree: &str) -> String {
    let mut words = tree.split_whitespace();
    let mut kept = String::new();
    while let Some(word) = words.next() {
        match word {
            "as" => kept.extend(words.next().iter().flat_map(|alias| alias.matches([',', '}']))),
            _ => kept.push_str(word),
        }
    }
    kept
}

/// The paths that a file has in `use`, and those elsewhere in it that begin with `crate`, `super` or `self`.
fn paths_in(text: &str) -> Vec<Vec<String>> {
    let is_name = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == ':';
    // The word may also stand in a string.
    let begins_line = |at: usize| {
        let before = text[..at].rsplit('\n').next().unwrap_or_default().trim();
        before.is_empty() || before.starts_with("pub")
    };
    let uses = text.match_indices("use ").filter(|(at, _)| begins_line(*at));
    let uses = uses.filter_map(|(at, word)| text[at + word.len()..].split_once(';'));
    let trees = uses.map(|(tree, _)| without_aliases(tree));
    let plain = text.split(|sign| !is_name(sign)).filter(|path| {
        let begins = |start: &str| path.starts_with(start);
        ["crate::", "super::", "self::"].into_iter().any(begins)
    });
    let all = trees.flat_map(|tree| paths_of(&tree)).chain(plain.map(str::to_owned));
    all.map(|path| path.split("::").map(str::to_owned).collect()).collect()
}

/// A path as the root of the crate would write it; `None` for one of another crate.
fn absolute(module: &[String], path: &[String], all: &BTreeMap<Module, String>) -> Option<Module> {
    let (mut base, mut rest) = (module.to_vec(), path);
    match path[0].as_str() {
        "crate" => (base, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        _ if all.contains_key(&[module, &path[..1]].concat()) => {}
        _ => return None,
    }
    Some([&base, rest].concat())
}

/// The file that defines what an absolute path names: what a module only passes on is that of the file behind it.
fn defining<'a>(
    target: &[String],
    all: &'a BTreeMap<Module, String>,
    passed_on: &BTreeMap<Module, Module>,
    depth: usize,
) -> Option<&'a Module> {
    if let Some(further) = passed_on.get(target).filter(|further| *further != target && depth < 8) {
        return defining(further, all, passed_on, depth + 1);
    }
    (0..=target.len())
        .rev()
        .find_map(|length| all.get_key_value(&target[..length]))
        .map(|(module, _)| module)
}

/// The files of a crate that can be reached from themselves, or lie between such files.
fn circles(source: &Path) -> Vec<String> {
    let mut all = BTreeMap::new();
    modules(source, &[], &mut all);
    let mut named = Vec::new();
    let mut passed_on = BTreeMap::new();
    for (module, text) in &all {
        for path in paths_in(text) {
            if let Some(target) = absolute(module, &path, &all) {
                if let Some(name) = target.last() {
                    passed_on.insert([module.as_slice(), std::slice::from_ref(name)].concat(), target.clone());
                }
                named.push((module, target));
            }
        }
    }
    let mut needs: BTreeMap<&Module, BTreeSet<&Module>> = all.keys().map(|module| (module, BTreeSet::new())).collect();
    for (module, target) in &named {
        let found = defining(target, &all, &passed_on, 0);
        // A folder's own file and the files in it may know each other.
        if let Some(found) = found.filter(|found| !found.starts_with(module) && !module.starts_with(found)) {
            needs.get_mut(module).expect("a module of the crate").insert(found);
        }
    }
    loop {
        let free = needs.iter().find(|(_, below)| below.is_empty());
        let Some(free) = free.map(|(module, _)| *module) else {
            break;
        };
        needs.remove(free);
        for below in needs.values_mut() {
            below.remove(free);
        }
    }
    let pairs = needs.iter().map(|(module, below)| {
        let below: Vec<String> = below.iter().map(|below| below.join("::")).collect();
        format!("{} -> {}", module.join("::"), below.join(", "))
    });
    pairs.collect()
}

#[test]
fn files_of_a_crate_depend_on_each_other_in_no_circle() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for entry in fs::read_dir(crates).expect("the folder of the crates") {
        let entry = entry.expect("a crate");
        let circles = circles(&entry.path().join("src"));
        let name = entry.file_name();
        assert!(circles.is_empty(), "{}:\n{}", name.display(), circles.join("\n"));
    }
}

#[test]
fn circle_of_files_is_found_behind_what_a_module_passes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        fs::write(path, text).expect("the file is written");
    };
    write("lib.rs", "mod a;\nmod b;\npub use b::{inner::Deep, other};\n");
    write(
        "a.rs",
        "use crate::Deep;\n#[cfg(test)]\nmod tests {\n    use super::super::b;\n}\n",
    );
    write("b/mod.rs", "pub mod inner;\npub fn other() {}\n");
    write("b/inner.rs", "pub struct Deep;\n");
    assert_eq!(circles(folder.path()), Vec::<String>::new());
    write("b/inner.rs", "pub struct Deep;\nfn one() { crate::a::two(); }\n");
    assert_eq!(circles(folder.path()), ["a -> b::inner", "b::inner -> a"]);
}
