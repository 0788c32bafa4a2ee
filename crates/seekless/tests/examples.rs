//! The examples do what they say.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// An example, which cargo builds beside the tests.
fn example(name: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().and_then(Path::parent).unwrap().join("examples");
    Command::new(built.join(name))
}

fn said(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn loader_loads_each_file() {
    let directory = tempfile::tempdir().unwrap();
    let paths = [5, 3 << 20].map(|bytes| {
        let path = directory.path().join(bytes.to_string());
        fs::write(&path, vec![1; bytes]).unwrap();
        path
    });
    let loaded = said(&example("loader").args(&paths).output().unwrap());
    let loaded: Vec<&str> = loaded.lines().collect();
    assert!(
        loaded[0].contains(": 5 bytes in ") && loaded[1].contains(": 3145728 bytes in "),
        "{loaded:?}"
    );
}

#[test]
fn copier_tells_progress_and_copies() {
    let directory = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
    fs::write(&from, vec![7; 40 << 20]).unwrap();
    let copied = said(&example("copier").args([&from, &to]).output().unwrap());
    assert!(copied.starts_with("41943040 bytes by copy/"), "{copied}");
    assert!(fs::read(&to).unwrap() == vec![7; 40 << 20]);
    let again = example("copier").args([&from, &to]).output().unwrap();
    assert!(!again.status.success(), "it overwrote a file");
}

#[test]
fn durable_writer_writes_what_it_reads() {
    let directory = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
    let bytes: Vec<u8> = (0..20 << 20).map(|at: u32| (at >> 7) as u8).collect();
    fs::write(&from, &bytes).unwrap();
    let input = Stdio::from(fs::File::open(&from).unwrap());
    let written = said(&example("durable_writer").arg(&to).stdin(input).output().unwrap());
    assert!(
        written.starts_with("20971520 bytes in ") && written.contains("fsync"),
        "{written}"
    );
    assert!(fs::read(&to).unwrap() == bytes);
}

#[test]
fn compare_trees_names_what_differs_and_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    for (tree, names) in [(&one, ["a", "b", "c"]), (&other, ["a", "b", "d"])] {
        fs::create_dir_all(tree.join("below")).unwrap();
        for name in names {
            let content = if name == "b" {
                tree.as_os_str().as_encoded_bytes()
            } else {
                b"same"
            };
            fs::write(tree.join("below").join(name), content).unwrap();
        }
    }
    let named = said(&example("compare_trees").args([&one, &other]).output().unwrap());
    let [differs, lacks] = ["b", "c"].map(|name| other.join("below").join(name).display().to_string());
    assert_eq!(named, format!("{differs} differs\n{lacks} is missing\n"));
}

#[test]
fn update_records_sets_counters_and_no_other_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records");
    let mut expected = vec![9; 64 * 100];
    fs::write(&path, &expected).unwrap();
    let updated = said(
        &example("update_records")
            .arg(&path)
            .args(["258", "3", "99"])
            .output()
            .unwrap(),
    );
    assert!(updated.starts_with("16 bytes changed in "), "{updated}");
    for record in [3, 99] {
        expected[record * 64..][..8].copy_from_slice(&[2, 1, 0, 0, 0, 0, 0, 0]);
    }
    assert!(fs::read(&path).unwrap() == expected);
}

#[test]
fn reader_under_tokio_counts_the_lines_of_all_files() {
    let directory = tempfile::tempdir().unwrap();
    let paths = [1, 20, 300_000].map(|lines| {
        let path = directory.path().join(lines.to_string());
        fs::write(&path, "a line\n".repeat(lines)).unwrap();
        path
    });
    assert_eq!(
        said(&example("reader_under_tokio").args(&paths).output().unwrap()),
        "300021 lines\n"
    );
}
