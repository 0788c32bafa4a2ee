//! seekless beside other programs that do the same work, in alternation and under the same conditions.

mod before;
mod cache;
mod cases;
mod cmp;
mod fio;
mod holes;
mod idle;
mod itself;
mod lab;
mod memory;
mod ours;
mod report;
mod statistics;
mod tree;
mod update;

use anyhow::Result;
use clap::Subcommand;

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
    /// Comparing two files with `cmp` and `diff -q`
    Cmp(cmp::Arguments),
    /// Reading, copying and making holes, with `cp` and `fallocate --dig-holes`
    Holes(holes::Arguments),
    /// Comparing trees of small files with `diff -rq`, `rsync -rcn` and `tar | tar d`
    Tree(tree::Arguments),
    /// Updating a file of integers beside a write for each, and the best method that there is
    Update(update::Arguments),
}

/// Compares.
pub fn run(peers: &Peers) -> Result<()> {
    match peers {
        Peers::Lab(arguments) => lab::run(arguments),
        Peers::Itself(arguments) => itself::run(arguments),
        Peers::Before(arguments) => before::run(arguments),
        Peers::Cmp(arguments) => cmp::run(arguments),
        Peers::Holes(arguments) => holes::run(arguments),
        Peers::Tree(arguments) => tree::run(arguments),
        Peers::Update(arguments) => update::run(arguments),
    }
}
