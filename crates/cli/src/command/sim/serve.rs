//! `seekless sim serve`: the process behind a simulated disk, which `seekless sim start` starts.

use clap::Args;

/// The device to serve.
#[derive(Debug, Args)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "devices need Linux"))]
pub struct Arguments {
    /// Its name
    name: String,
}

#[cfg(target_os = "linux")]
pub(super) use linux::run;
#[cfg(target_os = "linux")]
pub(in crate::command) use linux::server;

#[cfg(target_os = "linux")]
mod linux {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::thread;

    use anyhow::Context;
    use seekless_sim::device::{DeviceName, serve};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    use super::Arguments;
    use crate::call;
    use crate::command::Failure;
    use crate::signals::survive;

    /// Serves until the device is unmounted. Of the signals that ask to stop, only SIGTERM is meant for it.
    pub fn run(arguments: &Arguments) -> Result<(), Failure> {
        let name = DeviceName::new(&arguments.name)?;
        for signal in [SIGINT, SIGHUP] {
            survive(signal).context("cannot catch signals")?;
        }
        let mut signals = Signals::new([SIGTERM]).context("cannot catch signals")?;
        let stopped = name.clone();
        thread::spawn(move || {
            for _ in signals.forever() {
                // This process must answer requests until the device is unmounted.
                let _ = stop(&stopped).status();
            }
        });
        let stopped = name.clone();
        serve(&name, move || stop(&stopped))?;
        Ok(())
    }

    /// The command that serves a device.
    pub fn server(name: &DeviceName) -> Command {
        let mut command = this_program();
        command.args(["sim", "serve", name.as_str()]);
        command
    }

    fn stop(name: &DeviceName) -> Command {
        let mut command = this_program();
        command.args(["sim", "stop", "--force", name.as_str()]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// This program, even if its file was replaced meanwhile.
    fn this_program() -> Command {
        let mut command = Command::new(call::named_program().unwrap_or_else(|| "/proc/self/exe".into()));
        command.arg0("seekless");
        command
    }
}
