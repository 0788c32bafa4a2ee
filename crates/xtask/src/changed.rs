//! What differs from the main branch, so that a quick check looks at that and at what depends on it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::built::{cargo_command, root};
use crate::process::capture;

/// The names of the main branch: as it was fetched last, and here.
const MAIN: [&str; 2] = ["origin/main", "main"];

/// A change of these changes every package.
const OF_ALL: [&str; 4] = [".cargo/", "Cargo.lock", "Cargo.toml", "rust-toolchain.toml"];

/// Directories outside the packages that build them.
const BUILT_INTO: [(&str, &str); 1] = [("experiments/", "seekless-lab")];

/// Returns the paths, below the root of the project, that differ from the main branch. `None` if there is nothing to compare
/// with: no branch, as in an archive, or no difference, as in a new clone.
pub fn files() -> Option<Vec<String>> {
    let git = |words: &[&str]| capture(Command::new("git").args(words).current_dir(root()));
    let base = MAIN.iter().find_map(|main| git(&["merge-base", "HEAD", main]).ok())?;
    let differing = git(&["diff", "--name-only", base.trim()]).ok()?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard", "--full-name"]).ok()?;
    let files: Vec<_> = differing.lines().chain(untracked.lines()).map(str::to_owned).collect();
    (!files.is_empty()).then_some(files)
}

/// Returns the packages of the workspace that differ, and those that depend on them. `None` stands for all.
pub fn packages() -> Result<Option<Vec<String>>> {
    let Some(files) = files() else {
        return Ok(None);
    };
    let metadata = capture(cargo_command().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata = serde_json::from_str(&metadata).context("cargo metadata prints JSON")?;
    packages_of(&files, &metadata)
}

fn packages_of(files: &[String], metadata: &Value) -> Result<Option<Vec<String>>> {
    let is_of_all = |file: &String| OF_ALL.iter().any(|of_all| file.starts_with(of_all));
    if files.iter().any(is_of_all) {
        return Ok(None);
    }
    let top = Path::new(metadata["workspace_root"].as_str().context("no workspace_root")?);
    let packages = metadata["packages"].as_array().context("no packages")?;
    let name = |package: &Value| package["name"].as_str().unwrap_or_default().to_owned();
    let mut changed = BTreeSet::new();
    for file in files {
        let built_into = BUILT_INTO.iter().filter(|(begin, _)| file.starts_with(begin));
        changed.extend(built_into.map(|(_, package)| (*package).to_owned()));
        let is_in = |package: &&Value| {
            let manifest = package["manifest_path"].as_str().map(Path::new);
            let directory = manifest.and_then(Path::parent);
            directory.is_some_and(|directory| top.join(file).starts_with(directory))
        };
        changed.extend(packages.iter().filter(is_in).map(name));
    }
    loop {
        let known = changed.len();
        for package in packages {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            if dependencies.map(name).any(|dependency| changed.contains(&dependency)) {
                changed.insert(name(package));
            }
        }
        if changed.len() == known {
            return Ok(Some(changed.into_iter().collect()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(files: &[&str]) -> Option<Vec<String>> {
        let package = |name: &str, directory: &str, dependencies: &[&str]| {
            let dependencies: Vec<_> = dependencies.iter().map(|name| json!({"name": name})).collect();
            json!({"name": name, "manifest_path": format!("/top/{directory}/Cargo.toml"), "dependencies": dependencies})
        };
        let metadata = json!({"workspace_root": "/top", "packages": [
            package("seekless-tools", "crates/tools", &["seekless"]),
            package("seekless", "crates/engine", &["libc"]),
            package("seekless-cli", "crates/cli", &["seekless-tools", "seekless-lab"]),
            package("seekless-lab", "crates/lab", &["seekless"]),
        ]});
        let files: Vec<_> = files.iter().map(|&file| file.to_owned()).collect();
        packages_of(&files, &metadata).unwrap()
    }

    #[test]
    fn packages_are_those_with_changed_files_and_those_above_them() {
        assert_eq!(
            of(&["crates/tools/src/lib.rs"]).unwrap(),
            ["seekless-cli", "seekless-tools"]
        );
        assert_eq!(of(&["experiments/x.toml"]).unwrap(), ["seekless-cli", "seekless-lab"]);
        assert_eq!(of(&["crates/engine/src/lib.rs"]).unwrap().len(), 4);
        assert_eq!(of(&["docs/guide.md"]).unwrap(), [""; 0]);
    }

    #[test]
    fn packages_are_all_if_the_manifest_of_the_workspace_changed() {
        assert_eq!(of(&["docs/guide.md", "Cargo.toml"]), None);
    }
}
