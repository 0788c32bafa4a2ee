//! `seekless methods`: the methods, and which of them work here.

use serde_json::Value;

use super::place::Place;

#[test]
fn methods_are_listed_with_what_works_and_the_old_names() {
    let place = Place::new();
    let list = place.run(&["methods", "read"]).succeeded().stdout;
    assert!(list.contains("+ read/sync "), "{list}");
    assert!(list.contains("read_async_fadvise"), "{list}");
    assert!(!list.contains("write/sync"), "{list}");
    assert!(place.content().is_empty());
}

#[test]
fn an_old_name_is_a_method() {
    let place = Place::new();
    let told = place.run(&["methods", "read_async_fadvise"]).succeeded().stdout;
    assert!(told.starts_with("read/double-buffer,"), "{told}");
    assert!(told.contains("available here"), "{told}");
}

#[test]
fn programs_get_json() {
    let place = Place::new();
    let all: Value = serde_json::from_str(&place.run(&["methods", "--json"]).succeeded().stdout).unwrap();
    let sync = all
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["mechanism"] == "read/sync")
        .unwrap();
    assert!(
        sync["methods"]
            .as_array()
            .unwrap()
            .iter()
            .any(|method| method["available"] == true)
    );
    let one = place.run(&["methods", "read/clonefile", "--json"]);
    assert_eq!(one.code, Some(2), "a copy's mechanism reads nothing");
    let one: Value = serde_json::from_str(&place.run(&["methods", "read/sync", "--json"]).succeeded().stdout).unwrap();
    assert_eq!(one["available"], true);
    assert!(place.content().is_empty());
}
