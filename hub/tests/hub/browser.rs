//! The pages in a browser, which `cargo xtask test --long --only browser` brings.

use std::process::Command;

use crate::common::{Database, Hub};
use crate::generated;

/// The variable with what visits a hub: a command of the shell, which finds the address in `SEEKLESS_HUB`, the name of the
/// database in `DATABASE`, and the program `seekless-hub` in `PROGRAM`.
const VISITOR: &str = "SEEKLESS_TEST_VISITOR";

const MACHINES: u64 = 40;
const RUNS: u64 = 3;

#[test]
#[ignore = "needs a browser"]
fn pages_in_a_browser() {
    let visitor = std::env::var(VISITOR).unwrap();
    for database in Database::all() {
        let hub = Hub::start(&database);
        for (machine, number) in (0..MACHINES).flat_map(|machine| (0..RUNS).map(move |number| (machine, number))) {
            assert_eq!(hub.share(&generated::run(machine, number)).status, 201);
        }
        let mut visit = Command::new("sh");
        visit
            .args(["-c", &visitor])
            .env("SEEKLESS_HUB", &hub.url)
            .env("DATABASE", database.name)
            .env("PROGRAM", env!("CARGO_BIN_EXE_seekless-hub"));
        assert!(visit.status().unwrap().success(), "{}", database.name);
    }
}
