//! `seekless sim start`: a simulated disk, in the background.

use std::path::PathBuf;

use clap::Args;
use seekless_sim::RequestKind;
use seekless_sim::faults::FaultKind;
use seekless_sim::models::DiskModel;

use super::models;
use crate::command::values::{one_of, size_of_at_least};

/// The smallest device.
const LEAST_BYTES: u64 = 16 << 20;
/// How much faster or slower than real time a device can be.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// Start a simulated disk in the background, and mount a file system on it.
///
/// The file system is made at full speed; after that, each request takes the time that the model says. Read-ahead, `rotational` and the
/// I/O scheduler are set as for that disk. The data is in an unnamed sparse file in /var/tmp, which is removed with the device.
#[derive(Debug, Args)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "devices need Linux"))]
#[command(after_help = "\
Examples:
  sudo seekless sim start hdd-2009 --at /mnt/2009       # mounted there
  sudo seekless sim start hdd-2009 --fs xfs --size 20G  # another file system
  sudo seekless sim start hdd-2009 --speed 10x          # ten times as fast
  sudo seekless sim start hdd-2009 --fs none            # only the block device
  sudo seekless sim start null --trace requests.txt     # record requests
  sudo seekless sim start null --fault lying-flush      # with a fault")]
pub struct Arguments {
    /// The disk to simulate
    #[arg(value_name = "MODEL", value_parser = one_of(models()))]
    model: &'static DiskModel,
    /// The size of the disk; it may exceed the free space here, because the data is in a sparse file
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = |text: &str| size_of_at_least(LEAST_BYTES, "minimum is 16M", text))]
    size: u64,
    /// The file system to make
    #[arg(long, value_name = "FS", default_value = "ext4", value_parser = one_of([
        ("ext4", "ext4", "ext4"),
        ("xfs", "XFS", "xfs"),
        ("btrfs", "btrfs", "btrfs"),
        ("none", "only the block device", "none"),
    ]))]
    fs: &'static str,
    /// Mount it at DIR, which must be empty or not exist yet; by default, below /run/seekless
    #[arg(long, value_name = "DIR")]
    at: Option<PathBuf>,
    /// Seed for everything random
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// What goes wrong with requests, once the file system is mounted
    #[arg(long, value_name = "FAULT", value_parser = one_of([
        ("eio", "They fail with EIO", FaultKind::Eio),
        ("enospc", "Writes and discards fail with ENOSPC", FaultKind::Enospc),
        ("stall", "The device answers nothing for 40 ms", FaultKind::Stall),
        ("lying-flush", "Flushes are reported as done, but flush nothing", FaultKind::LyingFlush),
        ("power-cut", "The power fails before the request is served; `seekless sim cut` brings it back", FaultKind::PowerCut),
    ]))]
    fault: Option<FaultKind>,
    /// Requests that it happens to; repeat it for several [default: all that it can happen to]
    #[arg(long, value_name = "REQUEST", requires = "fault", value_parser = one_of([
        ("read", "Reads", RequestKind::Read),
        ("write", "Writes", RequestKind::Write),
        ("flush", "Flushes", RequestKind::Flush),
        ("discard", "Discards", RequestKind::Discard),
    ]))]
    fault_on: Vec<RequestKind>,
    /// It happens to the Nth of these requests, not to all of them
    #[arg(long, value_name = "N", requires = "fault", value_parser = clap::value_parser!(u64).range(1..))]
    fault_nth: Option<u64>,
    /// It happens to so many of these requests [default: all, or 1 with --fault-nth]
    #[arg(long, value_name = "N", requires = "fault", value_parser = clap::value_parser!(u64).range(1..))]
    fault_times: Option<u64>,
    /// Speed relative to real time, as in 10x
    #[arg(long, value_name = "X", default_value = "1x", value_parser = speed)]
    speed: f64,
    /// Keep the data in FILE, which stays; if it has data, its file system is mounted, and FILE determines the size
    #[arg(long, value_name = "FILE")]
    backing: Option<PathBuf>,
    /// Record all requests in FILE; an existing file is overwritten only if it is a trace
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

fn speed(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>();
    let fit = number.ok().filter(|speed| SPEEDS.contains(speed));
    fit.ok_or_else(|| "must be a factor from 0.001x to 1000x".to_owned())
}

/// The fault that the options describe.
#[cfg(target_os = "linux")]
fn fault(arguments: &Arguments) -> anyhow::Result<Option<seekless_sim::faults::DeviceFault>> {
    let Some(kind) = arguments.fault else { return Ok(None) };
    if arguments.fault_on.iter().any(|on| !kind.requests().contains(on)) {
        anyhow::bail!("--fault-on: this fault does not happen to such a request");
    }
    let times = arguments.fault_times.or(arguments.fault_nth.and(Some(1)));
    Ok(Some(seekless_sim::faults::DeviceFault {
        kind,
        on: arguments.fault_on.clone(),
        nth: arguments.fault_nth.unwrap_or(1),
        times: times.unwrap_or(u64::MAX),
    }))
}

#[cfg(target_os = "linux")]
pub(super) fn run(arguments: &Arguments) -> Result<(), crate::command::Failure> {
    use std::io::Write;

    use seekless_results::bytes;
    use seekless_sim::device::{DeviceOptions, FILE_SYSTEMS, require, room, start};

    use crate::command::Failure;
    use crate::output::refuse_input;
    use crate::show::visible_path;

    if let Some(trace) = &arguments.trace {
        refuse_input(trace, arguments.backing.as_deref())?;
    }
    let options = DeviceOptions {
        model: arguments.model,
        size_bytes: arguments.size,
        file_system: FILE_SYSTEMS.iter().find(|maker| maker.name == arguments.fs),
        has_fixed_uuid: false,
        mount_point: arguments.at.clone(),
        seed: arguments.seed,
        fault: fault(arguments)?,
        speed: arguments.speed,
        backing: arguments.backing.clone(),
        trace: arguments.trace.clone(),
        stays: true,
    };
    require(&options)?;
    super::clear_stale()?;
    // It is started again as the server.
    crate::call::program()?;
    let caught = crate::signals::on_signal(|_| {})?;
    let is_interrupted = || caught.signal().is_some();
    let (name, state) = match (start(&options, super::serve::server, &is_interrupted), caught.signal()) {
        // What it had started may have been interrupted, too.
        (Err(_), Some(signal)) => return Err(Failure::Stopped(signal)),
        (started, _) => started?,
    };
    let name = name.as_str();
    let mut out = crate::show::stdout();
    writeln!(out, "{name}: {}, {}", bytes(state.size_bytes), super::place(&state))?;
    let (directory, room_bytes) = room(state.backing.as_deref())?;
    if room_bytes < state.size_bytes {
        let (directory, room) = (visible_path(directory), bytes(room_bytes));
        writeln!(
            out,
            "{directory} has room for {room} of its data; writes beyond that fail"
        )?;
    }
    writeln!(out, "To stop it: seekless sim stop {name}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::speed;

    #[test]
    fn a_speed_is_a_factor_with_or_without_x() {
        assert_eq!(speed("10x"), Ok(10.0));
        assert_eq!(speed("0.5"), Ok(0.5));
        for wrong in ["", "x", "0", "-1x", "nan", "1e9", "10xx"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
