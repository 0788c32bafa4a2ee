//! The lab held against fio, against itself, and this build against an earlier one.
//!
//! Other programs that do what seekless does are compared by the lab itself, in `experiments/peers`.

mod before;
mod fio;
mod itself;
mod lab;
mod ours;

use anyhow::Result;
use clap::Subcommand;
use seekless_record::Interval;

/// What to compare.
#[derive(Subcommand)]
pub enum Peers {
    /// The lab's trials with fio's: are they the same measurement?
    Lab(lab::Arguments),
    /// The lab with itself: does one method under two names tie, and what does the clock cost?
    #[command(name = "self")]
    Itself(itself::Arguments),
    /// This build with that of an earlier revision: did a change make it slower?
    Before(before::Arguments),
}

/// Compares.
pub fn run(peers: &Peers) -> Result<()> {
    match peers {
        Peers::Lab(arguments) => lab::run(arguments),
        Peers::Itself(arguments) => itself::run(arguments),
        Peers::Before(arguments) => before::run(arguments),
    }
}

/// The middle of paired ratios with its interval, where there are enough of them for one.
fn in_words(ratio: Option<Interval>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(Interval {
            median, coverage: None, ..
        }) => format!("{median:.3} (too few pairs)"),
        Some(Interval { low, median, high, .. }) => format!("{median:.3} ({low:.3} to {high:.3})"),
    }
}
