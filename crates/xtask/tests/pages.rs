//! The pages of the project: links lead somewhere, and no page is too long to be read at once.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below a directory whose names have one of these endings.
fn files(directory: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut files_found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory of the project") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            files_found.extend(files(&path, endings));
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            files_found.push(path);
        }
    }
    files_found
}

/// The pages for readers: those at the root, and `docs`.
fn pages() -> Vec<PathBuf> {
    let at_root = fs::read_dir(root()).expect("the root");
    let mut pages: Vec<PathBuf> = at_root.map(|entry| entry.expect("an entry").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.extend(files(&root().join("docs"), &[".md"]));
    pages
}

/// The lines of a page that are not in blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The anchors that a site makes of the headings of a page.
fn anchors(page: &str) -> HashSet<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    let words = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    words
        .map(|heading| {
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// Where the links of a page lead, without those to other sites.
fn targets(page: &str) -> Vec<String> {
    let links = prose(page).flat_map(|line| line.split("](").skip(1));
    let targets = links.filter_map(|rest| rest.split_once(')').map(|(target, _)| target.to_owned()));
    targets.filter(|target| !target.contains("://")).collect()
}

#[test]
fn page_links_lead_to_a_file_and_a_heading() {
    let pages = pages();
    assert!(pages.len() > 10, "only {} pages were found", pages.len());
    let mut broken = Vec::new();
    for path in pages {
        let page = fs::read_to_string(&path).expect("a page");
        for target in targets(&page) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let linked = match file {
                "" => path.clone(),
                file => path.parent().expect("it is in a directory").join(file),
            };
            let is_right = linked.exists()
                && (anchor.is_empty() || anchors(&fs::read_to_string(&linked).expect("a page")).contains(anchor));
            if !is_right {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn pages_that_sources_and_experiments_name_exist() {
    let sources = ["crates", "experiments", "hub/src", "hub/tests"]
        .map(|directory| files(&root().join(directory), &[".rs", ".toml", ".txt"]));
    let mut missing = Vec::new();
    for path in sources.concat() {
        let text = fs::read_to_string(&path).expect("a text");
        for rest in text.split("docs/").skip(1) {
            let is_of_a_path = |c: char| c.is_ascii_alphanumeric() || "-/.".contains(c);
            let name = rest
                .split(|c| !is_of_a_path(c))
                .next()
                .expect("a part")
                .trim_end_matches('.');
            let is_page = Path::new(name).extension().is_some_and(|extension| extension == "md");
            if is_page && !root().join("docs").join(name).exists() {
                missing.push(format!("{}: docs/{name}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn pages_have_no_more_than_400_lines() {
    for path in pages() {
        let lines = fs::read_to_string(&path).expect("a page").lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
    }
}
