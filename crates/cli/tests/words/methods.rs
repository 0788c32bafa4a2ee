//! `seekless methods`: the methods, and which of them work here.

use serde_json::Value;

use crate::common::place::{Place, assert_contains};

#[test]
fn methods_list_what_works_and_the_old_names() {
    let place = Place::new();
    let list = place.call("methods read").succeeded().stdout;
    assert_contains(&list, &["+ read/sync ", "read_async_fadvise"]);
    assert!(!list.contains("write/sync"), "{list}");
    assert!(place.content().is_empty());
}

#[test]
fn methods_fit_one_screen_and_all_lists_the_rest() {
    let place = Place::new();
    let screen = place.call("methods").succeeded().stdout;
    assert!(screen.lines().count() <= 23, "{screen}");
    assert_contains(&screen, &["seekless methods --all"]);
    let all = place.call("methods --all").succeeded().stdout;
    for name in ["read/sync", "copy/copy_file_range", "update/mmap"] {
        let (operation, mechanism) = name.split_once('/').unwrap();
        let mut lines = screen.lines().skip_while(|line| !line.starts_with(operation));
        let mut mechanisms = lines.next().unwrap().split(' ');
        assert!(mechanisms.any(|word| word == mechanism), "{name}: {screen}");
        assert!(all.contains(name), "{name}: {all}");
    }
}

#[test]
fn methods_take_patterns_options_and_parts_of_names() {
    let place = Place::new();
    let listed = |pattern: &str| place.call(&["methods", pattern]).succeeded().stdout;
    let direct = listed("*direct*");
    assert_contains(&direct, &[" read/sync,direct,block=128K\n"]);
    assert!(direct.lines().all(|line| line.contains("direct")), "{direct}");
    assert_eq!((&listed("--direct"), &listed("direct")), (&direct, &direct));
    let json = place.call("methods --direct --json").succeeded().json();
    let listed = direct.lines().filter(|line| !line.starts_with(' '));
    assert_eq!(json.as_array().unwrap().len(), listed.count());
    for wrong in ["--alll", "*zz*", "read/*[x"] {
        place.refuses(&["methods", wrong], &[&format!("`{wrong}`")]);
    }
    assert!(place.content().is_empty());
}

#[test]
fn methods_take_old_names() {
    let place = Place::new();
    let told = place.call("methods read_async_fadvise").succeeded().stdout;
    assert!(told.starts_with("read/double-buffer,"), "{told}");
    assert_contains(&told, &["available here"]);
}

#[test]
fn methods_json_has_mechanisms_and_methods() {
    let place = Place::new();
    let all: Value = place.call("methods --json").succeeded().json();
    let mut entries = all.as_array().unwrap().iter();
    let sync = entries.find(|entry| entry["mechanism"] == "read/sync").unwrap();
    let mut methods = sync["methods"].as_array().unwrap().iter();
    assert!(methods.any(|method| method["available"] == true));
    // A copy's mechanism reads nothing.
    place.call("methods read/clonefile --json").ended_with(2);
    let one: Value = place.call("methods read/sync --json").succeeded().json();
    assert_eq!(one["available"], true);
    assert!(place.content().is_empty());
}
