//! The project's chores, as `cargo xtask CHORE`: its one test command, and comparisons of the lab with fio and itself.
//!
//! Nothing here is part of what users install. Standard programs are called (`fio`, `mount`, `mkfs.*`, `apt-get`). Of
//! the project's crates, the lab is linked, because fio is compared with its trials.

mod browser;
mod built;
mod cost;
mod filesystems;
mod fuzz;
#[cfg(target_os = "linux")]
mod peers;
mod process;
mod rule;
mod setup;
mod test;
#[cfg(target_os = "linux")]
mod torture;

use std::process::ExitCode;

use clap::Parser;

/// The chores of the project.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Chore {
    /// Run every check: set-up, formatting, lints, tests, real file systems, documentation
    Test(test::Arguments),
    /// Mutate documents, experiments and methods until something breaks (Linux)
    Fuzz(fuzz::Arguments),
    /// Compare the system calls and instructions of methods with the recorded ones (Linux)
    Cost(cost::Arguments),
    /// Test the rule by which the lab decides, on a simulated machine
    Rule(rule::Arguments),
    /// Run random commands on real file systems, disturb them, and check the results (Linux, root)
    #[cfg(target_os = "linux")]
    Torture(torture::Arguments),
    /// Take the picture of a report for the README
    ReportPicture(browser::Picture),
    /// Compare the lab with fio and with itself, and this build with an earlier one (Linux)
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Peers(peers::Peers),
}

fn main() -> ExitCode {
    let chore = Chore::parse();
    let result = process::catch_interrupts().and_then(|()| match chore {
        Chore::Test(arguments) => test::run(&arguments),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::Cost(arguments) => cost::run(&arguments),
        Chore::Rule(arguments) => rule::run(&arguments),
        #[cfg(target_os = "linux")]
        Chore::Torture(arguments) => torture::run(&arguments),
        Chore::ReportPicture(arguments) => browser::picture(&arguments),
        #[cfg(target_os = "linux")]
        Chore::Peers(peers) => peers::run(&peers),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
