//! `seekless watch-read-ahead`: puts a device's read-ahead window back when the run is killed that set it. Hidden: the run starts
//! it.

use std::ffi::OsString;

use clap::Args;

/// Puts a device's read-ahead window back when standard input ends.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The name of the device
    device: OsString,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    seekless_lab::read_ahead::watch(&arguments.device, &mut input, &mut output)?;
    Ok(())
}
