//! Pages of runs: one beside each saved run, and one of any named run.

use std::fs;
use std::path::PathBuf;

use crate::common::place::{Ended, Place};

/// The page at the address in an output. The directories of tests have plain names.
fn page_of(ended: &Ended) -> PathBuf {
    let mut lines = ended.stdout.lines();
    let address = lines
        .find_map(|line| line.strip_prefix("Report  file://"))
        .unwrap_or_else(|| panic!("{}", ended.stdout));
    PathBuf::from(address.replace("%2B", "+").replace("%20", " "))
}

fn is_page(path: &PathBuf) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>"))
}

#[test]
fn report_lies_beside_each_saved_run() {
    let place = Place::new();
    let page = page_of(&place.bench("").succeeded());
    assert!(is_page(&page), "{}", page.display());
    assert!(page.with_extension("json").exists(), "{}", page.display());
    assert!(place.content().is_empty() && place.saved().len() == 1);
}

#[test]
fn report_option_writes_there_and_nowhere_else() {
    let place = Place::new();
    let page = page_of(&place.bench(&["--report", "a page.html"]).succeeded());
    assert!(is_page(&page) && page.ends_with("a page.html"), "{}", page.display());
    let latest = page_of(&place.call("report latest").succeeded());
    assert!(is_page(&latest) && latest != page);
}

#[test]
fn report_finds_runs_by_id_prefix_and_path() {
    let place = Place::new();
    place.bench("--export-json sent.json").succeeded();
    let id = place.saved()[0].id.clone();
    let pages = [id.as_str(), &id[..7], "latest", "./sent.json"].map(|run| {
        place.call(&["report", run, "--output", "page.html"]).succeeded();
        place.read("page.html")
    });
    assert!(pages.iter().all(|page| *page == pages[0] && !page.is_empty()));
    for _ in ["new", "replaced"] {
        let beside = page_of(&place.call("report sent.json").succeeded());
        assert!(is_page(&place.path("sent.html")) && beside.ends_with("sent.html"));
    }
    place.call("report latest -o /dev/null").succeeded();
}

#[test]
fn report_refuses_what_is_no_run() {
    let place = Place::new();
    place.bench("--export-json run.json").succeeded();
    let text = place.read("run.json");
    place.file("cut.json", &text[..text.len() / 2]);
    place.file("newer.json", br#"{"version": 99}"#);
    place.directories("directory.json");
    let before = place.content();
    for (run, reason) in [
        ("cut.json", "cut.json: the document is damaged"),
        ("newer.json", "use a newer seekless"),
        ("directory.json", "directory.json"),
        ("gone.json", "gone.json"),
        ("1999", "1999"),
        ("", "not a run"),
    ] {
        let sentence = place.call(&["report", run, "-o", "page.html"]).refused();
        assert!(sentence.contains(reason), "{run}: {sentence}");
    }
    for (output, reason) in [
        (".", "is a directory"),
        ("gone/page.html", "cannot create a file"),
        ("./run.json", "is the same file as"),
    ] {
        let sentence = place.call(&["report", "run.json", "-o", output]).refused();
        assert!(sentence.contains(reason), "{output}: {sentence}");
    }
    assert!(place.content() == before, "something was written");
}

#[test]
fn report_replaces_no_page_of_the_user() {
    let place = Place::new();
    place.bench("--export-json run.json").succeeded();
    let page = place.file("run.html", b"mine");
    place.refuses("report run.json", &["is not a report"]);
    assert_eq!(fs::read(&page).unwrap(), b"mine");
    place.call("report run.json -o run.html").succeeded();
    assert!(is_page(&page));
}

#[test]
fn report_is_removed_with_its_run() {
    let place = Place::new();
    let page = page_of(&place.bench("").succeeded());
    let id = place.saved()[0].id.clone();
    place.call(&["runs", "remove", &id]).succeeded();
    assert!(!page.exists() && place.saved().is_empty());
}
