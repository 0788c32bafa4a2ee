//! The licences of what is compiled into the program: they ask to be passed on with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{FEATURES, command};
use crate::process::capture;

/// How the names of files with licences begin.
const NAMES: [&str; 5] = ["licen", "copy", "notice", "unlicense", "author"];

/// The text for all crates in the program.
pub fn of(target: &str) -> Result<String> {
    let crates = crates(target)?;
    let metadata = capture(&mut command("cargo metadata --locked --format-version=1"))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    // Many have the same text.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().context("no packages")? {
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        let named = (text("name"), text("version"));
        let is_ours = package["source"].is_null();
        if is_ours || !crates.contains(&named) {
            continue;
        }
        for entry in fs::read_dir(Path::new(&text("manifest_path")).with_file_name(""))? {
            let entry = entry?;
            let file = entry.file_name().to_string_lossy().to_lowercase();
            if entry.path().is_file() && NAMES.iter().any(|begin| file.starts_with(begin)) {
                let about = format!("{} {}: {}", named.0, named.1, text("license"));
                texts.entry(fs::read_to_string(entry.path())?).or_default().push(about);
            }
        }
    }
    let line = "=".repeat(80);
    let sections = texts.iter();
    let sections = sections.map(|(text, crates)| format!("\n{line}\n{}\n\n{text}", crates.join("\n")));
    Ok(include_str!("notices.txt").to_owned() + &sections.collect::<String>())
}

/// Name and version of each crate that the program is compiled of, ours too.
pub fn crates(target: &str) -> Result<BTreeSet<(String, String)>> {
    let tree = "cargo tree --locked --package seekless-cli --edges normal --prefix none --target";
    let tree = capture(command(tree).args([target, "--features", FEATURES]))?;
    let named = tree.lines().filter_map(|line| line.split_once(" v"));
    let words = named.map(|(name, rest)| (name.to_owned(), rest.split(' ').next().unwrap_or_default().to_owned()));
    Ok(words.collect())
}
