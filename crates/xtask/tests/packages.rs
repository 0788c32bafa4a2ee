//! What can be said about packages without making them; `cargo xtask package` makes, installs and uses them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .output();
    let metadata: Value = serde_json::from_slice(&output.expect("cargo runs").stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

#[test]
fn crates_say_what_they_are_and_have_licences() {
    let packages = packages();
    let is_published = |package: &&Value| package["publish"].is_null();
    assert!(packages.iter().filter(is_published).count() >= 10);
    for package in packages.iter().filter(is_published) {
        for field in ["description", "license", "readme"] {
            assert!(package[field].is_string(), "{}: {field}", package["name"]);
        }
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(manifest.with_file_name(name).is_file(), "{}: {name}", package["name"]);
        }
    }
}

#[test]
fn debian_package_has_all_that_is_laid_out() {
    let packages = packages();
    let of_command = packages.iter().find(|package| package["name"] == "seekless-cli");
    let assets = &of_command.expect("the command")["metadata"]["deb"]["assets"];
    let sources = assets.as_array().expect("assets").iter().map(|asset| asset[0].as_str());
    let mut sources: Vec<_> = sources
        .map(|source| source.and_then(|source| source.strip_prefix("../../target/staged/")))
        .map(|source| source.expect("it is laid out by `cargo xtask package`"))
        .collect();
    sources.sort_unstable();
    let laid_out = [
        "c/usr/**/*",
        "seekless/*.md",
        "seekless/LICENSE-*",
        "seekless/THIRD-PARTY.txt",
        "seekless/completions/_seekless",
        "seekless/completions/seekless.bash",
        "seekless/completions/seekless.fish",
        "seekless/man/*",
        "seekless/seekless",
    ];
    assert_eq!(sources, laid_out);
}

#[test]
fn release_workflow_may_write_only_where_it_must() {
    let workflow = fs::read_to_string(root().join(".github/workflows/release.yml")).expect("the workflow");
    assert!(workflow.contains("\npermissions: {}\n"));
    let words = workflow.lines().map(str::trim).filter(|line| line.ends_with(": write"));
    assert_eq!(words.collect::<Vec<_>>(), ["contents: write", "id-token: write"]);
    assert!(workflow.contains("cargo xtask package\n"));
}
