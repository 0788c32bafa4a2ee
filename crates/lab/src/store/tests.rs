//! Saved runs are found, and nothing is lost.

use seekless_results::simulation;

use super::*;

fn run(id: &str) -> Run {
    Run {
        id: id.to_owned(),
        ..simulation::run(&[("read/mmap", 0.1)], 3)
    }
}

fn seeded(seed: u64, id: &str) -> Run {
    Run { seed, ..run(id) }
}

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::new(directory.path().join("seekless"));
    (directory, store)
}

fn ids(store: &Store) -> Vec<String> {
    let documents = store.documents().unwrap();
    documents.into_iter().map(|document| document.id).collect()
}

#[test]
fn store_finds_a_run_by_id_prefix_latest_and_path() {
    let (_directory, store) = store();
    assert!(store.documents().unwrap().is_empty());
    for id in ["2026-11-20T10-00-00-read", "2026-11-21T10-00-00-copy"] {
        store.save(&run(id)).unwrap();
    }
    let path = store.save(&run("2026-11-20T11-00-00-read")).unwrap();
    let found = |name: &str| store.find(name.as_ref()).map(|document| document.id);
    assert_eq!(found("2026-11-20T10-00-00-read").unwrap(), "2026-11-20T10-00-00-read");
    assert_eq!(found("2026-11-20T10").unwrap(), "2026-11-20T10-00-00-read");
    assert_eq!(found("latest").unwrap(), "2026-11-21T10-00-00-copy");
    let by_path = store.find(path.as_os_str()).unwrap();
    assert_eq!(by_path.origin, Origin::File);
    assert_eq!(by_path.read().unwrap().id, "2026-11-20T11-00-00-read");
    assert!(matches!(found("2026-11-20"), Err(StoreError::Ambiguous { matches, .. }) if matches.len() == 2));
    assert!(matches!(found(""), Err(StoreError::NoSuch { .. })));
    let error = found("2026-11-21T10-00-00-cpoy").unwrap_err().to_string();
    assert!(error.contains("the nearest are `2026-11-21T10-00-00-copy`"), "{error}");
}

#[test]
fn store_is_made_for_its_user_only() {
    let (_directory, store) = store();
    let path = store.save(&run("first")).unwrap();
    for directory in path.ancestors().skip(1).take(2) {
        let mode = fs::metadata(directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", directory.display());
    }
}

#[test]
fn store_never_overwrites_a_run_and_keeps_mode_and_links() {
    let (directory, store) = store();
    let (path, link) = (store.save(&run("first")).unwrap(), directory.path().join("link.json"));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    replace(&link, &seeded(2, "first")).unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(of_file(&path).unwrap().read().unwrap().seed, 2);
    let first = store.save(&run("same")).unwrap();
    let second = store.save(&seeded(2, "same"));
    assert_eq!(second.unwrap().file_stem().unwrap(), "same-1");
    assert_eq!(of_file(&first).unwrap().read().unwrap().seed, 1);
}

#[test]
fn store_name_from_a_stranger_stays_in_the_directory() {
    let (directory, store) = store();
    let (document, is_new) = store.import(&run("../../x\n\u{1b}[2J/y")).unwrap();
    assert!(is_new && document.path.starts_with(directory.path().join("seekless/imported")));
    assert_eq!(document.id, "imported-.._.._x___2J_y");
    store.save(&run(&format!(".{}", "long".repeat(1000)))).unwrap();
    assert_eq!(ids(&store).len(), 2);
}

#[test]
fn store_import_stays_apart_and_happens_once() {
    let (_directory, store) = store();
    store.save(&run("2026-a")).unwrap();
    assert!(store.import(&run("2026-b")).unwrap().1);
    let (again, is_new) = store.import(&run("2026-b")).unwrap();
    assert!(!is_new && again.id == "imported-2026-b" && again.origin == Origin::Imported);
    assert_eq!(store.import(&seeded(9, "2026-b")).unwrap().0.id, "imported-2026-b-1");
    assert_eq!(ids(&store), ["2026-a", "imported-2026-b-1", "imported-2026-b"]);
    assert_eq!(store.find("latest".as_ref()).unwrap().id, "2026-a");
}

#[test]
fn store_prune_removes_the_oldest_beyond_a_size_only() {
    let (_directory, store) = store();
    for (age, id) in [(3, "b"), (2, "c"), (1, "a")] {
        let path = store.save(&run(id)).unwrap();
        let then = std::time::SystemTime::now() - std::time::Duration::from_hours(age);
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(then).unwrap();
    }
    let one = store.documents().unwrap()[0].bytes;
    let beyond = |most| {
        let documents = store.beyond(most).unwrap();
        documents.into_iter().map(|document| document.id).collect::<Vec<_>>()
    };
    assert_eq!(beyond(3 * one), Vec::<String>::new());
    assert_eq!(beyond(2 * one), ["b"]);
    assert_eq!(beyond(one - 1), ["b", "c", "a"]);
    store.remove(&store.find("c".as_ref()).unwrap()).unwrap();
    assert_eq!(beyond(0), ["b", "a"]);
}

#[test]
fn store_lists_a_damaged_document_and_names_it_when_read() {
    let (directory, store) = store();
    store.save(&run("good")).unwrap();
    let damaged = directory.path().join("seekless/runs/broken.json");
    fs::write(&damaged, "{\"version\": 1").unwrap();
    let error = store.find("broken".as_ref()).unwrap().read().unwrap_err();
    let error = seekless_engine::full_text(&error);
    assert!(error.contains("broken.json: the document is damaged"), "{error}");
    assert_eq!(ids(&store), ["good", "broken"]);
}

#[test]
fn store_refuses_a_directory_and_splits_several_documents() {
    let (directory, store) = store();
    let error = store.find(directory.path().as_os_str()).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let text = seekless_record::to_json(&run("a")).unwrap();
    let path = directory.path().join("two");
    fs::write(&path, format!("{text}{text}")).unwrap();
    let documents = split(&path).unwrap();
    assert_eq!(documents.len(), 2);
    assert!(documents.iter().all(|text| seekless_record::from_json(text).is_ok()));
    fs::write(&path, format!("{text}garbage")).unwrap();
    assert!(split(&path).is_err());
    fs::write(&path, " \n").unwrap();
    assert!(split(&path).is_err());
}
