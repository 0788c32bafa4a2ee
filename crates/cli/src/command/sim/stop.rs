//! `seekless sim stop`: ends simulated disks.

use clap::Args;

/// Stop simulated disks: unmount them, and remove what was made for them.
///
/// If a process uses a disk, it stays, unless --force is given.
#[derive(Debug, Args)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "devices need Linux"))]
#[command(after_help = "\
Examples:
  sudo seekless sim stop hdd-2009
  sudo seekless sim stop --all")]
pub struct Arguments {
    /// Names of disks, as `seekless sim list` prints them
    #[arg(value_name = "DISK", required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// Stop all of them
    #[arg(long)]
    all: bool,
    /// Detach a disk that is in use; it ends when the last process closes it
    #[arg(long)]
    force: bool,
}

#[cfg(target_os = "linux")]
pub(super) fn run(arguments: &Arguments) -> Result<(), crate::command::Failure> {
    use std::io::Write;

    use seekless_sim::device::{DeviceName, devices, stop};

    use crate::command::unless_failed;

    super::clear_stale()?;
    let names = if arguments.all {
        devices()?
    } else {
        let names = arguments.names.iter().map(|name| DeviceName::new(name));
        names.collect::<Result<_, _>>()?
    };
    let mut errors = Vec::new();
    for name in &names {
        match stop(name, arguments.force) {
            Ok(is_gone) => {
                let detached = "detached; it ends when the last process closes it";
                let how = if is_gone { "stopped" } else { detached };
                writeln!(crate::show::stdout(), "{}: {how}", name.as_str())?;
            }
            Err(error) => errors.push(error.into()),
        }
    }
    unless_failed(errors)
}
