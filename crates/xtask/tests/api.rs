//! The surface of the library that people depend on stands in `docs/api.txt`, so that a change of it is seen and meant.
//!
//! `UPDATE_EXPECT=1 cargo test -p xtask --test api` writes it anew.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Makes rustdoc, and nothing else, accept options that are not stable yet: the compiler would compile dependencies again.
const RUSTDOC: &str = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";

/// A surface that a user reads in a quarter of an hour.
const LINES_MAX: usize = 250;

#[test]
fn library_surface_is_the_one_that_was_reviewed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let rustdoc = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rustdoc");
    fs::write(&rustdoc, RUSTDOC).expect("a script is written");
    fs::set_permissions(&rustdoc, Permissions::from_mode(0o755)).expect("it can be run");
    let built = Command::new(env!("CARGO"))
        .args(["rustdoc", "--quiet", "--package", "seekless"])
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .env("RUSTDOC", &rustdoc)
        .current_dir(&root)
        .status()
        .expect("cargo starts");
    assert!(built.success());
    let surface = public_api::Builder::from_rustdoc_json(target.join("doc/seekless.json"))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .expect("the documentation is understood");
    let lines: Vec<String> = surface.items().map(|item| format!("{item}\n")).collect();
    // Programs depend on std's types and on those of this crate.
    let foreign: Vec<&String> = (lines.iter())
        .filter(|line| line.contains("seekless_") || line.contains("rustix"))
        .collect();
    assert!(
        foreign.is_empty(),
        "types of other crates in public signatures: {foreign:#?}"
    );
    assert!(
        lines.len() <= LINES_MAX,
        "{} lines are more than {LINES_MAX}",
        lines.len()
    );
    expect_test::expect_file![root.join("docs/api.txt")].assert_eq(&lines.concat());
}
