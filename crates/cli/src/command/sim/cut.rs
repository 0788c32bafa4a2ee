//! `seekless sim cut`: the power of a simulated disk fails.

use clap::Args;
use seekless_sim::power::PowerLoss;

use crate::command::values::one_of;

/// Cut the power of simulated disks, and bring it back.
///
/// What was written since the last flush is only in a disk's write cache, and may be lost. Programs that use the disk get errors
/// from then on. A new device holds what is left, and its file system is mounted at the same place, where it recovers. Several
/// disks lose power at the same moment. If a fault cut the power (`--fault power-cut`), requests wait until this command
/// completes the cut.
#[derive(Debug, Args)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "devices need Linux"))]
#[command(after_help = "\
Examples:
  sudo seekless sim cut null                  # what is lost is random
  sudo seekless sim cut null --seed 7         # random, by this seed
  sudo seekless sim cut null --lose lost      # all unflushed writes are lost
  sudo seekless sim cut null --lose torn      # the oldest are kept, one in part")]
pub struct Arguments {
    /// Names of disks, as `seekless sim list` prints them
    #[arg(value_name = "DISK", required = true)]
    names: Vec<String>,
    /// What becomes of unflushed writes; by default random
    #[arg(long, value_name = "WHAT", value_parser = one_of([
        ("lost", "none of them is on the disk", PowerLoss::Lost),
        ("kept", "all of them are on the disk", PowerLoss::Kept),
        ("torn", "the oldest are on the disk, and a part of the next", PowerLoss::Torn),
        ("reordered", "any of them are on the disk, in whole or in part", PowerLoss::Reordered),
    ]))]
    lose: Option<PowerLoss>,
    /// Seed for everything random
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

#[cfg(target_os = "linux")]
pub(super) fn run(arguments: &Arguments) -> Result<(), crate::command::Failure> {
    use std::collections::BTreeSet;
    use std::io::Write;

    use seekless_results::bytes;
    use seekless_sim::device::{DeviceName, cut};

    super::clear_stale()?;
    let names = arguments.names.iter().map(|name| DeviceName::new(name));
    let names = names.collect::<Result<BTreeSet<_>, _>>()?;
    let devices: Vec<_> = names.iter().map(|name| (name, arguments.lose)).collect();
    let reports = cut(&devices, arguments.seed)?;
    let mut out = crate::show::stdout();
    for (name, report) in names.iter().zip(reports) {
        let (unflushed, lost) = (bytes(report.unflushed_bytes), bytes(report.lost_bytes));
        let name = name.as_str();
        writeln!(
            out,
            "{name}: power cut and restored; unflushed: {unflushed}, lost: {lost}"
        )?;
    }
    Ok(())
}
