//! The project's chores, as `cargo xtask CHORE`: its one test command, and trials of seekless on real file systems.
//!
//! Nothing here is part of what users install. Standard programs are called (`mount`, `mkfs.*`, `strace`, `apt-get`).

mod browser;
mod built;
mod changed;
mod cost;
mod filesystems;
mod fuzz;
mod hub;
mod package;
mod process;
mod python;
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
    /// Make the packages of a release in target/package, and use each once (Linux)
    Package(package::Arguments),
    /// Run random commands on real file systems, disturb them, and check the results (Linux, root)
    #[cfg(target_os = "linux")]
    Torture(torture::Arguments),
}

fn main() -> ExitCode {
    let chore = Chore::parse();
    let result = process::catch_interrupts().and_then(|()| match chore {
        Chore::Test(arguments) => test::run(&arguments),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::Cost(arguments) => cost::run(&arguments),
        Chore::Rule(arguments) => rule::run(&arguments),
        Chore::Package(arguments) => package::run(&arguments),
        #[cfg(target_os = "linux")]
        Chore::Torture(arguments) => torture::run(&arguments),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
